"""Lines that are explained although their prefix or a part of them is missing, and lines that are not about caches."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.tools.server_logs.lines import explanations
from cachesim.tools.server_logs.lines.explanations import (
    LONGEST,
    explain_beginning,
    explain_line,
    explain_log,
    explain_ordinary,
    explain_text,
    ordinary_name,
)
from cachesim.tools.server_logs.lines.recognise import grammars

LRU = "selected slot by LRU, t_last = -1"
FULL = "slot update_slots: id  3 | task 7 | "
CHECK = "checking checkpoint with [46260, 46261] against 43667..."


@pytest.mark.parametrize("line", [LRU, f"x: {LRU}", f"somebody wrote {LRU}", f"\x1b[32m{LRU}\x1b[0m"])
def test_a_message_is_found_without_the_prefix_of_its_server(line):
    found = explain_line(line)
    assert (found["engine"], found["kind"], found["slot"], found["task"]) == ("llama_cpp", "slot_by_lru", None, None)


def test_slot_and_task_of_a_prefix_belong_to_a_message_after_other_words():
    found = explain_line(f"{FULL}oh: {LRU}")
    assert (found["kind"], found["slot"], found["task"]) == ("slot_by_lru", 3, 7)


@pytest.mark.parametrize("line, kind, numbers", [
    ("checking checkpoint with [46260,", "ckpt_check", {"pos_min": 46260}), ("selected slot by LRU", "slot_by_lru", {}),
])  # fmt: skip
def test_a_part_of_a_message_is_explained_without_the_numbers_that_it_lacks(line, kind, numbers):
    found = explain_line(line)
    assert (found["kind"], found["numbers"]) == (kind, numbers)


@pytest.mark.parametrize("line, name", [
    ('10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK', "HTTP access line"),
    ("[GIN] 2024/01/01 - 10:00:00 | 200", "HTTP access line"),
    ("Traceback (most recent call last):", "traceback"), ('  File "a.py", line 3, in f', "traceback"),
    ("Loading: 40%|####      | 4/10 [00:01<00:01]", "progress bar"),
])  # fmt: skip
def test_lines_of_any_server_that_are_not_about_caches_have_a_name(line, name):
    found = explain_ordinary(line)
    assert (found["is"], found["text"]) == (name, line) and ordinary_name(grammars()["mlx_lm"], line) != ""
    assert found["engine"] in ("", *grammars())


def test_an_unknown_line_has_no_name():
    assert explain_ordinary("something else") is None and ordinary_name(grammars()["llama_cpp"], "something else") == ""


def test_a_long_ordinary_line_is_cut():
    line = '"GET / HTTP/1.1" ' + "x" * 500
    assert explain_ordinary(line)["text"] == line[:400]
    own = "Loading safetensors checkpoint shards " + "x" * 500
    assert explain_ordinary(own)["text"] == own[:400]


def test_a_long_known_line_is_cut():
    message = CHECK.replace(" [", " " * 500 + "[")
    assert explain_line(message)["text"] == message[:400]
    [verdict] = explain_text(FULL + message)["verdicts"]
    assert verdict["text"] == message[:400]


def test_ordinary_lines_of_a_log_are_counted_by_name():
    lines = [*(f'File "a.py", line {at}, in f' for at in range(3)), "4%|x| 4/10", "unknown", f"{FULL}{LRU}"]
    found = explain_text("\n".join(lines))
    assert found["ordinary"] == [{"is": "traceback", "times": 3}, {"is": "progress bar", "times": 1}]
    assert (found["known"], found["lines"]) == (1, 6)


def test_verdicts_are_limited_and_name_their_lines(monkeypatch):
    monkeypatch.setattr(explanations, "MAX_VERDICTS", 2)
    lines = [f"{FULL}{CHECK}"] * 4
    found = explain_text("\n".join(lines))
    assert [one["line"] for one in found["verdicts"]] == [1, 2] and found["kinds"][0]["times"] == 4
    assert all(one["text"] == CHECK and one["verdict"] for one in found["verdicts"])


@pytest.mark.parametrize("line", ["- saving prompt with length 179, total state size = 0.090 MiB (draft: 0.000 MiB)",
                                  "cached n_tokens = 0, memory_seq_rm [0, end)"])  # fmt: skip
def test_a_message_alone_is_explained(line):
    found = explain_line(line)
    assert found["text"] == line and explain_line(f"so they said {line}")["kind"] == found["kind"]


@pytest.mark.parametrize("line, engine, name", [
    ("srv  log_server_r: done request: POST /infill 127.0.0.1 200", "llama_cpp", "HTTP access line"),
    ("Loading safetensors checkpoint shards", "vllm", "loading of the model"),
    ("GET / HTTP/1.1", "", "HTTP access line"),
])  # fmt: skip
def test_an_ordinary_line_names_the_engine_that_prints_it(line, engine, name):
    assert explain_ordinary(line) == {"engine": engine, "is": name, "text": line}


@pytest.mark.parametrize("text", ["looking for better prompt, base f_keep = 0.5, f_sim = 0.3", "something else"])
def test_a_message_may_lack_the_dash_of_its_list(text):
    found = explain_line(text)
    assert (found and (found["kind"], found["numbers"])) == (
        None if text == "something else" else ("pc_search", {"f_keep": 0.5, "f_sim": 0.3}))  # fmt: skip


@pytest.mark.parametrize(("before", "numbers"), [(LONGEST - len(LRU), {"t_last": -1}), (LONGEST, None)])
def test_a_message_after_2000_other_characters_is_not_looked_for(before, numbers):
    found = explain_line("y" * (before - 1) + " " + LRU)
    assert (found and found["numbers"]) == numbers


def test_a_beginning_is_explained_by_the_first_engine_that_prints_it():
    found = explain_beginning("selected slot by LRU")
    assert (found["engine"], found["also"], found["numbers"]) == ("llama_cpp", ["ik_llama"], {})
    assert explain_beginning("selected slot by L") is None


@pytest.mark.parametrize(("line", "rule"), [
    ("Common part does not match fully", "IK-PREFIX"),
    ("no checkpoint before divergence point - reprocessing from scratch", "IK-CKPT"),
])  # fmt: skip
def test_the_rules_of_a_line_are_those_of_the_last_rule_set(line, rule):
    found = explain_line(line)
    last = {getattr(value, "rule", "") for value in ENGINES["ik_llama"].rules(ENGINES["ik_llama"].line[-1])
            .fields().values()}  # fmt: skip
    assert found["engine"] == "ik_llama" and found["rules"] and {*found["rules"]} <= last
    assert all(one.startswith(rule) for one in found["rules"])


@pytest.mark.parametrize("text", ["about get_availabl and nothing else", "about Prompt Cache: and nothing else"])
def test_lines_with_the_signs_of_an_engine_alone_explain_nothing(text):
    with pytest.raises(BadInput, match="none of these lines is known"):
        explain_text(text)


def test_a_log_is_explained_with_its_file(tmp_path):
    file = tmp_path / "server.log"
    file.write_text(f"{FULL}{LRU}\n{FULL}{CHECK}\nunknown\n")
    found = explain_log(file)
    assert (found["file"], found["engine"], found["lines"], found["known"]) == (str(file), "llama_cpp", 3, 2)
    assert [one["kind"] for one in found["kinds"]] == ["slot_by_lru", "ckpt_check"]


def test_a_file_without_a_known_line_is_no_log(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("something else\n")
    with pytest.raises(BadInput, match="not a known server log"):
        explain_log(file)


@pytest.mark.parametrize(("kept", "has_causes"), [("0.500", True), ("1.000", False)])
def test_a_prompt_that_begins_with_the_tokens_of_its_slot_has_no_causes(kept, has_causes):
    line = f"selected slot by LCP similarity, f_sim_best = 0.798 (> 0.100 thold), f_keep = {kept}"
    assert bool(explain_line(line)["causes"]) is has_causes


@pytest.mark.parametrize(("cached", "verdict"), [
    (10752, "10,752 tokens of the admitted prompts were cached, 512 are evaluated in this step"), (0, ""),
])  # fmt: skip
def test_a_prefill_step_names_its_cached_tokens(cached, verdict):
    line = (f"Prefill batch. #new-seq: 1, #new-token: 512, #cached-token: {cached}, token usage: 0.05, "
            "#running-req: 0, #queue-req: 0, ")  # fmt: skip
    assert explain_line(line)["verdict"] == verdict
