"""Counts of the results of a property, attribution of wrong answers, and the search for the smallest history."""

from __future__ import annotations

import pytest

from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.compare_replies import Difference, identical
from cachesim.tools.conformance.history_player import HistoryRun
from cachesim.tools.conformance.properties import PropertyCheck
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply, StoredEntry
from cachesim.tools.conformance.report import SectionCount
from cachesim.tools.conformance.search import HistorySearch, PropertyTally, attributed, shrink
from cachesim.tools.conformance.timeouts import TIMEOUTS, TimeBudget


def wrong(*pairs):
    """Return failed checks, each given as a name and a request."""
    return [PropertyCheck(name, False, request) for name, request in pairs]


BOTH = (("append", 1), ("cancel", 1), ("burst", 1))


@pytest.mark.parametrize(("found", "without", "names"), [
    ((("append", 1), ("branch", 2)), None, ["append"]), ((("branch", 2), ("append", 1)), None, ["append"]),
    ((("append", 1), ("unseen", 2)), None, ["append", "unseen"]),
    ((("append", 1), ("cancel", 1)), None, ["append"]),
    ((("append", 1), ("drafts", 1)), {}, ["append"]),
    ((("append", 1), ("cancel", 1)), {("cache", "cancel", "burst"): [1]}, ["append"]),       # wrong without it, too
    ((("append", 1), ("cancel", 1)), {("cache", "cancel", "burst"): [2]}, ["cancel"]),
    ((("append", 1), ("cancel", 2)), {}, ["append"]),
    (BOTH, {}, ["cancel", "burst"]), (BOTH, {("cancel",): [1]}, ["burst"]), (BOTH, {("burst",): [1]}, ["cancel"]),
    (BOTH, {("cancel",): [1], ("burst",): [1]}, ["cancel", "burst"]),
    (BOTH, {("cache", "cancel", "burst"): [1]}, ["append"]),
])  # fmt: skip
def test_a_wrong_answer_is_attributed_to_the_simplest_property_of_the_first_request(found, without, names):
    def replay(*left_out):
        return wrong(*(("append", request) for request in without.get(left_out, ())))

    right = [PropertyCheck("append", True, 0), PropertyCheck("burst", True, 3)]
    kept = attributed([*right, *wrong(*found)], None if without is None else replay)
    assert kept[:2] == right and [check.name for check in kept[2:]] == names


def test_without_a_wrong_answer_every_check_is_kept():
    found = [*wrong(("unseen", 1), ("stored", 0)), PropertyCheck("append", True, 0)]
    assert attributed(found, None) == found


def searched(*wrong_lines, seconds=None):
    """Return a search whose subject is wrong in these histories, and the list of the histories that it played."""
    lines = []

    def play(history):
        lines.append(history.line)
        steps = history.scenario.steps
        asks = [CacheRequest(step.request.prompt, step.request.n_predict) for step in steps]
        cold = [Reply(None, str(ask.prompt), cached=0, evaluated=len(ask.prompt)) for ask in asks]
        late = history.line in wrong_lines
        warm = [warm_reply(ask, number > 0 and late) for number, ask in enumerate(asks)]
        return HistoryRun(history, asks, cold, [None] * len(asks), warm, [range(n, n + 1) for n in range(len(asks))])

    return HistorySearch(play, identical, TimeBudget(60, seconds)), lines


def warm_reply(ask, is_wrong):
    """Return the answer of a cold run; a wrong reply says that the whole prompt was cached."""
    n_tokens = len(ask.prompt)
    cached = n_tokens if is_wrong else 0
    return Reply(None, str(ask.prompt), cached, n_tokens - cached, (StoredEntry(ask.prompt, n_tokens),))


def test_a_history_is_run_once_and_counted_in_its_first_section():
    search, lines = searched("A4/B4")
    for section, line in (("same", "A4"), ("same", "A4/B4"), ("drawn", "A4/B4"), ("drawn", "A4/B5")):
        search.count(section, parse_history(line))
    assert lines == ["A4", "A4/B4", "A4/B5"]
    assert search.counts == {"same": SectionCount(2, 1, ("unseen",), 2), "drawn": SectionCount(1, 0, (), 2)}
    assert search.reported == {"fingerprint", "cached", "evaluated", "stored"}
    assert [(one.ask.prompt, one.reply.fingerprint) for one in search.answers] == [
        (ask, str(ask)) for ask in (parse_history("A4/B4").scenario.steps[n].request.prompt for n in (0, 1))]


def test_the_smallest_failing_history_is_shrunk_first():
    search, _ = searched("A4/B40", "A4/B4", "A1/B1")
    for line in ("A4/B40", "A4/B4"):
        search.count("same", parse_history(line))
    history, check = search.smallest("unseen")
    assert (history.line, check.request, check.got, check.expected) == (
        "A1/B1", 1, "1 cached", "at most 0 cached")
    assert search.again(history, check) and not search.again(parse_history("A9"), check)


def test_nothing_is_shrunk_when_the_time_is_over():
    search, lines = searched("A4/B4", "A1/B1")
    search.count("same", parse_history("A4/B4"))
    search.budget.end = 0.0
    assert search.smallest("unseen")[0].line == "A4/B4" and lines == ["A4/B4"]


@pytest.mark.parametrize(("missed", "name", "got", "fails"), [
    (TIMEOUTS, "answers", "no reply within 60 seconds", True), (TIMEOUTS, "answers", "dead", False),
    (TIMEOUTS, "append", "no reply within 60 seconds", False),
    (TIMEOUTS - 1, "answers", "no reply within 60 seconds", False),
])  # fmt: skip
def test_after_the_last_time_out_a_missing_reply_counts(missed, name, got, fails):
    search, _ = searched()
    search.budget.missed = missed
    assert search.again(parse_history("A4"), PropertyCheck(name, False, 0, "a reply", got)) is fails


def test_a_single_time_out_is_spent_on_the_smallest_history():
    lines = []

    def play(history):
        lines.append(history.line)
        steps = history.scenario.steps
        asks = [CacheRequest(step.request.prompt, 1) for step in steps]
        late = [Failed("no reply")] * len(asks)
        return HistoryRun(history, asks, late, [None] * len(asks), [], [range(len(asks))])

    search = HistorySearch(play, identical, TimeBudget(60))
    search.count("same", parse_history("A4/B4"))
    assert not search.is_cut_short
    search.budget.missed = TIMEOUTS - 1
    assert search.smallest("answers")[0].line == "A1" and lines == ["A4/B4", "A1"]


def test_shrinking_ends_after_a_number_of_tries():
    tried = []

    def breaks(history):
        tried.append(history.line)
        return history.tokens >= 3

    start = parse_history("A40.B40/A.C9")
    assert shrink(start, breaks).tokens == 3 and len(tried) > 4
    tried.clear()
    assert 3 < shrink(start, breaks, 4).tokens < start.tokens and len(tried) <= 4
    tried.clear()
    assert shrink(start, breaks, 0) == start and tried == []


def test_a_wrong_answer_is_attributed_by_running_the_prompts_without_special_requests():
    """The burst is wrong; the same prompts one after the other are right."""
    lines = []

    def play(history):
        lines.append(history.line)
        steps = history.scenario.steps
        asks = [CacheRequest(step.request.prompt, 1) for step in steps]
        cold = [Reply(None, str(ask.prompt), cached=0) for ask in asks]
        late = "together" in history.line
        warm = [Reply(None, "wrong" if late and number else str(ask.prompt), cached=0)
                for number, ask in enumerate(asks)]  # fmt: skip
        groups = [range(len(asks))] if late else [range(n, n + 1) for n in range(len(asks))]
        return HistoryRun(history, asks, cold, [None] * len(asks), warm, groups)

    found = HistorySearch(play, identical, TimeBudget(60)).look(parse_history("A4/B4{together}"))
    assert lines == ["A4/B4{together}", "A4/B4"]
    assert [(check.name, check.request) for check in found if not check.ok] == [("burst", 1)]


def test_a_search_begins_without_results():
    search, _ = searched()
    assert (search.done, search.gap, search.is_cut_short, search.tallies, search.counts) == (0, "", False, {}, {})
    assert (search.answers, search.reported, search.floors, search.known) == ([], set(), {}, {})


def test_the_first_gap_is_kept():
    gaps = iter(["", "no cache", "no burst"])
    search = HistorySearch(lambda history: HistoryRun(history, gap=next(gaps)), identical, TimeBudget(60))
    found = []
    for line in ("A4", "A5", "A6"):
        search.look(parse_history(line))
        found.append(search.gap)
    assert found == ["", "no cache", "no cache"]


@pytest.mark.parametrize(("missed", "name"), [(0, "answers"), (TIMEOUTS - 1, "unseen")])
def test_only_a_missing_reply_with_a_single_time_out_left_is_looked_for_in_the_smallest_history(missed, name):
    lines = []

    def play(history):
        lines.append(history.line)
        asks = [CacheRequest(step.request.prompt, 1) for step in history.scenario.steps]
        replies = [Reply(None, "x", cached=9)] * len(asks) if name == "unseen" else [Failed("no reply")] * len(asks)
        return HistoryRun(history, asks, replies, [None] * len(asks), replies, [[n] for n in range(len(asks))])

    search = HistorySearch(play, identical, TimeBudget(60))
    search.count("same", parse_history("A4/B4"))
    search.budget.missed = missed
    search.smallest(name)
    assert lines[:1] == ["A4/B4"] and lines[1] != "A1"


def test_two_different_answers_are_kept_also_after_a_request_without_one():
    asks = [CacheRequest((n,)) for n in range(6)]
    cold = [Failed("dead"), Reply(refused="full"), Reply((5,), "x"), Reply((5,), "x"), Reply((6,), "y"), Reply((7,))]
    search, _ = searched()
    search.note_replies(HistoryRun(parse_history("A1"), asks, cold, [None] * 6, [Reply(cached=3)], [[0]]))
    assert [(one.ask.prompt, one.reply.tokens) for one in search.answers] == [((2,), (5,)), ((4,), (6,))]
    assert search.reported == {"tokens", "fingerprint", "cached"}


def test_a_tally_counts_each_kind_of_check_and_keeps_the_first_largest_difference():
    tally, history = PropertyTally(), parse_history("A1/A")
    small, large = Difference(0.5, "small"), Difference(0.75, "large")
    for check in (
        PropertyCheck("prefix", True, 0, reused=True, split=(4, 1)), PropertyCheck("prefix", True, 1, split=(4, 1)),
        PropertyCheck("prefix", True, 2, apart=small, is_decisive=False),
        PropertyCheck("prefix", False, 3, apart=large, split=(8, 1)),
        PropertyCheck("prefix", True, 4, apart=Difference(0.75, "later")),
    ):  # fmt: skip
        tally.add(history, check)
    assert (tally.checked, tally.decisive, tally.reused, tally.apart) == (5, 4, 1, large)
    assert [(one.line, check.request) for one, check in tally.failed] == [("A1/A", 3)]
