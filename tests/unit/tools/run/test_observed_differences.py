"""Observables that differ, as data and as a line."""

from __future__ import annotations

from cachesim.judging.outcomes import ObservedDifference
from cachesim.tools.run.observed_differences import NAMED, differing_data, differing_text


def test_observables_have_their_values_as_text():
    found = [ObservedDifference("cache_n", "reused", 3, 5), ObservedDifference("text", "text", None, "x")]
    assert differing_data(found) == [
        {"observable": "cache_n", "what": "reused", "value_a": "3", "value_b": "5"},
        {"observable": "text", "what": "text", "value_a": "nothing", "value_b": "x"}]  # fmt: skip
    assert differing_text(found) == differing_text(differing_data(found)) == "cache_n: 3 -> 5 (also text)"
    assert differing_text(found[:1]) == "cache_n: 3 -> 5"


def test_a_line_names_some_of_the_others_and_counts_the_rest():
    found = [ObservedDifference(f"o{n}", "", 1, 2) for n in range(NAMED + 3)]
    assert differing_text(found[: NAMED + 1]) == "o0: 1 -> 2 (also o1, o2, o3, o4)"
    assert differing_text(found) == "o0: 1 -> 2 (also o1, o2, o3, o4 and 2 more)"
