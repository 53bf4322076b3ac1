"""Tests that every sentence states the decision of its own rule, with that rule's condition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cachesim.engines.llama_cpp.profiles import PROFILES
from cachesim.engines.llama_cpp.profiles.b10587 import B10587
from cachesim.engines.llama_cpp.rules import checkpoint_restore as use
from cachesim.engines.llama_cpp.rules import older_checkpoint_restore as old_use
from cachesim.engines.llama_cpp.rules import repaired, seq_rm_and_state
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Ckpt, PromptInputs
from cachesim.judging.judged_run import run_judged
from cachesim.judging.verdict_text import sentence
from cachesim.judging.why_data import answer_data
from cachesim.scenarios.load import load

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"


def said(decision, rule=None):
    return sentence(rule or decision.rule, decision.value, decision.because, every=True)


def ask(n_past=50, pos_min=60, held=100, n_tokens=80, exact=True, n_swa=0):
    return PromptInputs(n_past, n_past, held, n_tokens, pos_min, n_swa, exact)


HAD = [Ckpt(40, 39, 39, 0, 1), Ckpt(50, 49, 49, 0, 1)]
EXACT = [
    (old_use.pick_pk0, "pos_min <= 50"),
    (old_use.pick_pk1, "pos_min < 50"),
    (use.pick_pk2, "pos_min < 50 or pos_min = 0"),
    (use.pick_pk3, "pos_max <= 50 and (pos_min < 50 or pos_min = 0)"),
    (repaired.pick_whole, "pos_max <= 50 and (pos_min < 50 or pos_min = 0)"),
    (use.pick_v1, "n_tokens <= 50 and < 80, pos_max <= 50"),
    (use.pick_v3, "the longest with n_tokens <= 50"),
    (repaired.pick_whole, "pos_max <= 50 and (pos_min < 50 or pos_min = 0)"),
]


@pytest.mark.parametrize("rule, condition", EXACT, ids=[rule.rule for rule, _ in EXACT])
def test_every_pick_has_its_own_condition(rule, condition):
    assert said(rule(HAD, ask(), 50)) == (
        f"restores checkpoint n_tokens = 50 (candidates: [40, 50]); required: {condition}"
    )


def test_every_pick_of_a_rule_set_is_listed():
    assert {rules.ckpt_pick.rule for rules in PROFILES.values()} == {rule.rule for rule, _ in EXACT}


@pytest.mark.parametrize("rule, like", [(use.pick_v1, use.pick_pk2), (use.pick_v3, use.pick_pk3)])
def test_a_memory_that_can_be_cut_is_picked_for_as_before(rule, like):
    facts = HAD, ask(exact=False), 50
    assert said(rule(*facts)) == said(like(*facts))


def test_no_checkpoint_and_a_rule_of_ones_own():
    assert said(use.pick_pk3([], ask(), 50)).startswith("no usable checkpoint (candidates: [])")
    assert said(use.pick_pk3(HAD, ask(), 50), "LC-CKPT-PICK.MINE") == (
        "restores checkpoint n_tokens = 50 (candidates: [40, 50])"
    )


@pytest.mark.parametrize("rule, facts, text", [
    (use.need_th4, ask(), "checkpoint needed: pos_min 60 >= pos_min_thold 50 (common prefix 50)"),
    (use.need_th4, ask(pos_min=50), "checkpoint needed: pos_min 50 >= pos_min_thold 50 (common prefix 50)"),
    (use.need_th4, ask(pos_min=0), "no checkpoint needed: pos_min 0 < pos_min_thold 50"),
    (use.need_th4, ask(n_past=0, pos_min=0), "no checkpoint search: n_past = 0"),
    (use.need_th4, ask(n_past=0, pos_min=-1), "no checkpoint search: n_past = 0"),
    (old_use.need_th2, ask(n_past=100, pos_min=100, n_tokens=120),
     "no checkpoint search: the common prefix is all 100 tokens of the slot"),
    (old_use.need_th2, ask(pos_min=50), "checkpoint needed: pos_min 50 >= pos_min_thold 50 (common prefix 50)"),
    (old_use.need_th1, ask(), "checkpoint needed: pos_min 60 > pos_min_thold 49 (common prefix 50)"),
    (old_use.need_th0, ask(pos_min=50), "no checkpoint needed: pos_min 50 <= pos_min_thold 50"),
    (old_use.need_th0, ask(pos_min=20), "no checkpoint needed: pos_min 20 <= pos_min_thold 50"),
])  # fmt: skip
def test_what_is_compared_is_true(rule, facts, text):
    assert said(rule(facts)) == text


@pytest.mark.parametrize("rule, facts, text", [
    (seq_rm_and_state.rs_rm_3, (41, 38, 1 << 31, False),
     "seq_rm(38, -1) refused: the recurrent state is at position 41 and cannot go back"),
    (seq_rm_and_state.rs_rm_3, (41, 50, 1 << 31, False),
     "seq_rm(50, -1) accepted: the recurrent state is at position 41"),
    (seq_rm_and_state.rs_rm_2, (41, 41, 1 << 31, True),
     "seq_rm(41, -1) refused: the recurrent state is at position 41 and cannot go back"),
    (seq_rm_and_state.rs_rm_1, (41, 0, 30, False),
     "seq_rm(0, 30) refused: the recurrent state is at position 41 and cannot go back"),
    (seq_rm_and_state.rs_rm_1, (41, 41, 1 << 31, False),
     "seq_rm(41, -1) accepted: it drops the whole recurrent state at position 41"),
    (seq_rm_and_state.back_any, (2, 3, 1, 1), "recurrent state rolled back by 2 tokens (n_rs_seq 3)"),
    (seq_rm_and_state.back_any, (4, 3, 0, 1), "no rollback by 4 tokens: n_rs_seq 3"),
    (seq_rm_and_state.back_once, (2, 3, 1, 1), "no rollback by 2 tokens: a rollback is pending"),
    (seq_rm_and_state.back_alone, (2, 3, 0, 2), "no rollback by 2 tokens: the cell is shared"),
])  # fmt: skip
def test_a_cut_of_a_recurrent_state(rule, facts, text):
    assert said(rule(*facts)) == text


def test_why_does_not_call_a_rollback_refused():
    short = load(SCENARIOS / "llama_cpp/crash/llama-25278-short-ubatch-assertion-qwen35mtp.toml")
    scenario = replace(short, server={**short.server, "ubatch_size": 16})
    data = answer_data(run_judged(scenario, B10587.name, "provenance"), 0)
    cuts = [one for one in data["decisions"] if one["rule"].startswith("LC-RS-")]
    assert [(one["rule"], one["value"], one["because"]["back"]) for one in cuts] == [
        ("LC-RS-BACK.ANY", True, 3), ("LC-RS-BACK.ANY", True, 2),
    ]
    assert all("rolled back" in one["says"] for one in cuts)
