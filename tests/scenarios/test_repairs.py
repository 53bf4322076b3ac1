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
from cachesim.judging.deciding_rule import deciding_rule
from cachesim.judging.judged_run import Run, run_judged
from cachesim.scenarios.load import load
from cachesim.scenarios.schema import Scenario
from tests.house.faults import FAULTS, faults
from tests.scenarios.whole import corpus

CORPUS = Path(__file__).resolve().parents[2] / "scenarios"
KEPT: Mapping[str, Mapping[str, str]] = {
    "llama_cpp@b11549-repaired": {
        "slot_select": "llama-repair-busy-slot", "reuse": "llama-repair-cache-reuse-recurrent",
        "ckpt_pick": "llama-repair-window-pick",
        "ckpt_restore": "llama-repair-window-erosion", "ckpt_erase": "llama-repair-stale-checkpoint",
        "draft_max": "llama-repair-draft-length",
        "kv_copy": "llama-repair-late-copy", "kv_undo": "llama-repair-batch-undo", "kv_full": "llama-repair-swa-full",
        "kv_shift": "llama-repair-shift-without-layers",
        "kv_shared": "llama-repair-draft-undo",
    },
    "ik_llama@main-repaired": {
        "pc_failed": "ik-repair-failed-load", "refused": "ik-repair-refused-prompt",
        "prompt_cut": "ik-repair-prompt-cut",
        "shift_list": "ik-repair-shifted-list", "kv_seen": "ik-repair-last-used-cell",
        "kv_window": "ik-repair-window-cells",
        "decode_again": "ik-repair-retry", "ckpt_cells": "ik-repair-checkpoint-cells",
        "spec_steps": "ik-repair-draft-states",
        "spec_row": "ik-repair-relabelled-cell", "slot_save": "ik-repair-side-file",
    },
    "mlx_lm@0.32.2-repaired": {
        "tail": "mlx-repair-think-tail", "key": "mlx-repair-exact-hit", "key_alone": "mlx-repair-draft-key",
        "start_drafting": "mlx-repair-draft-start",
        "draft_round": "mlx-repair-draft-round", "caches.ring_mask": "mlx-repair-ring-mask",
    },
}  # fmt: skip
"""The conversation that fails without a change, by rule set and by the field of its table, or of a table in it."""

ADAPTERS = {
    "adapters.clear": "llama-lora-request-without-list", "adapters.entry": "llama-26207-entry-of-other-adapter",
    "adapters.file": "llama-lora-slot-file", "adapters.forget": "llama-lora-cells-of-cleared-slot",
    "adapters.cap": "llama-alora-invocation-at-start", "adapters.rows": "llama-alora-second-activation",
    "adapters.chunks": "llama-alora-chunk-reuse", "adapters.split": "llama-alora-joins-batch",
}
"""The same for the adapters of llama-server: fields of ``KEYED``, with conversations that lie elsewhere."""
CHEAPER = {"adapters.save", "adapters.start"}
"""Changes for adapters that save tokens; no answer is wrong without them."""
ADDED = {
    "waiting": "llama-waiting-request-holds-cells", "children_at": "llama-completion-copied-early-mrope",
    "file_empty": "llama-empty-slot-file-keeps-cells",
    "media.adapters": "llama-media-image-under-previous-adapter", "media.last": "llama-media-prompt-ends-with-image",
    "media.size": "llama-media-image-exceeds-ubatch", "media.back": "llama-media-alora-after-image",
    "media.again": "llama-media-image-finds-no-cells", "task_first": "llama-media-null-token-at-image",
    "adapters.back": "llama-alora-scale-of-failed-image",
}
"""Conversations that fail without a change of llama_cpp@b11549-repaired, of which the tried one has media.adapters."""
KEYED = ("llama_cpp@b11549-lora-tried", "llama_cpp@b11549-repaired")

CHANGES = [(name, field) for name, kept in KEPT.items() for field in kept]
COMMITS = {"llama_cpp": "b11549", "ik_llama": "8337e4cd3", "mlx_lm": "0.32.2"}


def folder(name: str) -> Path:
    return CORPUS / name.partition("@")[0] / "repairs"


def older(name: str) -> RuleSet:
    return rules_of(engine_of(name).beside[name])


def put_back(table: Any, field: str, old: Any) -> Any:
    """Return the table with an older rule in this field; ``inner.field`` is a field of an inner table."""
    first, _, rest = field.partition(".")
    value = put_back(getattr(table, first), rest, getattr(old, first)) if rest else getattr(old, first)
    return replace(table, **{first: value})


def failing(run: Run) -> set[tuple[int, str]]:
    """Return the broken requests, and the requests that leave a corrupt object, with its kind."""
    corrupt = {(i, stored.kind) for i, one in enumerate(run.requests) for stored, verdict in one.judged.armed
               if verdict.equal_cold is False}  # fmt: skip
    return {(i, "") for i in run.broken} | corrupt


@pytest.mark.parametrize("name", KEPT)
def test_every_change_has_its_conversation(name):
    changed = {one.field for one in older(name).changes(rules_of(name))}
    assert changed == set(KEPT[name]) | ({*ADAPTERS, *CHEAPER, *ADDED} if name in KEYED else set())
    assert {file.stem for file in folder(name).glob("*.toml")} == set(KEPT[name].values())


@pytest.mark.parametrize(("name", "field"), CHANGES)
@pytest.mark.part(2)
def test_a_change_that_is_put_back_makes_its_conversation_fail(name, field):
    scenario = load(folder(name) / f"{KEPT[name][field]}.toml")
    allowed = {(number, "") for number in scenario.expect[name].broken}     # an error for lack of room may remain
    assert failing(run_judged(scenario, name, "provenance")) == allowed
    back = run_judged(scenario, name, "provenance", table=put_back(rules_of(name), field, older(name)))
    assert failing(back) > allowed


@pytest.mark.parametrize(("name", "field"), [
    *((name, field) for name in KEYED for field in (*ADAPTERS, "media.adapters")),
    *(("llama_cpp@b11549-repaired", field) for field in ADDED if field != "media.adapters"),
])  # fmt: skip
def test_a_change_of_the_key_that_is_put_back_makes_its_conversation_fail(name, field):
    scenario = next(one for one in corpus() if one.id == {**ADAPTERS, **ADDED}[field])
    run = run_judged(scenario, name, "provenance")
    back = run_judged(scenario, name, "provenance", table=rules_of(name).mixed(older(name), [field]))
    assert not failing(run) and run.broken == [] and back.broken == scenario_broken(scenario)


def scenario_broken(scenario: Scenario) -> list[int]:
    """Return the requests that the file expects to be broken under b11549."""
    return list(scenario.expect["llama_cpp@b11549"].broken)


@pytest.mark.parametrize("field", [*ADAPTERS, *ADDED][::6])
def test_why_names_the_rule_of_the_key(field):
    found = next(one for one in corpus() if one.id == {**ADAPTERS, **ADDED}[field])
    number = found.expect["llama_cpp@b11549"].broken[0]
    decided = deciding_rule(run_judged(found, "llama_cpp@b11549", "provenance"), number)
    assert decided is not None and decided.rule == rule_of_key(field)


def rule_of_key(field):
    """Return the rule of b11549 that a field of the key replaces."""
    return older(KEYED[0]).fields()[field].rule


@pytest.mark.parametrize("field", [*ADAPTERS, *ADDED])
def test_the_catalogue_names_the_rule_of_the_key(field):
    found = next(one for one in corpus() if one.id == {**ADAPTERS, **ADDED}[field])
    entries = [one.text for one in faults(FAULTS.read_text("utf-8"))
               if f"scenarios/FAULTS.md#{one.name.lower()}" in found.source]  # fmt: skip
    assert [text for text in entries if f"Rule {rule_of_key(field)}" not in text] == []


@pytest.mark.parametrize(("name", "field"), CHANGES)
def test_a_repair_names_the_edit_of_the_source(name, field):
    about = rules_of(name).fields()[field].about
    if about.until:                  # the rule of an older release
        return
    assert about.source.note.startswith("proposed here: ") and about.source.path
    assert about.source.commit == COMMITS[name.partition("@")[0]]
