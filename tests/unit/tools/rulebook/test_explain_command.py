"""Tests of ``explain``: rules, families, terms, log lines and related entries."""

from __future__ import annotations

import json

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
    assert data(capsys, what)["found"] == found
    code, out, _ = explain(capsys, what)
    assert code == exits.HOLDS
    assert out.splitlines()[0].startswith({
        "rule": "rule", "rules": f"{len(data(capsys, what).get('rules', ()))} rules", "term": "term of the glossary",
        "line": "log line of llama_cpp", "text": "no exact match; related entries:",
    }[found])


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
    found = data(capsys, "erased invalidated")
    assert found["found"] == "text"
    assert found["lines"][0]["form"].startswith("erased invalidated context checkpoint")


@pytest.mark.parametrize(("what", "hint"), [
    ("LC-CKPT-ERAZE", "LC-CKPT-ERASE"), ("pos_mni", "pos min"), ("zzqq", "cachesim profiles show"), ("", ""),
])
def test_nothing_found_is_one_line_with_the_nearest_word(capsys, what, hint):
    code, out, err = explain(capsys, what)
    assert (code, out) == (exits.BAD_INPUT, "") and len(err.splitlines()) == 1 and hint in err


def test_flags_that_govern_rules_exist():
    for engine in ENGINES.values():
        families = {name.split(".")[0] for name in RULES}
        assert set(engine.rule_flags) <= families
        assert all(engine.manual.flag(name) for names in engine.rule_flags.values() for name in names)
