"""Numbers while they are derived: ranges are narrowed, and ranges without a common integer clash."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_grammar import Line, ParsedLine
from cachesim.tools.server_logs.facts.proven_range import FoundNumbers, ProvenRange, may_hide, share_range
from cachesim.tools.server_logs.lines.read_lines import LineSieve, ReadLine
from cachesim.tools.server_logs.lines.recognise import grammars


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


@pytest.mark.parametrize(("word", "low", "high"), [
    ("0.50", 0.495, 0.505), ("0.00", -0.005, 0.005), ("1.00", 0.995, 1.005), ("1.1", None, None), ("-0.1", None, None),
    (None, None, None),
])  # fmt: skip
def test_a_share_is_a_number_between_0_and_1(word, low, high):
    words = {} if word is None else {"f_sim": word}
    read = ParsedLine(Line("slot_by_lcp", "x"), 0, 7, {"f_sim": float(word or 0.5)}, words)
    found = share_range(ReadLine(4, read, "x"), "f_sim")
    assert found == (None if low is None else pytest.approx((low, high), abs=1e-6))
    assert share_range(ReadLine(4, read, "x"), "f_keep") is None
    assert share_range(ReadLine(4, read, "x").without("f_sim"), "f_sim") is None      # dropped, its word is still there
