"""Lines of a request: which are kept, which end it, and the builds that can have printed them."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_grammar import Line, ParsedLine
from cachesim.tools.server_logs.lines.read_lines import ReadLine
from cachesim.tools.server_logs.lines.tied_requests import MOST_REPEATED, PendingChoice, PossibleBuilds, TiedRequest


def line(number, kind, template="", head="", words=(), **more):
    found = ParsedLine(Line(kind, template or kind, **more), 0, 7, {}, dict(words))
    return ReadLine(number, found, kind, head)


@pytest.mark.parametrize(("kind", "slot", "is_over"), [
    ("release", 0, True), ("usage", None, True), ("reused", 0, True), ("too_long", None, True), ("too_long", 0, False),
    ("launch", 0, False),
])  # fmt: skip
def test_a_line_may_end_a_request(kind, slot, is_over):
    request = TiedRequest(slot, 7)
    request.add(line(1, kind))
    request.add(line(2, "batch"))
    assert request.is_over is is_over and [one.number for one in request.lines] == [1, 2]


def test_lines_of_a_generation_are_kept_up_to_a_number():
    request = TiedRequest(0, 7, [line(1, "launch")])
    for number in range(2, MOST_REPEATED + 4):
        request.add(line(number, "spec_step" if number % 2 else "generating"))
    request.add(line(999, "cancel"))
    assert [one.number for one in request.lines] == [*range(1, MOST_REPEATED + 2), 999]
    assert (request.repeated, request.is_cancelled) == (MOST_REPEATED + 2, True)
    assert request.kinds == {"launch", "spec_step", "generating", "cancel"}


def test_lines_are_found_by_their_kinds():
    request = TiedRequest(0, 7, [line(3, "batch"), line(4, "new_prompt"), line(5, "launch")], line(2, "slot_by_lcp"),
                          [line(9, "pc_load"), line(10, "pc_save")], [line(1, "slot_sim")])  # fmt: skip
    assert [one.number for one in request.of("batch", "launch")] == [3, 5] and request.of("release") == []
    assert [one.number for one in request.of_cache("pc_save")] == [10] and request.start.number == 4
    assert (request.span, TiedRequest(0, 7).span, TiedRequest(0, 7).start) == ((1, 10), (0, 0), None)
    assert TiedRequest(0, 7, [line(5, "launch")], line(2, "slot_by_lcp")).span == (2, 5)
    assert not request.is_cancelled


@pytest.mark.parametrize(("choice", "search", "equal"), [
    ({"f_keep": "0.5", "f_sim": "0.2"}, {"f_keep": "0.5", "f_sim": "0.2"}, True),
    ({"f_keep": "0.5", "f_sim": "0.2"}, {"f_keep": "0.6", "f_sim": "0.2"}, False),
    ({"f_keep": "0.5", "f_sim": "0.2"}, {"f_keep": "0.5", "f_sim": "0.3"}, False),
    ({}, {"f_keep": "0.5", "f_sim": "0.3"}, True), (None, {"f_keep": "0.5", "f_sim": "0.3"}, True),
])  # fmt: skip
def test_one_server_repeats_the_shares_of_its_choice(choice, search, equal):
    chosen = None if choice is None else line(1, "slot_by_lcp", words=choice)
    assert PendingChoice(0, chosen, [], [line(2, "pc_search", words=search)]).has_equal_shares is equal
    assert PendingChoice(0, chosen, [], [line(2, "pc_load", words=search)]).has_equal_shares


@pytest.mark.parametrize(("lines", "are_several"), [
    ([], False), ([line(1, "a", since=5), line(2, "b", until=6)], False),
    ([line(1, "a", since=6), line(2, "b", until=6)], True), ([line(1, "a", until=9), line(2, "b", until=6)], False),
    ([line(1, "a", until=9), line(2, "b", until=6), line(3, "c", since=7)], True),
    ([line(1, "a", since=9), line(2, "b", since=3), line(3, "c", until=8)], True),
    ([line(1, "launch", "x"), line(2, "launch", "y")], True), ([line(1, "launch", "x"), line(2, "batch", "y")], False),
    ([line(1, "other", "x"), line(2, "other", "y")], False),
    ([line(1, "batch", head="update_slots: "), line(2, "batch", head="operator(): ")], True),
    ([line(1, "batch", head="update_slots: "), line(2, "other", head="operator(): ")], False),
])  # fmt: skip
def test_no_build_prints_lines_of_two(lines, are_several):
    assert PossibleBuilds(lines).are_several is are_several
