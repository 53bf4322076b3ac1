"""Totals of the lines of each engine of a server."""

from __future__ import annotations

import pytest

from cachesim.engines.shared import log_totals as totals
from cachesim.engines.shared.log_totals import LoggedNumbers, LogTotal, Series, by_engine, of_kind, series


def line(number, kind="rate", **numbers):
    return LoggedNumbers(number, kind, numbers)


def test_lines_are_divided_by_engine_and_labelled_if_there_are_several():
    lines = [LoggedNumbers(at, "rate", {} if engine is None else {"engine": engine})
             for at, engine in enumerate((1, 0, 1, None))]  # fmt: skip
    assert [(label, [line.line for line in own]) for label, own in by_engine(lines)] == [
        ("engine : ", [3]), ("engine 0: ", [1]), ("engine 1: ", [0, 2])]  # fmt: skip
    assert [(label, len(own)) for label, own in by_engine(lines[:1])] == [("", 1)]
    assert [*by_engine([])] == []


@pytest.mark.parametrize(("values", "ends", "percent", "growth"), [
    ((5.0,), (1,), "5.0 %", 5.0), ((5.0, 5.0), (1, 2), "5.0 %", 0.0),
    ((3.0, 9.04, 5.0), (1, 2, 3), "5.0 % at the end (3.0 to 9.0 %)", None),
    ((3.0, 5.0, 5.0), (1, 2, 3), "5.0 % at the end (3.0 to 5.0 %)", 2.0), ((3.0, 2.0), (1, 2),
                                                                         "2.0 % at the end (2.0 to 3.0 %)", None),
])  # fmt: skip
def test_values_of_a_number(values, ends, percent, growth):
    found = Series(tuple(range(1, len(values) + 1)), values)
    assert (found.ends, found.percent, found.growth) == (ends, percent, growth)


def test_only_numbers_are_values():
    damaged = [line(6, x=float("inf")), line(7, x=float("nan")), line(8, x=10**400)]
    lines = [line(1, x=0), line(2, x=True), line(3, x="4"), line(4), line(5, x=1.5), *damaged]
    assert [*series(lines, "x")] == [Series((1, 5), (0, 1.5))] and [*series(lines, "y")] == []
    assert of_kind([line(1, "a"), line(2, "b"), line(3, "c")], "a", "c") == [line(1, "a"), line(3, "c")]


def test_totals_quote_the_lines_that_prove_them():
    lines = [line(2, x=1.0), line(4, x=3.0)]
    assert [*totals.rates(lines, "x", "usage", " of it")] == [
        LogTotal((2, 4), {"x": [1.0, 3.0]}, "usage 3.0 % at the end (1.0 to 3.0 %) of it")]  # fmt: skip
    assert [*totals.rates([line(2, x=1.0, engine=0), line(4, x=3.0, engine=1)], "x", "usage", "")] == [
        LogTotal((2,), {"x": [1.0, 1.0]}, "engine 0: usage 1.0 %"),
        LogTotal((4,), {"x": [3.0, 3.0]}, "engine 1: usage 3.0 %")]  # fmt: skip
    assert [*totals.sums([line(2, x=1_000), line(4, x=3)], "x", "evicted")] == [
        LogTotal((2, 4), {"x": 1_003}, "1,003 evicted")]  # fmt: skip
    assert [*totals.last([line(2, x=9), line(3, x=7), line(4, x=1_003.0)], "x", "room for {}")] == [
        LogTotal((4,), {"x": 1_003}, "room for 1,003")]  # fmt: skip
    assert [*totals.caching_off(lines, "caching")] == [
        LogTotal((2, 4), {"caching": False}, "caching is off: every prompt is evaluated completely")]  # fmt: skip
    assert [*totals.caching_off([], "caching")] == [] == [*totals.sums([], "x", "evicted")]


@pytest.mark.parametrize(("pairs", "found"), [
    ([(0, 0)], []), ([], []), ([(500, 1_000), (250, 500)], [((1, 2), 750, 1_500, "750 of 1,500", "50.0 %")]),
    ([(0, 8), ("x", 9), (9, "x")], [((1,), 0, 8, "0 of 8", "0.0 %")]),
])  # fmt: skip
def test_the_reused_share_of_logged_replies(pairs, found):
    lines = [line(at, cache_n=cached, n_tokens=tokens) for at, (cached, tokens) in enumerate(pairs, 1)]
    assert [*totals.replies(lines)] == [
        LogTotal(proof, {"cache_n": cached, "n_tokens": tokens}, f"replies: {of} prompt tokens were cached, {share}")
        for proof, cached, tokens, of, share in found]  # fmt: skip


@pytest.mark.parametrize(("queries", "hits", "found"), [
    ([100], [25], [((1, 11), 100, 25, "25 of 100", "25.0 %", "since the start of the server")]),
    ([100, 1_300], [25, 625], [((1, 2, 11, 12), 1_200, 600, "600 of 1,200", "50.0 %", "between the scrapes")]),
    ([100, 110, 200], [25, 30, 25 + 50],
     [((1, 3, 11, 13), 100, 50, "50 of 100", "50.0 %", "between the scrapes")]),
    ([100, 90], [25, 30], []), ([100, 200], [25, 20], []), ([100, 200], [25], []), ([100, 100], [25, 25], []),
])  # fmt: skip
def test_hits_between_two_scrapes(queries, hits, found):
    lines = [*(line(at, "q", q=value) for at, value in enumerate(queries, 1)),
             *(line(at, "h", h=value) for at, value in enumerate(hits, 11))]  # fmt: skip
    assert [*totals.counters(lines, "q", "h", "found")] == [
        LogTotal(proof, {"queries": asked, "hits": hit},
                 f"{of} looked-up tokens were found, {share} ({since})")
        for proof, asked, hit, of, share, since in found]  # fmt: skip


def test_a_log_without_requests_says_what_it_lacks():
    assert totals.nameless("blocks", "--flag") == (
        "the lines name no request: which prompts missed, and which decision lost their blocks (replies have "
        "cached_tokens with --flag; cachesim import BODIES compares prompts)")
