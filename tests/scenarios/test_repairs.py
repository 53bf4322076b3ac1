"""Is every change of the repaired rule set needed, and are they enough? Put back, each makes its scenario fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cachesim.engines.llama_cpp.profiles import BESIDE, PROFILES
from cachesim.scenarios.load import load
from cachesim.verdicts.judged_run import run_judged

REPAIRED = "llama_cpp@latest-repaired"
FOLDER = Path(__file__).resolve().parents[2] / "scenarios" / "llama_cpp" / "repairs"
KEPT = {
    "slot_select": "repair-select", "reuse": "repair-reuse", "ckpt_pick": "repair-pick",
    "ckpt_restore": "repair-resume", "ckpt_erase": "repair-erase", "draft_max": "repair-draft",
    "kv_copy": "repair-copy", "kv_undo": "repair-undo", "kv_full": "repair-full", "kv_shift": "repair-shift",
}  # fmt: skip
"""The conversation that fails without a change, by the field of the table."""


def test_every_change_has_its_conversation():
    assert {one.field for one in PROFILES[BESIDE[REPAIRED]].changes(PROFILES[REPAIRED])} == set(KEPT)
    assert {file.stem for file in FOLDER.glob("*.toml")} == set(KEPT.values())


@pytest.mark.parametrize("field", KEPT)
def test_a_change_that_is_put_back_makes_its_conversation_fail(field):
    scenario = load(FOLDER / f"{KEPT[field]}.toml")
    rules, older = PROFILES[REPAIRED], PROFILES[BESIDE[REPAIRED]]
    assert run_judged(scenario, REPAIRED, "provenance").broken == []
    back = replace(rules, **{field: getattr(older, field)})
    assert run_judged(scenario, REPAIRED, "provenance", table=back).broken


@pytest.mark.parametrize("field", KEPT)
def test_a_repair_names_the_edit_of_the_source(field):
    source = getattr(PROFILES[REPAIRED], field).about.source
    assert source.note.startswith("proposed here: ") and source.path and source.commit == "b11549"
