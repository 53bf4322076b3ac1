"""Tests of the coverage counts: each counted scenario adds something."""

from __future__ import annotations

import pytest

from tests.scenarios.coverage import Seen, combinations_of, counting, differing, table
from tests.scenarios.test_corpus import SCENARIOS, shown

HEAD, BASE = "llama_cpp@b10587", "llama_cpp@b9518"


def one(scenario, profile=HEAD, cited=("A",), asked=("A",)):
    return Seen(scenario, profile, frozenset(asked), frozenset(cited))


def test_a_scenario_counts_by_what_no_earlier_one_has():
    runs = [one("a"), one("b"), one("c", cited=("A", "B")), one("d", cited=())]
    assert counting(runs) == {"a": 1, "b": 0, "c": 1, "d": 0}


def test_two_profiles_count_by_the_rules_in_which_they_differ_and_that_were_asked():
    apart = differing(HEAD, BASE)
    assert {"LC-SLOT-SELECT.SL2", "LC-SLOT-SELECT.SL3"} <= apart and "LC-NPAST-LCP" not in apart
    mine = [one("a", HEAD, asked=("LC-SLOT-SELECT.SL3",)), one("a", BASE, asked=("LC-SLOT-SELECT.SL2", "LC-NPAST-LCP"))]
    assert ("differ", frozenset({"LC-SLOT-SELECT.SL2", "LC-SLOT-SELECT.SL3"})) in combinations_of(mine)
    assert not any(kind == "differ" for kind, _ in combinations_of([one("a"), one("a", BASE)]))


def test_the_table_has_a_line_for_every_rule_and_names_the_profiles():
    lines = table([one("a", asked=("X", "Y")), one("b", BASE, asked=("Y",))])
    assert [line.split() for line in lines[1:3]] == [["X", "1", "."], ["Y", "1", "1"]]
    assert [line.split()[1] for line in lines[3:]] == [HEAD, BASE]


@pytest.fixture(scope="module")
def new():
    """Scenarios of repaired rule sets come last: they meet again what others met first."""
    names = sorted(SCENARIOS, key=lambda name: "-repair-" in name)
    return counting([shown(name, profile).seen for name in names for profile in SCENARIOS[name].profiles])


def test_forty_scenarios_of_the_catalogue_count(new):
    catalogue = {one.id for one in SCENARIOS.values() if any("FAULTS.md#lc-" in source for source in one.source)}
    assert sum(n > 0 for name, n in new.items() if name in catalogue) >= 40


SHOWN_BEFORE = (
    "mlx-1390-byte-limit-batch-only", "mlx-1736-padding-in-state-falconh1", "mlx-1736-padding-in-state-hybrid",
    "mlx-oldest-token-hidden",
    "mlx-1114-think-token-fed-twice", "mlx-repair-ring-mask", "mlx-929-no-snapshot-below-8192-hybrid",
)
"""A fault of its own each, whose combination of rules another file shows as well."""


def test_every_scenario_of_mlx_lm_counts(new):
    mine = [name for name, scenario in SCENARIOS.items() if scenario.engine == "mlx_lm" and name not in SHOWN_BEFORE]
    assert len(mine) >= 25
    assert [name for name in mine if not new[name]] == []
