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
    ("lc-06-pure-extension", "llama_cpp@base-24143", [("#24110", "b9509", "LC-CKPT-NEED.TH4", True)]),
    ("lc-35-pinned-client", "llama_cpp@user-turns", [("#24755", "b9718", "LC-SLOT-SELECT.SL3", True)]),
    ("lc-83-spacing-without-effect", "llama_cpp@user-turns", [
        ("#24176", "b9765", "LC-CKPT-BREAK.CR8", False), ("#24176", "b9765", "LC-CKPT-CREATE.CR8", False),
    ]),
    ("consumed-on-hit", "mlx_lm@v911", [("#911", "2026-03-06", "ML-LRU-HAND.copy", True)]),
    ("seed-24143-dense", "llama_cpp@pr24143-on-head", []),
])  # fmt: skip
def test_the_change_behind_a_build(name, profile, found):
    assert changes(name, profile) == found


def test_an_outcome_that_no_part_of_the_changes_gives_has_no_origin():
    case = Setup(load(named("lc-06-pure-extension")), "llama_cpp@base-24143")
    elsewhere = run_trial(case).outcome._replace(evaluated=0)
    assert since(case, case.profile, elsewhere, engine_of(case.profile)) == []
