"""Tests of ``explain``: rules, families, terms, log lines and related entries."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import RULES

LINE = "selected slot by LCP similarity, sim_best = 0.643 (> 0.100 thold), f_keep = 0.643"


def explain(capsys, *argv):
    code = main(["explain", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def data(capsys, what):
    return json.loads(explain(capsys, what, "--json")[1])


@pytest.mark.parametrize(("what", "found"), [
    ("LC-CKPT-ERASE.ER2", "rule"), ("lc-ckpt-erase.er2", "rule"), ("ml-lru-hand.COPY", "rule"), ("IK-REUSE", "rule"),
    ("LC-CKPT-ERASE", "rules"), ("lc-ckpt", "rules"), ("ML-RING-MERGE", "rules"), ("ml-ring-merge.last", "rule"),
    ("pos_min", "term"), ("Sliding Window", "term"), (LINE, "line"), ("swa full", "text"),
])  # fmt: skip
def test_what_is_found_is_said(capsys, what, found):
    explained = data(capsys, what)
    assert explained["found"] == found
    code, out, _ = explain(capsys, what)
    assert code == exits.HOLDS
    assert out.splitlines()[0].startswith({
        "rule": "rule", "rules": f"{len(explained.get('rules', ()))} rules", "term": "term of the glossary",
        "line": "log line of llama_cpp", "text": "no exact match; related entries:",
    }[found])


def test_a_rule_that_older_releases_may_have_had_is_not_dated(capsys):
    """Releases before the oldest simulated one may have had it; what is known of a dated rule is printed."""
    assert data(capsys, "VL-OFF-STORE")["rules"][0]["builds"] == []
    words = " ".join(explain(capsys, "VL-OFF-STORE")[1].split())
    assert "builds" not in words and "vllm@0.33.0, vllm@0.33.0-repaired, vllm@0.32.0, vllm@0.31.0, vllm@0.30.0" in words
    builds = data(capsys, "VL-SPEC-LOOKAHEAD")["rules"][0]["builds"]
    assert builds == ["since a build between 2026-10-18 and 2026-11-02"]


def test_a_family_that_is_a_rule_too_lists_its_members(capsys):
    assert [rule["rule"] for rule in data(capsys, "LC-CKPT-RESET")["rules"]] == ["LC-CKPT-RESET", "LC-CKPT-RESET.ALL"]
    assert "LC-CKPT-RESET.ALL" in explain(capsys, "LC-CKPT-RESET")[1]


def test_a_rule_names_its_life_its_flags_and_its_scenarios(capsys):
    [er2] = data(capsys, "LC-CKPT-ERASE.ER2")["rules"]
    assert er2["in_force"]["since"] == "llama_cpp@b8450" and er2["in_force"]["until"] == ""
    assert er2["instead"]["before"] == "LC-CKPT-ERASE.ER1" and er2["instead"]["after"] == ""
    assert {"profile": "llama_cpp@24035-v1", "rule": "LC-CKPT-ERASE.V1"} in er2["instead"]["proposed"]
    assert er2["shown_in"] and er2["link"].startswith("https://github.com/ggml-org/llama.cpp/blob/3f545be/")
    [spacing] = data(capsys, "LC-CKPT-SPACING.CR10")["rules"]
    assert [one["flag"] for one in spacing["flags"]] == ["--checkpoint-min-step"]
    out = explain(capsys, "LC-CKPT-SPACING.CR10")[1]
    assert "--checkpoint-min-step" in out and "shown in" in out
    assert "LC-CKPT-SPACING.CR11, since llama_cpp@b11063" in out


def test_a_proposal_names_what_its_base_has(capsys):
    [clone] = data(capsys, "LC-PC-LOAD.CLONE")["rules"]
    assert clone["instead"]["before"] == "LC-PC-LOAD.TAKE"


def test_a_log_is_explained_line_by_line(capsys, tmp_path):
    (tmp_path / "server.log").write_text(f"slot get_available: id  0 | task -1 | {LINE}\n")
    found = data(capsys, str(tmp_path / "server.log"))
    assert found["found"] == "log" and [kind["kind"] for kind in found["log"]["kinds"]] == ["slot_by_lcp"]
    assert "selected slot by LCP similarity" in explain(capsys, str(tmp_path / "server.log"))[1]


def test_a_part_of_a_log_line_finds_the_line(capsys):
    found = data(capsys, "invalidated context")
    assert found["found"] == "text"
    assert found["lines"][0]["form"].startswith("erased invalidated context checkpoint")


@pytest.mark.parametrize(("what", "hint"), [
    ("LC-CKPT-ERAZE", "LC-CKPT-ERASE"), ("pos_mni", "pos_min"), ("zzqq", "cachesim profiles show"), ("", ""),
])
def test_nothing_found_is_one_line_with_the_nearest_word(capsys, what, hint):
    code, out, err = explain(capsys, what)
    assert (code, out) == (exits.BAD_INPUT, "") and len(err.splitlines()) == 1 and hint in err


def test_flags_that_govern_rules_exist():
    for engine in ENGINES.values():
        families = {name.split(".")[0] for name in RULES}
        assert set(engine.rule_flags) <= families
        assert all(engine.manual.flag(name) for names in engine.rule_flags.values() for name in names)


CHECK = "slot   operator(): id  2 | task 7 | checking checkpoint with [{}, {}] against {}..."


@pytest.mark.parametrize(("what", "kind"), [
    ("forcing full prompt re-processing", "full_reprocess"), ("erased invalidated", "ckpt_invalidate"),
    ("I slot update_slots: id  0 | task 5 | checking checkpoint with [46260, 462", "ckpt_check"),
    ("srv        update:  - cache state: 3 prompts, 12", "pc_state"), ("looking for better prompt", "pc_search"),
    ("selected", ""), ("xy", ""),
])  # fmt: skip
def test_the_beginning_of_a_line_is_explained(capsys, what, kind):
    """A beginning of several kinds of line lists them; two letters begin nothing."""
    code, out, _ = explain(capsys, what, "--json")
    found = json.loads(out) if code == exits.HOLDS else {"found": ""}
    assert (found["line"]["kind"], found["line"]["numbers"]) == (kind, {}) if kind else found["found"] != "line"


@pytest.mark.parametrize("what", [
    "failed to load model", "failed to open the file", "failed to", "error: failed to load model 'x.gguf'",
    "failed to initialise the context", "loading model", "decode: something else",
])  # fmt: skip
def test_words_that_only_begin_like_a_line_are_not_explained_as_that_line(capsys, what):
    code, out, err = explain(capsys, what)
    assert not out.startswith("log line")
    assert code == exits.HOLDS or err.startswith("cachesim: no entry for ")


@pytest.mark.parametrize("argument, effect", [
    ("--quantization", "vllm: changes the size of the pool; sglang: changes the size of the pool"),
    ("--dp-size", "sglang: is not simulated"),
])  # fmt: skip
def test_an_argument_that_is_no_option_brings_its_effect(capsys, argument, effect):
    code, _, err = explain(capsys, "--", argument)
    assert (code, err) == (exits.BAD_INPUT, f"cachesim: no entry for '{argument}' ({effect})\n")


def test_unknown_words_bring_the_nearest_terms(capsys):
    code, _, err = explain(capsys, "failed to load model")
    assert code == exits.BAD_INPUT and "(nearest terms: " in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(("what", "engine", "kind", "numbers"), [
    ("saving prompt with length 77712, total state size = 18821.469 MiB", "llama_cpp", "pc_save",
     {"n_tokens": 77712, "mib": 18821.469}),
    ("Prefix cache hit rate: 0.0%", "vllm", "status", {"hit_rate": 0.0}),
    ("GPU KV cache usage: 12.5%, Prefix cache hit rate: 3.1%", "vllm", "status", {"usage": 12.5, "hit_rate": 3.1}),
    ("Running: 3 reqs, Waiting: 1 reqs", "vllm", "status", {"running": 3, "waiting": 1}),
    ("failed to decode mtmd", "llama_cpp", "media_failed", {}),
    ("some proxy> selected slot by LRU, t_last = 7", "llama_cpp", "slot_by_lru", {"t_last": 7}),
    ("ValueError: token_to_kv_pool_allocator memory leak detected! available_size=1", "sglang", "pool_leak", {}),
    ("init: the tokens of sequence 0 in the input batch have inconsistent sequence positions:", "llama_cpp",
     "positions_bad", {}),
])  # fmt: skip
def test_a_part_of_a_line_and_a_line_with_another_prefix_are_explained(capsys, what, engine, kind, numbers):
    line = data(capsys, what)["line"]
    assert (line["engine"], line["kind"], line["numbers"]) == (engine, kind, numbers)


PREFIXES = [
    "slot get_availabl: id  3 | task 9 | {}", "I slot get_availabl: id  3 | task 9 | {}", "id  3 | task 9 | {}",
    "0.12.345.678 I slot get_availabl: id  3 | task 9 | {}", "2026-11-21T10:00:00.123Z {}", "[21041] {}",
    "llama-1  | slot get_availabl: id  3 | task 9 | {}", "2026-11-21T10:00:00.1Z stdout F {}",
    "Nov 21 10:00:00 box llama-server[99]: slot get_availabl: id  3 | task 9 | {}", "  {}", "> {}",
    "[pod/llama-0/server] {}", "Nov 21 10:00:00 box docker[9]: {}",
]  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_does_not_hide_a_line(capsys, prefix):
    line = data(capsys, prefix.format("selected slot by LRU, t_last = 7"))["line"]
    assert (line["kind"], line["numbers"]) == ("slot_by_lru", {"t_last": 7})
    assert (line["slot"], line["task"]) == ((3, 9) if "id  3" in prefix else (None, None))


@pytest.mark.parametrize("term", [
    "inconsistent sequence positions", "draft model is not used", "num_cached_tokens", "cached_tokens",
    "prefix cache hit rate", "radix tree", "RadixAttention", "bigram", "prompt_logprobs", "preemption", "retraction",
    "block", "block hash", "null block", "page_size", "chunked prefill", "cache_salt", "mamba_cache_mode", "no_buffer",
    "extra_buffer", "tombstone", "lock_ref", "KV cache group", "attention block size", "free list", "EAGLE",
    "reset_prefix_cache", "flush_cache", "token_to_kv_pool_allocator memory leak detected!", "prefix caching",
])  # fmt: skip
def test_terms_of_reports_are_in_the_glossary(capsys, term):
    assert data(capsys, term)["found"] == "term"


def test_the_example_of_the_readme_is_a_line(capsys):
    code, out, _ = explain(capsys, "forcing full prompt re-processing")
    assert code == exits.HOLDS and out.startswith("log line of llama_cpp; the same line in ik_llama")
    assert "n_past = 0" in out and "no exact match" not in out


def test_several_lines_are_explained_with_a_verdict_each(capsys):
    lines = "\n".join(["0.01 hello", CHECK.format(30, 30, 20), CHECK.format(10, 10, 20), "[GIN] 2026"])
    found = data(capsys, lines)
    assert found["found"] == "log" and found["log"]["lines"] == 4 and found["log"]["known"] == 2
    assert [(row["line"], row["verdict"]) for row in found["log"]["verdicts"]] == [
        (2, "pos_min = 30 is not below the threshold 20: cannot be restored"),
        (3, "pos_min = 10 is below the threshold 20: can be restored")]  # fmt: skip
    assert found["log"]["ordinary"] == [{"is": "HTTP access line", "times": 1}]
    assert "line 3: pos_min = 10 is below" in explain(capsys, lines)[1]
    code, _, err = explain(capsys, "hello\nworld")
    assert code == exits.BAD_INPUT and "none of these lines is known" in err


@pytest.mark.parametrize(("line", "name", "engine"), [
    ("srv  log_server_r: done request: POST /v1/chat/completions 127.0.0.1 200", "HTTP access line", "llama_cpp"),
    ('127.0.0.1 - - [21/Nov/2026 10:00:00] "POST /v1/chat/completions HTTP/1.1" 200 -', "HTTP access line", ""),
    ("slot print_timing: id  0 | task 5 |    graphs reused =      46499", "performance counter", "llama_cpp"),
    ("srv  params_from_: Chat format: peg-native", "chat template", "llama_cpp"),
])
def test_ordinary_lines_are_not_about_the_cache(capsys, line, name, engine):
    found = data(capsys, line)
    assert found["found"] == "ordinary" and (found["ordinary"]["is"], found["ordinary"]["engine"]) == (name, engine)
    assert explain(capsys, line)[1].startswith(f"not about the cache: {name}")


def test_standard_input_is_read():
    done = subprocess.run([sys.executable, "-m", "cachesim", "explain", "-", "--json"], capture_output=True, text=True,
                          input=f"{CHECK.format(30, 31, 20)}\n", check=True)  # fmt: skip
    assert [kind["kind"] for kind in json.loads(done.stdout)["log"]["kinds"]] == ["ckpt_check"]
