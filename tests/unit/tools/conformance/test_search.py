"""Counts of the results of a property."""

from __future__ import annotations

from types import SimpleNamespace

from cachesim.tools.conformance.fingerprint import Difference
from cachesim.tools.conformance.properties import PropertyCheck
from cachesim.tools.conformance.search import PropertyTally


def test_a_tally_counts_each_kind_of_check_and_keeps_the_largest_difference():
    tally, history = PropertyTally(), SimpleNamespace(line="A1/A")
    small, large = Difference(0.5, "small"), Difference(0.75, "large")
    for check in (
        PropertyCheck("prefix", True, 0, reused=True, split=(4, 1)), PropertyCheck("prefix", True, 1, split=(4, 1)),
        PropertyCheck("prefix", True, 2, apart=small, is_decisive=False),
        PropertyCheck("prefix", False, 3, apart=large, split=(8, 1)), PropertyCheck("prefix", True, 4, apart=small),
    ):  # fmt: skip
        tally.add(history, check)
    assert (tally.checked, tally.decisive, tally.reused, tally.apart) == (5, 4, 1, large)
    assert [(one.line, check.request) for one, check in tally.failed] == [("A1/A", 3)]
    assert dict(tally.right) == {(4, 1): 2}
