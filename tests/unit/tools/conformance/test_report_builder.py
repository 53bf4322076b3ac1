"""Tests of a conformance report: the fault in words, what all failing cases have in common, the headline."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance import Nonconforming, conform
from cachesim.tools.conformance.compare_replies import identical
from cachesim.tools.conformance.corpus import DrawBounds
from cachesim.tools.conformance.history_player import HistoryRun, SubjectAbilities
from cachesim.tools.conformance.properties import DIFFERS, PROPERTIES
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply, RequestKey
from cachesim.tools.conformance.report import MEMBERS, SECTIONS, Finding, Report, Result, floor_lines
from cachesim.tools.conformance.report_builder import (
    NEVER,
    VERSUS_COLD,
    HistoryPlan,
    KeyedHistories,
    accept,
    in_common,
    make_report,
    run_floors,
)
from cachesim.tools.conformance.search import HistorySearch, PropertyTally
from cachesim.tools.conformance.timeouts import TimeBudget
from tests.conformance.naive import FixedCache, NaiveCache


@pytest.mark.parametrize(("failed", "said"), [
    ([(4, 1), (4, 3)], "all 2 failing cases have 4 tokens cached"),
    ([(4, 2), (8, 3)], "all 2 failing cases have a multiple of 4 tokens cached"),
    ([(4, 2), (6, 3)], "all 2 failing cases have a multiple of 2 tokens cached"),
    ([(4, 1), (7, 1)], "all 2 failing cases have 1 token not cached"),
    ([(4, 1), (4, 1)], "all 2 failing cases have 1 token not cached and 4 tokens cached"),
    ([(0, 1), (0, 2)], "all 2 failing cases have 0 tokens cached"),
    ([(4, 1), (7, 2)], ""), ([(4, 1)], ""), ([], ""),
])  # fmt: skip
def test_what_all_failing_cases_have_in_common_is_computed(failed, said):
    assert in_common(failed) == said


class Forgetful(NaiveCache):
    """Never reuses a token."""

    def find(self, prompt):
        return self.toy.empty, 0


def test_a_cache_that_never_reused_a_token_has_shown_nothing():
    results = [one for one in conform(Forgetful, max_examples=10, check=False).results if one.name in VERSUS_COLD]
    checked = [one for one in results if one.checked]
    assert checked and {(one.state, one.why) for one in checked} == {("undecided", NEVER)}


def test_answers_that_differ_and_have_something_in_common_are_one_fault():
    report = conform(NaiveCache, max_examples=15, check=False)
    first, other = (one for one in report.results if one.state == "failed")
    assert (first.name, first.fault, first.like, other.like) == ("prefix", DIFFERS, "", "prefix")
    assert first.common == other.common and first.common.startswith("all ") and "1 token not cached" in first.common
    text = str(report)
    assert f"  prefix      FAILED       {DIFFERS}\n      A1>a2/A.a[:1]\n" in text
    assert "first wrong token: generated token 0, at position 2\n" in text and f"\n      {first.common}\n" in text
    assert "\n  repeat      FAILED       same fault as prefix: A2/A\n" in text
    assert sum(one in text for one in ("again: histories=[\"A1>a2", "again: histories=[\"A2/A")) == 1


@pytest.mark.parametrize(("result", "first"), [
    (Result("append", "same", "s", "failed", finding=Finding("A4/A.B1", 1, "176", "654"), fault=DIFFERS),
     f"A4/A.B1: expected 176, got 654: {DIFFERS}"),
    (Result("limits", "books", "limits are kept", "failed", finding=Finding("A/B", 1, "1", "2")),
     "A/B: expected 1, got 2: expected: limits are kept"),
    (Result("append", "same", "s", "failed", why="accepted as failing (x), but it is ok"),
     "append: accepted as failing (x), but it is ok"),
])  # fmt: skip
def test_the_first_line_of_the_exception_is_the_case(result, first):
    undecided = Result("new", "isolation", "s", "undecided", why="too slow")
    assert str(Nonconforming(Report((undecided, result)))).splitlines()[0] == first


@pytest.mark.parametrize(("state", "reasons", "after"), [
    ("failed", {"prefix": "known"}, ("accepted", "known")), ("missed", {"prefix": "known"}, ("accepted", "known")),
    ("ok", {"prefix": "known"}, ("failed", "accepted as failing (known), but it is ok")),
    ("ok", {"append": "known"}, ("ok", "")), ("undecided", {"prefix": "known"}, ("undecided", "")),
    ("unsupported", {"prefix": "known"}, ("unsupported", "")), ("skipped", {"prefix": "known"}, ("skipped", "")),
])  # fmt: skip
def test_a_property_is_accepted_only_while_it_fails(state, reasons, after):
    found = accept(Result("prefix", "same", "s", state), reasons)
    assert (found.state, found.why) == after


def tallies(**counts):
    """Return a tally for each name: checked, decisive and reused."""
    return {name: PropertyTally(*count) for name, count in counts.items()}


SPACE = DrawBounds(6, 256, (), frozenset({"cache", "cancel_prompt", "cancel_answer", "burst"}))


def test_keys_adapters_images_and_drafts_are_judged_where_requests_have_them():
    plan = HistoryPlan("", (), 9, 6, 256, (), range(100))
    assert {*PROPERTIES} - {*plan.judged} == {"key", "adapter", "base", "image", "drafts"}
    more = replace(plan, keys=[RequestKey(), RequestKey("a")], drafts=True, keyed={"image": KeyedHistories()})
    assert {*PROPERTIES} - {*more.judged} == {"adapter", "base"}
    assert "key" not in replace(plan, keys=[RequestKey()]).judged
    assert ("known" in plan.sections, "known" in replace(plan, corpus="any").sections) == (False, True)


PLAN = HistoryPlan("any", (), 9, 6, 256, (), range(100))


class GivenSearch:
    """A search that notes the histories it is given. ``ends_after``: histories after which its time is over."""

    def __init__(self, ends_after=99, cut_at=""):
        self.ends_after, self.cut_at, self.begun, self.counted = ends_after, cut_at, [], []
        self.done, self.gap, self.floors, self.budget = 0, "", {}, self
        self.why, self.stopped = "not run: stopped after 9 seconds", "stopped after 9 seconds"
        self.is_low = False

    @property
    def is_spent(self):
        return len(self.counted) >= self.ends_after

    @property
    def is_cut_short(self):
        return bool(self.cut_at) and self.counted[-1][1] == self.cut_at

    def begin(self, section, number):
        self.begun.append((section, number))

    def count(self, section, history):
        self.counted.append((section, history.line))


def floored(search, space=SPACE):
    played = []

    def play(history):
        played.append(history.line)
        return HistoryRun(history, [CacheRequest((1, 2, 3))], [], [], [Reply((1,), cached=1)])

    return run_floors(search, space, play), played


def test_each_floor_is_run_once_if_its_history_fits():
    search = GivenSearch()
    found, played = floored(search)
    names = ("extension", "return", "regenerate")
    assert {name: one.state for name, one in found.items()} == dict.fromkeys(names, "ok")
    assert played == list(floor_lines(SPACE).values()) and {one.section for one in found.values()} == {"reuse"}
    assert [one.sentence for one in found.values()] == [PROPERTIES[name] for name in found]
    assert floored(search) == (found, [])
    del search.floors["return"]
    assert floored(search) == (found, [floor_lines(SPACE)["return"]]), "only the one that is missing"
    found, played = floored(GivenSearch(), SPACE._replace(most_requests=2))
    assert (found["return"].state, found["return"].why) == ("unsupported", "its history does not fit")
    assert len(played) == 2


@pytest.mark.parametrize("is_low", [True, False])
def test_floors_for_which_no_time_is_left_are_undecided(is_low):
    search = GivenSearch(99 if is_low else 0)
    search.is_low = is_low
    found, played = floored(search)
    assert played == [] and search.floors == {}
    assert {(one.state, one.why) for one in found.values()} == {("undecided", search.why)}


def cold_of(prompts):
    """Return a cold implementation that answers 6 to these prompts, and 5 to others; it notes the prompts."""
    asked = []
    return lambda ask: asked.append(ask.prompt) or Reply((6,) if ask.prompt in prompts else (5,)), asked


@pytest.mark.parametrize(("only", "floors"), [(("reuse",), 3), (("drawn",), 0), ((), 3)])
def test_floors_are_run_only_for_their_section(only, floors):
    search, played = GivenSearch(), []
    search.tallies, search.counts, search.reported = {}, {}, set()

    def play(history):
        played.append(history.line)
        return HistoryRun(history, [CacheRequest((1, 2, 3))], [], [], [Reply((1,), cached=1)])

    plan = replace(PLAN, corpus="", max_examples=1, only=only)
    found = make_report(plan, SubjectAbilities({}), search, cold_of([])[0], play)
    assert len(played) == floors and (found.section("reuse") == "ok") is bool(floors)
    assert found.skipped == ({name: "" for name in SECTIONS if name not in only} if only else {
        "known": 'run with corpus="any"'})


def test_floors_are_run_before_drawn_histories():
    search, counted = GivenSearch(), []
    search.tallies, search.counts, search.reported = {}, {}, set()

    def play(history):
        counted.append([section for section, _ in search.counted])
        return HistoryRun(history, [CacheRequest((1, 2, 3))], [], [], [Reply((1,), cached=1)])

    make_report(replace(PLAN, corpus="", max_examples=2), SubjectAbilities({}), search, cold_of([])[0], play)
    assert {*counted[0]} == {*counted[-1]} == {"same"}
    assert [section for section, _ in search.counted][-2:] == ["drawn", "drawn"]


@pytest.mark.parametrize(("warm", "gap", "state"), [
    (Reply((1,), cached=1), "", "ok"), (Reply((1,), cached=0, evaluated=1), "", "missed"),
    (Reply((1,), evaluated=2), "", "ok"), (Reply((1,), evaluated=3), "", "missed"), (Reply((1,)), "", "unsupported"),
    (Reply((1,)), "gone", "undecided"), (Reply((1,), cached=1, refused="full"), "", "undecided"),
    (Failed("dead"), "", "undecided"),
])  # fmt: skip
def test_a_floor_of_reuse_is_reached_by_a_single_token(warm, gap, state):
    found = run_floors(GivenSearch(), SPACE, lambda history: HistoryRun(
        history, [CacheRequest((1, 2, 3))], [], [], [warm], gap=gap))["extension"]  # fmt: skip
    assert (found.state, found.checked, found.reused) == (state, int(state in ("ok", "missed")), int(state == "ok"))
    assert (found.finding is not None) is (state == "missed")


class Numbered(FixedCache):
    """Its replies are changed by ``change(reply, number)``; ``number`` counts the requests to all instances."""

    sent = 0

    def complete(self, prompt, n_predict=1, cache=True):
        Numbered.sent += 1
        return self.change(super().complete(prompt, n_predict, cache), Numbered.sent)


def judged(change, **arguments):
    made = type("Changed", (Numbered,), {"change": staticmethod(change)})
    return conform(made, max_examples=8, check=False, **arguments)


def test_a_cache_whose_answers_are_all_equal_or_whose_cold_runs_differ_is_undecided():
    equal = judged(lambda reply, number: {**reply, "tokens": [1] * len(reply["tokens"]), "fingerprint": "x"})
    assert {equal[name].state for name in ("append", "branch", "repeat", "steady")} == {"undecided"}
    noisy = judged(lambda reply, number: {**reply, "fingerprint": [float(number)]})
    assert noisy["steady"].state == "failed" and noisy["append"].state == "undecided"
    assert noisy["append"].finding is None


def test_a_cache_that_reports_no_counts_is_judged_by_its_answers_with_a_note():
    report = judged(lambda reply, number: {"tokens": reply["tokens"], "fingerprint": reply["fingerprint"]})
    assert {report[name].state for name in ("accounting", "unseen", "work", "stored")} == {"unsupported"}
    assert report["append"].state == "ok" and len(report.notes) == 1
    assert {report[name].state for name in MEMBERS["reuse"]} == {"unsupported"}
    assert not judged(lambda reply, number: reply).notes


def test_only_lines_of_a_server_may_name_adapters():
    def first(**more):
        search = HistorySearch(lambda history: HistoryRun(history, gap="not sent"), identical, TimeBudget(9))
        make_report(replace(PLAN, corpus="", only=["same"], histories=["A4{lora=0:1}/A"], **more), SubjectAbilities({}),
                    search, cold_of([])[0])  # fmt: skip
        return search.counts["same"].histories

    assert first(keyed={}) >= 1
    with pytest.raises(BadInput):
        first()


def test_a_single_wrong_answer_that_does_not_recur_is_undecided():
    Numbered.sent = 0
    report = judged(lambda reply, number: {**reply, "fingerprint": "spoilt"} if number == 30 else reply)
    assert report["append"].state == "undecided" and report["append"].finding is not None
