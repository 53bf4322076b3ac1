"""Tests of confirmation: a wrong answer is a finding only if it recurs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.history_player import HistoryRun
from cachesim.tools.conformance.http_check.batch_control import Cause
from cachesim.tools.conformance.http_check.compare_answers import NearAnswers, ScoredAnswer
from cachesim.tools.conformance.http_check.confirming_search import (
    ERRORS,
    NO_CONTROL,
    NO_FAULT,
    NUMBERS,
    OPEN,
    SHAPE,
    ConfirmingSearch,
    ServerBudget,
)
from cachesim.tools.conformance.http_check.listener import CheckListener, FoundFault
from cachesim.tools.conformance.properties import PropertyCheck
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply, TimedOut
from cachesim.tools.conformance.report import Finding, Result
from cachesim.tools.conformance.report_builder import UNSTEADY
from cachesim.tools.conformance.timeouts import TimeBudget
from tests.unit.tools.conformance.http_check.in_process import InProcess

ALONE, TOGETHER = "A5/A.B2", "A5/A.B2{together}"


class Played:
    """Runs in which the last answer is off by these values in turn, and then by nothing."""

    def __init__(self, *sizes):
        self.sizes, self.plays = sizes, 0

    def __call__(self, history):
        size = self.sizes[self.plays] if self.plays < len(self.sizes) else 0.0
        self.plays += 1
        steps = history.scenario.steps
        asks = [CacheRequest(step.request.prompt) for step in steps]
        numbers = [-float(len(ask.prompt)) for ask in asks]          # other prompts have other answers
        cold = [Reply((1,), ScoredAnswer((1,), "", ({1: number},))) for number in numbers]
        warm = [*cold[:-1], Reply((1,), ScoredAnswer((1,), "", ({1: numbers[-1] - size},)))]
        groups = [[0, 1]] if steps[1].together else [[0], [1]]
        return HistoryRun(history, asks, cold, [None] * len(asks), warm, groups)


def searched(play, line=ALONE, budget=None):
    search = ConfirmingSearch(play, NearAnswers(0.005), budget or TimeBudget(1.0, None))
    checks = search.look(parse_history(line))
    return search, sorted({one.name for one in checks if not one.ok})


def test_what_fails_twice_is_a_finding():
    play = Played(0.5, 0.5)
    search, failed = searched(play)
    assert failed == ["branch"] and play.plays == 2 and not search.once and search.repeatable().state == "ok"


def test_what_fails_once_is_no_fault_of_the_cache():
    play = Played(0.5, 0.0, 0.5)
    search, failed = searched(play)
    said = search.repeatable()
    assert failed == [] and play.plays == 2
    assert (said.state, said.finding.line, said.finding.request) == ("undecided", ALONE, 1)
    assert said.why == f"1 answer differed from a cold run once, but not when run again: {NO_FAULT}"
    assert said.finding.notes[-1] == NO_FAULT and said.finding.prompts


@pytest.mark.parametrize("size", [0.02, 0.04, 1.0])
def test_a_difference_that_came_once_decides_nothing(size):
    search, failed = searched(Played(size))
    assert failed == [] and search.repeatable().state == "undecided"


def test_the_largest_of_several_is_shown():
    search, _ = searched(Played(0.02, 0.0, 0.5, 0.0))
    search.look(parse_history("A7/A.B2"))
    said = search.repeatable()
    assert said.finding.line == "A7/A.B2" and said.why.startswith("2 answers differed")


def test_nothing_compared_is_nothing_decided():
    search = ConfirmingSearch(Played(), NearAnswers(0.005), TimeBudget(1.0, None))
    search.gap = "no history was run"
    assert (search.repeatable().state, search.repeatable().why) == ("undecided", "no history was run")
    search.look(parse_history(ALONE))
    assert (search.repeatable().state, search.repeatable().checked, search.repeatable().decisive) == ("ok", 2, 2)


def test_cold_answers_that_differ_are_not_repeatable():
    class Unsteady(Played):
        def __call__(self, history):
            played = super().__call__(history)
            return replace(played, again=[Reply((2,), ScoredAnswer((2,), "", ({2: -1.0},))), *played.again[1:]])

    search, failed = searched(Unsteady())
    assert failed == ["steady"]
    assert (search.repeatable().state, search.repeatable().why) == ("undecided", UNSTEADY)


def test_where_nothing_may_be_sent_any_more_a_proved_history_counts_as_it_failed():
    http = InProcess(None, most=5)
    budget = ServerBudget(http, 1.0, None)
    play = Played(0.5, 0.5)
    search, failed = searched(play, budget=budget)
    check = next(one for one in search.look(parse_history(ALONE)) if not one.ok)
    assert failed == ["branch"] and not budget.is_spent
    http.sent = 5
    assert budget.is_spent and budget.stopped == "stopped after 5 requests"
    assert search.again(parse_history(ALONE), check) and play.plays == 2 and budget.requests == 5
    assert search.play(parse_history(ALONE)) is search.proved[ALONE] and play.plays == 2
    assert not searched(Played(), budget=budget)[0].again(parse_history("A9/A.B2"), check)


def test_a_finding_is_confirmed_in_one_of_three_attempts():
    """With some tokens a fault changes the answer little."""
    for sizes, confirmed in (((0.0, 0.5, 0.0, 0.5, 0.5), True), ((0.0, 0.5, 0.0, 0.0, 0.5, 0.5), False)):
        play = Played(0.5, 0.5, *sizes)
        search, failed = searched(play)
        check = next(one for one in search.look(parse_history(ALONE)) if not one.ok)
        assert search.again(parse_history(ALONE), check) is confirmed and failed == ["branch"]
        assert search.once == []                     # it failed twice before: that is not a spoilt answer


def test_a_history_that_was_cut_short_shows_nothing():
    http = InProcess(None, most=0)

    def cut(history):
        played = Played(0.5)(history)
        played.gap = "stopped after 0 requests"
        return played

    search, failed = searched(cut, budget=ServerBudget(http, 1.0, None))
    assert failed == [] and not search.once and search.gap == "stopped after 0 requests"
    assert search.is_cut_short and not searched(Played(0.5))[0].is_cut_short


@pytest.mark.parametrize("controls", [(0.5,), (0.0, 0.5)])
def test_a_burst_that_differs_without_the_cache_is_undecided(controls):
    search, failed = searched(Played(0.5, 0.5, 0.5, *controls), TOGETHER)
    burst = Result("burst", "parallel", "a sentence", "ok", 3)
    assert failed == [] and search.once == [] and search.shaped == [SHAPE]
    said = search.controlled(burst)
    assert (said.state, said.why) == ("undecided", f"answers {SHAPE}")
    assert search.controlled(replace(burst, name="append")).state == "ok"
    assert search.controlled(replace(burst, state="failed")).state == "failed"


def test_the_control_has_no_slots_and_a_request_for_each_completion():
    line = "A9>4@0/B5>2@0{n_cmpl=3}/A.C2{together}"
    assert parse_history(line).uncached.line == "A9>4!/B5>2!/B>2!{together}/B>2!{together}/A.C2!{together}"
    assert parse_history("A9{n_cmpl=2}").has_bursts and not parse_history("A9/A").has_bursts


@pytest.mark.parametrize("quiet, name", [(0.0, "drafts"), (0.5, "branch")])
def test_an_answer_that_is_right_without_drafts_is_wrong_because_of_them(quiet, name):
    play = Played(0.5, 0.5)
    search = ConfirmingSearch(play, NearAnswers(0.005), TimeBudget(1.0, None), Played(quiet))
    found = search.look(parse_history(ALONE))
    assert [one.name for one in found if not one.ok] == [name]


class Refused(Played):
    """Runs whose last request gets these errors in turn, and then an answer; "" = an answer."""

    def __init__(self, *errors, kind=Failed):
        super().__init__()
        self.errors, self.kind = errors, kind

    def __call__(self, history):
        played = super().__call__(history)
        error = self.errors[self.plays - 1] if self.plays <= len(self.errors) else ""
        if error:
            played.warm[-1] = self.kind(error)
        return played


@pytest.mark.parametrize("errors, failed, plays", [
    (["x"], [], 9), (["x", "x"], [], 9), (["x", "", "x", "x"], ["answers"], 4),
])  # fmt: skip
def test_an_error_of_requests_at_once_has_to_come_again_twice(errors, failed, plays):
    play = Refused(*errors)
    search, found = searched(play, TOGETHER)
    assert found == failed and play.plays == plays
    said = search.repeatable()
    assert bool(search.once) is not bool(failed) and said.state == ("ok" if failed else "undecided")
    assert failed or said.why.startswith("1 answer failed or differed from a cold run once, but not when")


def test_an_error_that_came_again_stays_a_finding_after_the_last_request():
    http = InProcess(None, most=5)
    budget = ServerBudget(http, 1.0, None)
    search, failed = searched(Refused("x", "x", "x"), TOGETHER, budget)
    check = next(one for one in search.look(parse_history(TOGETHER)) if not one.ok)
    http.sent = 5
    assert failed == ["answers"] and search.again(parse_history(TOGETHER), check)
    assert not search.again(parse_history(TOGETHER), check._replace(name="burst"))       # this did not fail there


def test_a_missing_reply_is_not_awaited_again_and_again():
    play = Refused(*["late"] * 20, kind=TimedOut)
    assert searched(play, TOGETHER)[1] == ["answers"] and play.plays == 1


def test_the_other_errors_that_came_again_are_listed():
    search, _ = searched(Refused(*["first"] * 3), TOGETHER)
    search.play = search.send = Refused(*["second"] * 6)
    for line in ("A9/A.B2{together}", "A7/A.B2{together}"):
        search.look(parse_history(line))
    search.tallies["answers"].add(parse_history("A3/A.B2"), PropertyCheck("answers", False, 1, "a reply", "third"))
    result = Result("answers", "faults", "a sentence", "failed", finding=Finding(TOGETHER, 1, "a reply", "first"))
    assert search.with_errors(result).finding.notes == ("also second: A7/A.B2{together}",)
    assert search.with_errors(replace(result, state="undecided")).finding.notes == ()
    assert search.with_errors(replace(result, name="burst")).finding.notes == ()


def test_a_few_other_errors_are_listed():
    search, _ = searched(Refused(*["first"] * 3), TOGETHER)
    lines = [f"A{n}/A.B2" for n in range(10, 11 + ERRORS)]
    for number, line in enumerate(lines):
        history = parse_history(line)
        search.proved[history.line] = search.proved[parse_history(TOGETHER).line]
        search.tallies["answers"].add(history, PropertyCheck("answers", False, 1, "a reply", f"error {number}"))
    result = Result("answers", "faults", "a sentence", "failed", finding=Finding(TOGETHER, 1, "a reply", "first"))
    assert search.with_errors(result).finding.notes == tuple(
        f"also error {number}: {line}" for number, line in enumerate(lines[:ERRORS]))  # fmt: skip


@pytest.mark.parametrize("line, failed", [("A5/A.B2", ["branch"]), ("A5@1/A.B2", []), ("A5@0/A.B2@1", [])])
def test_a_small_difference_may_be_noise_where_requests_use_several_slots(line, failed):
    """A full context splits what is evaluated together."""
    assert searched(Played(0.02, 0.02), line)[1] == failed
    assert searched(Played(0.04, 0.04), line)[1] == ["branch"]


def test_an_answer_of_a_request_alone_is_shown_before_those_of_requests_at_once():
    """A difference of requests at once may come from their batch, however large it is."""
    search, _ = searched(Played(0.02, 0.0))
    search.play = search.send = Played(0.5)
    search.look(parse_history("A7/A.B2{together}"))
    said = search.repeatable()
    assert (said.finding.line, said.finding.notes[-1]) == (ALONE, NO_FAULT)
    assert said.why == f"2 answers differed from a cold run once, but not when run again: {NO_FAULT}"


class Heard(CheckListener):
    """A listener that notes what it hears."""

    def __init__(self):
        self.heard = []

    def stage(self, what, histories=0):
        self.heard.append((what, histories))

    def history(self):
        self.heard.append("history")

    def fault(self, found):
        self.heard.append(found)


def listened(play, control=NO_CONTROL):
    return ConfirmingSearch(play, NearAnswers(0.005), TimeBudget(1.0, None), listener=Heard(), control=control)


def test_a_fault_that_is_no_difference_has_its_numbers():
    search = listened(Refused("x", "x"))
    search.look(parse_history(ALONE))
    [fault] = search.found.values()
    assert (fault.name, fault.text) == ("answers", "expected a reply, got x")


def test_after_unsteady_cold_runs_a_difference_is_not_reported():
    search = listened(Played(0.5, 0.5))
    search.found["steady"] = FoundFault("steady", "A", 1, 0, "x")
    search.look(parse_history(ALONE))
    assert list(search.found) == ["steady"] and search.listener.heard == []


class Causes:
    """A control that gives these causes in turn."""

    def __init__(self, *causes):
        self.causes = list(causes)

    def cause(self, played, check, same):
        return self.causes.pop(0)


RESULT = Result("branch", "same", "a sentence", "ok", 3)


def explained(*causes):
    search = listened(Played(*[0.5] * 2 * len(causes)), Causes(*causes))
    lines = [f"A{5 + 20 * number}/A.B2" for number in range(len(causes))]
    failed = [[one.name for one in search.look(parse_history(line)) if not one.ok] for line in lines]
    return search, failed


def test_a_difference_that_numbers_explain_passes():
    search, failed = explained(Cause.NUMBERS, Cause.NUMBERS)
    assert failed == [[], []] and search.tallies["branch"].checked == 2
    [said] = search.numbers()
    assert (said.name, said.section, said.state, said.checked) == ("numbers", "noise", "ok", 2)
    assert said.why == f"2 answers differ from a cold run {NUMBERS}" and said.finding is None
    assert search.controlled(RESULT) == RESULT
    assert explained(Cause.NUMBERS)[0].numbers()[0].why == f"1 answer differs from a cold run {NUMBERS}"


def test_a_difference_of_unknown_cause_leaves_its_property_undecided():
    search, failed = explained(Cause.NUMBERS, Cause.OPEN, Cause.OPEN)
    assert failed == [[], [], []] and search.tallies["branch"].checked == 1
    [said] = search.numbers()
    assert (said.state, said.checked, said.why) == ("undecided", 3, f"2 answers {OPEN}")
    open_ = next(one for one in search.explained if one.line == "A25/A.B2")
    search.explained += [open_._replace(line="B5/B"), open_._replace(line="A300/A"), open_._replace(line="C5/C")]
    assert search.numbers()[0].finding.line == "B5/B", "the shortest, and of these the first"
    assert (said.finding.line, said.finding.request) == ("A25/A.B2", 1)
    for state, after in (("ok", "undecided"), ("undecided", "undecided"), ("failed", "failed")):
        assert search.controlled(replace(RESULT, state=state)).state == after
    assert search.controlled(RESULT).why == f"an answer {OPEN}"
    assert search.controlled(replace(RESULT, name="append")).state == "ok"
    assert explained(Cause.OPEN)[0].numbers()[0].why == f"1 answer {OPEN}"


def test_a_fault_is_neither_numbers_nor_open():
    search, failed = explained(Cause.FAULT)
    assert failed == [["branch"]] and search.numbers() == [] and search.controlled(RESULT) == RESULT


def test_the_first_failing_run_of_a_history_is_recorded():
    """A failed check of counts needs no second run, and is shown again after the last request."""
    search, failed = searched(Refused("x"))
    assert failed == ["answers"] and list(search.runs) == [ALONE] and str(search.runs[ALONE].warm[-1]) == "x"
    search.look(parse_history("A7/A.B2"))
    assert list(search.runs) == [ALONE] and search.proved == {}
    search.budget = ServerBudget(InProcess(None, most=0), 1.0, None)
    assert search.play(parse_history(ALONE)) is search.runs[ALONE]


@pytest.mark.parametrize(("right", "confirmed"), [(7, True), (8, False)])
def test_a_race_is_confirmed_in_one_of_eight_attempts(right, confirmed):
    history, search = parse_history(TOGETHER), listened(Played(0.5, 0.5, 0.5))
    check = next(one for one in search.look(history) if one.name == "burst" and not one.ok)
    search.play = search.send = Played(*[0.0] * right, 0.5, 0.5, 0.5)
    assert search.again(history, check) is confirmed


def test_the_keys_and_answers_of_replies_are_recorded():
    search, _ = searched(Played())
    assert search.reported == {"tokens", "fingerprint"}
    assert [len(one.ask.prompt) for one in search.answers] == [5, 7]


@pytest.mark.parametrize("sizes, is_fault, plays", [
    ((0.5,), False, 9), ((0.5, 0.5), False, 9), ((0.5, 0.5, 0.5), True, 6), ((0.5, *[0.0] * 6, 0.5, 0.5), True, 12),
    ((0.5, *[0.0] * 7, 0.5, 0.5), False, 9), ((0.02, 0.02, 0.02), False, 1),
])  # fmt: skip
def test_requests_that_arrive_together_have_to_fail_in_two_of_eight_further_plays(sizes, is_fault, plays):
    """A single spoilt answer, which any server may give, does not count as a race."""
    play = Played(*sizes)
    search, found = searched(play, TOGETHER)
    assert bool(found) is is_fault and play.plays == plays
    assert [one.check.request for one in search.once] == ([] if is_fault or plays == 1 else [1])


@pytest.mark.parametrize("size, is_fault", [(0.09, False), (0.11, True)])
def test_without_a_control_only_a_large_difference_is_a_finding(size, is_fault):
    def play(history):
        if not all(step.request.cache_prompt for step in history.scenario.steps):
            return HistoryRun(history, gap="requests cannot switch the cache off")
        return Played(size)(history)

    search, found = searched(play, TOGETHER)
    assert bool(found) is is_fault and bool(search.shaped) is not is_fault


def test_a_history_that_cannot_be_run_again_did_not_differ_once():
    """Without a second run a wrong answer does not count as spoilt."""
    play = Played(0.5)

    def once(history):
        played = play(history)
        played.gap = "the slot was in use" if play.plays > 1 else ""
        return played

    search, failed = searched(once)
    assert (failed, search.once, play.plays) == ([], [], 2)
