"""Tests that find the rule changes behind a better build, alone or in combination."""

from __future__ import annotations

import pytest

from cachesim.engines.registry import engine_of
from cachesim.scenarios.corpus import named
from cachesim.scenarios.load import load
from cachesim.tools.advise.ranking import since
from cachesim.tools.advise.setup_changes import Setup, run_trial


def changes(name, profile):
    """Return the changes behind the outcome of a scenario under this rule set: source, build, alone."""
    case = Setup(load(named(name)), profile)
    found = since(case, profile, run_trial(case).outcome, engine_of(profile))
    return [(one.source, one.build, one.new, one.alone) for one in found]


@pytest.mark.parametrize(("name", "profile", "found"), [
    ("llama-24110-extension-re-evaluated-hybrid", "llama_cpp@b9518", [("#24110", "b9509", "LC-CKPT-NEED.TH4", True)]),
    ("llama-24755-named-slot-no-lookup", "llama_cpp@b9765", [("#24755", "b9718", "LC-SLOT-SELECT.SL3", True)]),
    ("llama-24055-spacing-without-effect-hybrid", "llama_cpp@b9765", [
        ("#24176", "b9765", "LC-CKPT-BREAK.CR8", False), ("#24176", "b9765", "LC-CKPT-CREATE.CR8", False),
    ]),
    ("mlx-911-entry-removed-hybrid", "mlx_lm@0.31.0", [("#911", "2026-03-06", "ML-LRU-HAND.copy", True)]),
    ("llama-24143-entry-removed-dense", "llama_cpp@pr24143-on-b10587", []),
])  # fmt: skip
def test_the_change_behind_a_build(name, profile, found):
    assert changes(name, profile) == found


def test_an_outcome_that_no_part_of_the_changes_gives_has_no_origin():
    case = Setup(load(named("llama-24110-extension-re-evaluated-hybrid")), "llama_cpp@b9518")
    elsewhere = run_trial(case).outcome._replace(evaluated=0)
    assert since(case, case.profile, elsewhere, engine_of(case.profile)) == []


def test_the_first_rule_set_of_a_line_and_one_beside_it_have_no_changes_before():
    case = Setup(load(named("llama-24110-extension-re-evaluated-hybrid")), "llama_cpp@b9518")
    engine = engine_of(case.profile)
    assert since(case, engine.line[0], None, engine) == [] == since(case, "llama_cpp@own", None, engine)