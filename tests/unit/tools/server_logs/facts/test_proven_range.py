"""Ranges of integers that follow from a log: text, data, arithmetic, and printed shares."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.proven_range import FoundNumbers, ProvenRange, printed_range


def bounds(found):
    return None if found is None else (found.low, found.high)


@pytest.mark.parametrize(("low", "high", "is_exact", "data", "text"), [
    (1_234, 1_234, True, 1_234, "1,234"), (0, 0, True, 0, "0"), (1_000, None, False, [1_000, None], "at least 1,000"),
    (1_000, 1_001, False, [1_000, 1_001], "1,000 to 1,001"), (0, 1_000, False, [0, 1_000], "at most 1,000"),
])  # fmt: skip
def test_a_range_as_data_and_text(low, high, is_exact, data, text):
    found = ProvenRange(low, high)
    assert (found.is_exact, found.data, str(found)) == (is_exact, data, text)


@pytest.mark.parametrize(("first", "second", "plus", "less", "more"), [
    ((10, 20), (3, 5), 0, (5, 17), (13, 25)), ((10, 20), (3, 5), 1, (6, 18), (14, 26)),
    ((5, 20), (3, 5), 0, (0, 17), (8, 25)), ((4, 20), (3, 5), 0, (0, 17), (7, 25)), ((1, 2), (3, 5), 0, None, (4, 7)),
    ((10, None), (3, 5), 0, (5, None), (13, None)), ((10, 20), (3, None), 0, (0, 17), (13, None)),
    ((4, None), (3, 5), 0, None, (7, None)),
])  # fmt: skip
def test_differences_and_sums(first, second, plus, less, more):
    one, two = ProvenRange(*first, frozenset({1})), ProvenRange(*second, frozenset({2}))
    below, above = one.less(two, plus, "why"), one.more(two, plus, "how")
    assert (bounds(below), bounds(above)) == (less, more)
    assert below is None or (below.lines, below.how) == ({1, 2}, "why")
    assert above is None or (above.lines, above.how) == ({1, 2}, "how")


@pytest.mark.parametrize(("first", "second", "meets"), [
    ((1, 4), (5, 9), False), ((1, 5), (5, 9), True), ((5, 9), (1, 5), True), ((6, 9), (1, 5), False),
    ((5, None), (1, 5), True), ((6, None), (1, 5), False), ((1, 5), (5, None), True), ((1, 4), (5, None), False),
    ((9, None), (1, None), True),
])  # fmt: skip
def test_ranges_meet_at_a_common_integer(first, second, meets):
    assert ProvenRange(*first).meets(ProvenRange(*second)) is meets


@pytest.mark.parametrize(("first", "second", "common", "lines", "how"), [
    ((1, 9), (3, 5), (3, 5), {2}, "b"), ((3, 5), (1, 9), (3, 5), {1}, "a"), ((3, 5), (3, 5), (3, 5), {1}, "a"),
    ((1, 5), (3, 9), (3, 5), {1, 2}, "a; b"), ((1, None), (3, 5), (3, 5), {2}, "b"),
    ((3, 5), (1, None), (3, 5), {1}, "a"), ((4, None), (1, 5), (4, 5), {1, 2}, "a; b"),
    ((4, None), (2, None), (4, None), {1}, "a"),
])  # fmt: skip
def test_the_common_integers_are_proven_by_the_range_that_decides(first, second, common, lines, how):
    found = ProvenRange(*first, frozenset({1}), "a").within(ProvenRange(*second, frozenset({2}), "b"))
    assert found == ProvenRange(*common, frozenset(lines), how)


@pytest.mark.parametrize(("word", "low", "high"), [
    ("0.50", 0.495, 0.505), ("0.5", 0.45, 0.55), ("-1.00", -1.005, -0.995), ("12.345", 12.3445, 12.3455),
])  # fmt: skip
def test_a_printed_share_was_rounded(word, low, high):
    slack = abs(float(word)) * 3e-7
    assert printed_range(word) == pytest.approx((low - slack, high + slack), abs=1e-12)


@pytest.mark.parametrize("word", ["1", "", ".5", "0.", "nan", "0.5x", "x.5", "1e-3"])
def test_other_words_are_no_share(word):
    assert printed_range(word) is None


def test_numbers_are_narrowed_and_a_clash_is_kept_once():
    found = FoundNumbers()
    for low, high in ((1, 9), (3, None), (0, 5), (-1, 4), (5, 4)):
        found.add("lcp", ProvenRange(low, high))
    found.add("lcp", None)
    assert bounds(found.get("lcp")) == (3, 5) and found.clashes == []
    for low in (6, 7):
        found.add("lcp", ProvenRange(low, low))
    found.add("held", ProvenRange(0, 0))
    assert [(name, bounds(one), bounds(two)) for name, one, two in found.clashes] == [("lcp", (3, 5), (6, 6))]
    assert bounds(found.get("lcp")) == (3, 5) and bounds(found.get("held")) == (0, 0)
    found.add("held", ProvenRange(1, 1))
    assert [name for name, *_ in found.clashes] == ["lcp", "held"]
    found.drop("lcp", "end")
    assert found.get("lcp") is None and bounds(found.get("held")) == (0, 0)
