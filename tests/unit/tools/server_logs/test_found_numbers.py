"""Numbers while they are derived: ranges are narrowed, and ranges without a common integer clash."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.found_numbers import FoundNumbers, may_hide
from cachesim.tools.server_logs.proven_range import ProvenRange
from cachesim.tools.server_logs.read_lines import LineSieve
from cachesim.tools.server_logs.recognise import grammars


def test_ranges_of_a_number_are_narrowed():
    found = FoundNumbers()
    assert found.get("n") is None
    found.add("n", ProvenRange(3, None, frozenset({1}), "a"))
    found.add("n", ProvenRange(0, 9, frozenset({2}), "b"))
    assert found.get("n") == ProvenRange(3, 9, frozenset({1, 2}), "a; b") and found.clashes == []
    found.add("n", ProvenRange(5, 5, frozenset({3}), "c"))
    assert found.get("n") == ProvenRange(5, 5, frozenset({3}), "c")


@pytest.mark.parametrize("value", [None, ProvenRange(-1, 4), ProvenRange(5, 4)])
def test_an_impossible_range_is_left_out(value):
    found = FoundNumbers()
    found.add("n", value)
    assert found.numbers == {}


def test_the_first_clash_of_a_number_is_kept():
    found, ranges = FoundNumbers(), [ProvenRange(n, n) for n in range(4)]
    for one in ranges[:3]:
        found.add("n", one)
    found.add("m", ranges[0])
    found.add("m", ranges[3])
    assert found.clashes == [("n", ranges[0], ranges[1]), ("m", ranges[0], ranges[3])]
    assert found.numbers == {"n": ranges[0], "m": ranges[0]}
    found.drop("n", "other")
    assert found.numbers == {"m": ranges[0]}


def test_a_line_may_be_hidden_by_a_search_for_a_word_that_it_lacks():
    grammar, sieve = grammars()["llama_cpp"], LineSieve()
    sieve.add("a slot of the launch")
    assert may_hide(grammar, sieve, "", ("launch",))
    assert not may_hide(grammar, sieve, "a slot of the launch", ("launch",))
    assert not may_hide(grammar, sieve, "", ()) and not may_hide(grammar, sieve, "", ("no such kind",))
