"""Tests of pull requests that repair a loss: their case evaluates fewer tokens under them, with correct answers."""

from __future__ import annotations

import pytest

from cachesim.engines.registry import engine_of
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.known_repairs import repair_among, repair_by, repair_of_rule
from cachesim.scenarios.load import load


@pytest.mark.parametrize(("rule", "pull"), [
    ("LC-PC-LOAD.TAKE", "ggml-org/llama.cpp#24143"), ("IK-PC-HIT.TAKE", "ikawrakow/ik_llama.cpp#1877"),
    ("ML-THINKS.TOKENIZER", "ml-explore/mlx-lm#1030"),
])  # fmt: skip
def test_a_rule_has_the_pull_request_that_repairs_it(rule, pull):
    repair = repair_of_rule(rule)
    scenario = load(corpus_files()[repair.case])
    counts = []
    for profile in (repair.base, repair.profile):
        run = run_judged(scenario, profile, "provenance")
        assert not run.broken
        counts.append(sum(one.answer.prompt_n for one in run.requests))
    assert (repair.pull, [repair.evaluated, repair.repaired]) == (pull, counts) and counts[1] < counts[0]


@pytest.mark.parametrize("rule", ["LC-PC-LOAD.CLONE", "LC-CKPT-PICK.PK2", "no-rule", ""])
def test_a_rule_without_an_open_repair_has_none(rule):
    assert repair_of_rule(rule) is None


def test_the_repair_of_a_rule_is_found_among_rule_sets():
    names = ["llama_cpp@b11549", "llama_cpp@pr24143-on-b10587"]
    assert repair_among("LC-PC-LOAD.TAKE", names).profile == names[1]
    assert repair_among("LC-PC-LOAD.TAKE", names[:1]) is repair_among("LC-CKPT-PICK.PK2", names) is None


def test_a_released_rule_set_is_no_pull_request():
    engine = engine_of("llama_cpp@b11549")
    assert repair_by(engine, "llama_cpp@b11549") is None
    assert repair_by(engine, "llama_cpp@pr24143-on-b10587").rule == "LC-PC-LOAD.TAKE"
