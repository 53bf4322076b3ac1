"""Tests of the repaired rule sets: every change is necessary, and together they suffice.

Put back, each makes its scenario fail.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping

import pytest

from cachesim.engines.registry import engine_of, rules_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging.judged_run import Run, run_judged
from cachesim.scenarios.load import load

CORPUS = Path(__file__).resolve().parents[2] / "scenarios"
KEPT: Mapping[str, Mapping[str, str]] = {
    "llama_cpp@latest-repaired": {
        "slot_select": "repair-select", "reuse": "repair-reuse", "ckpt_pick": "repair-pick",
        "ckpt_restore": "repair-resume", "ckpt_erase": "repair-erase", "draft_max": "repair-draft",
        "kv_copy": "repair-copy", "kv_undo": "repair-undo", "kv_full": "repair-full", "kv_shift": "repair-shift",
        "spec_unread": "repair-unread",
    },
    "ik_llama@main-repaired": {
        "pc_failed": "repair-load", "refused": "repair-refused", "prompt_cut": "repair-cut",
        "shift_list": "repair-list", "kv_seen": "repair-sight", "kv_window": "repair-window",
        "decode_again": "repair-again", "ckpt_cells": "repair-cells", "spec_steps": "repair-steps",
        "spec_row": "repair-row", "slot_save": "repair-side",
    },
    "mlx_lm@0.32.2-repaired": {
        "tail": "repair-tail", "key": "repair-key", "key_alone": "repair-alone", "start_drafting": "repair-start",
        "draft_round": "repair-round", "caches.ring_mask": "repair-mask",
    },
}  # fmt: skip
"""The conversation that fails without a change, by rule set and by the field of its table, or of a table in it."""

CHANGES = [(name, field) for name, kept in KEPT.items() for field in kept]
COMMITS = {"llama_cpp": "b11549", "ik_llama": "8337e4cd3", "mlx_lm": "0.32.2"}


def folder(name: str) -> Path:
    return CORPUS / name.partition("@")[0] / "repairs"


def older(name: str) -> RuleSet:
    return rules_of(engine_of(name).beside[name])


def put_back(table: Any, field: str, old: Any) -> Any:
    """The table with an older rule in this field, ``inner.field`` for one of a table in it."""
    first, _, rest = field.partition(".")
    value = put_back(getattr(table, first), rest, getattr(old, first)) if rest else getattr(old, first)
    return replace(table, **{first: value})


def failing(run: Run) -> set[tuple[int, str]]:
    """Requests that are broken, and those that leave a corrupt object, of which kind."""
    corrupt = {(i, stored.kind) for i, one in enumerate(run.requests) for stored, verdict in one.judged.armed
               if verdict.holds is False}  # fmt: skip
    return {(i, "") for i in run.broken} | corrupt


@pytest.mark.parametrize("name", KEPT)
def test_every_change_has_its_conversation(name):
    assert {one.field for one in older(name).changes(rules_of(name))} == set(KEPT[name])
    assert {file.stem for file in folder(name).glob("*.toml")} == set(KEPT[name].values())


@pytest.mark.parametrize(("name", "field"), CHANGES)
def test_a_change_that_is_put_back_makes_its_conversation_fail(name, field):
    scenario = load(folder(name) / f"{KEPT[name][field]}.toml")
    allowed = {(number, "") for number in scenario.expect[name].broken}     # an error for want of room may stay one
    assert failing(run_judged(scenario, name, "provenance")) == allowed
    back = run_judged(scenario, name, "provenance", table=put_back(rules_of(name), field, older(name)))
    assert failing(back) > allowed


@pytest.mark.parametrize(("name", "field"), CHANGES)
def test_a_repair_names_the_edit_of_the_source(name, field):
    about = rules_of(name).fields()[field].about
    if about.until:                  # the rule of an older release
        return
    assert about.source.note.startswith("proposed here: ") and about.source.path
    assert about.source.commit == COMMITS[name.partition("@")[0]]
