"""Tests of a conformance report: the fault in words, what all failing cases have in common, the headline."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance import Nonconforming, conform
from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.corpus import DrawBounds
from cachesim.tools.conformance.fingerprint import Difference, identical
from cachesim.tools.conformance.history_player import HistoryRun, SubjectAbilities
from cachesim.tools.conformance.properties import DIFFERS, PROPERTIES, PropertyCheck
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply, RequestKey
from cachesim.tools.conformance.report import SECTIONS, Finding, Report, Result, floor_lines
from cachesim.tools.conformance.report_builder import (
    EQUAL,
    NEVER,
    UNKNOWN,
    UNREPORTED,
    VERSUS_COLD,
    HistoryPlan,
    HistorySource,
    KeyedHistories,
    _failed,
    _floor,
    _lines,
    _noise,
    _notes,
    _passed,
    _run_sources,
    _shrunk,
    _sources,
    _unfinished,
    _unfinished_sections,
    _unseen_mistakes,
    _unsteady,
    _with_faults,
    accept,
    in_common,
    make_report,
    run_floors,
)
from cachesim.tools.conformance.search import PropertyTally
from cachesim.tools.conformance.timeouts import TimeBudget
from tests.conformance.naive import NaiveCache

RIGHT = Counter({(4, 1): 3, (8, 2): 2, (5, 1): 1})


@pytest.mark.parametrize(("failed", "said"), [
    ([(4, 1), (4, 3)], "all 2 failing cases have 4 tokens cached, as do 3 of 6 correct answers"),
    ([(4, 2), (8, 3)], "all 2 failing cases have a multiple of 4 tokens cached, as do 5 of 6 correct answers"),
    ([(4, 2), (6, 3)], "all 2 failing cases have a multiple of 2 tokens cached, as do 5 of 6 correct answers"),
    ([(4, 1), (7, 1)], "all 2 failing cases have 1 token not cached, as do 4 of 6 correct answers"),
    ([(4, 1), (4, 1)], "all 2 failing cases have 1 token not cached and 4 tokens cached, as do 3 of 6 correct answers"),
    ([(0, 1), (0, 2)], "all 2 failing cases have 0 tokens cached, as do 0 of 6 correct answers"),
    ([(4, 1), (7, 2)], ""), ([(4, 1)], ""), ([], ""),
])  # fmt: skip
def test_what_all_failing_cases_have_in_common_is_computed(failed, said):
    assert in_common(failed, RIGHT) == said


class Forgetful(NaiveCache):
    """Never reuses a token."""

    def find(self, prompt):
        return self.toy.empty, 0


def test_a_cache_that_never_reused_a_token_has_shown_nothing():
    results = [one for one in conform(Forgetful, max_examples=30, check=False).results if one.name in VERSUS_COLD]
    checked = [one for one in results if one.checked]
    assert checked and {(one.state, one.why) for one in checked} == {("undecided", NEVER)}


def test_answers_that_differ_and_have_something_in_common_are_one_fault():
    report = conform(NaiveCache, max_examples=30, check=False)
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


@pytest.mark.parametrize(("state", "why", "after"), [
    ("ok", "", ("ok", "")), ("failed", "stopped", ("failed", "")), ("undecided", "stopped", ("undecided", "")),
    ("ok", "stopped", ("undecided", "stopped; 1 check that could fail passed")),
])  # fmt: skip
def test_a_result_without_all_histories_is_undecided(state, why, after):
    found = _unfinished(Result("prefix", "drawn", "a sentence", state, decisive=1), why)
    assert (found.state, found.why) == after


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


def searched(gap="", reported=(), missed=0):
    budget = TimeBudget(60, 7)
    budget.missed = missed
    return SimpleNamespace(gap=gap, reported={*reported}, budget=budget)


@pytest.mark.parametrize(("name", "found", "missing", "gap", "reported", "result"), [
    ("append", tallies(append=(3, 2, 1)), {}, "", (), ("ok", 3, 2, 1, "")),
    ("append", {}, {}, "", (), ("undecided", 0, 0, 0, "no request of this kind was completed")),
    ("append", {}, {}, "dead", (), ("undecided", 0, 0, 0, "dead")),
    ("append", tallies(append=(3, 0, 1)), {}, "", (), ("undecided", 3, 0, 1, EQUAL)),
    ("append", tallies(append=(3, 2, 0), unseen=(3, 3, 0)), {}, "", (), ("undecided", 3, 2, 0, NEVER)),
    ("append", tallies(append=(3, 2, 0), unseen=(3, 3, 1)), {}, "", (), ("ok", 3, 2, 0, "")),
    ("append", tallies(append=(3, 2, 0)), {}, "", (), ("ok", 3, 2, 0, "")),
    ("drafts", tallies(drafts=(3, 2, 0), unseen=(3, 3, 0)), {}, "", (), ("ok", 3, 2, 0, "")),
    ("steady", tallies(steady=(3, 0, 0)), {}, "", (), ("undecided", 3, 0, 0, EQUAL)),
    ("work", tallies(work=(3, 0, 0)), {}, "", (), ("ok", 3, 0, 0, "")),
    ("uncached", {}, {"cache": "no"}, "dead", (), ("unsupported", 0, 0, 0, "no")),
    ("uncached", tallies(uncached=(1, 1, 0)), {"cache": "no"}, "", (), ("ok", 1, 1, 0, "")),
    ("cancel", tallies(cancel=(1, 1, 0)), {"cancel_prompt": "no"}, "", (),
     ("ok", 1, 1, 0, "not while the prompt is evaluated: no")),
    ("accounting", {}, {}, "", ("cached",), ("unsupported", 0, 0, 0, "cached and evaluated are not both reported")),
    ("accounting", {}, {}, "", ("cached", "evaluated"),
     ("undecided", 0, 0, 0, "no request of this kind was completed")),
    ("accounting", {}, {}, "", (), ("undecided", 0, 0, 0, "no request of this kind was completed")),
    ("stored", {}, {}, "", ("stored",), ("unsupported", 0, 0, 0, "stored is not reported, or is always empty")),
])  # fmt: skip
def test_a_property_that_never_failed(name, found, missing, gap, reported, result):
    one = _passed(name, SubjectAbilities(missing), found, searched(gap, reported))
    assert (one.state, one.checked, one.decisive, one.reused, one.why) == result


def test_the_largest_difference_of_a_property_is_its_note():
    found = tallies(append=(3, 2, 1))
    found["append"].apart = Difference(0.5, "largest difference 0.5")
    assert _passed("append", SubjectAbilities({}), found, searched()).why == "largest difference 0.5"


@pytest.mark.parametrize(("found", "reported", "is_spent", "notes"), [
    ({}, ("tokens",), False, [UNKNOWN]), (tallies(unseen=(1, 1, 1)), ("tokens",), False, []),
    (tallies(work=(1, 1, 1)), ("tokens",), False, []), ({}, (), False, []),
    ({}, (), True, ["note: stopped after 7 seconds; only earlier histories were judged"]),
])  # fmt: skip
def test_notes_below_a_report(found, reported, is_spent, notes):
    search = searched("", reported)
    search.budget.end = 0.0 if is_spent else None
    assert list(_notes(found, search)) == notes


@pytest.mark.parametrize(("apart", "state", "name", "after"), [
    (0.0123, "ok", "append", ("undecided", "two cold runs of a request differ by up to 0.012: same=near(0.1) allows "
                                           "ten times as much")),
    (None, "failed", "append", ("undecided", "two cold runs of a request differ")),
    (float("nan"), "ok", "append", ("undecided", "two cold runs of a request differ")),
    (0.5, "unsupported", "append", ("unsupported", "")), (0.5, "failed", "unseen", ("failed", "")),
    (0.5, "ok", "steady", ("ok", "")),
])  # fmt: skip
def test_nothing_is_compared_with_cold_runs_that_differ(apart, state, name, after):
    tally = PropertyTally(apart=None if apart is None else Difference(apart, "x"))
    found = _unsteady(Result(name, "same", "s", state, finding=Finding("A", 0, "x", "y")), _noise(tally))
    assert (found.state, found.why, found.finding is None) == (*after, after[0] == "undecided")


FLOOR = Result("extension", "reuse", "s", "undecided")


def floor_of(warm, gap=""):
    ask = CacheRequest((1, 2, 3))
    return _floor(FLOOR, "A3", HistoryRun(parse_history("A3"), [ask], [], [], [warm], gap=gap))


@pytest.mark.parametrize(("warm", "gap", "state", "checked", "why"), [
    (Reply((1,), cached=1), "", "ok", 1, ""), (Reply((1,), cached=0, evaluated=1), "", "missed", 1, ""),
    (Reply((1,), evaluated=2), "", "ok", 1, ""), (Reply((1,), evaluated=3), "", "missed", 1, ""),
    (Reply((1,)), "", "unsupported", 0, UNREPORTED), (Reply((1,)), "gone", "undecided", 0, "gone"),
    (Reply((1,), cached=1, refused="full"), "", "undecided", 0, "its last request got no answer"),
    (Failed("dead"), "", "undecided", 0, "its last request got no answer"),
])  # fmt: skip
def test_a_floor_of_reuse(warm, gap, state, checked, why):
    found = floor_of(warm, gap)
    assert (found.state, found.checked, found.decisive, found.why) == (state, checked, checked, why)
    assert found.reused == (state == "ok")
    assert (found.finding is not None) is (state == "missed")
    assert found.finding is None or (found.finding.expected, found.finding.got) == (
        "at least 1 token cached", "0 of 3 tokens cached")


SPACE = DrawBounds(6, 256, (), frozenset({"cache", "cancel_prompt", "cancel_answer", "burst"}))
KEYED = {"adapter": KeyedHistories(["A4/A", "B4/B"], "", ["A4/A{together}"])}


@pytest.mark.parametrize(("more", "numbers"), [
    ({"only": ["drawn"]}, [("drawn", 9)]),
    ({"only": ["drawn"], "histories": ["A4"]}, [("same", 1), ("drawn", 9)]),
    ({"only": ["isolation"], "keyed": KEYED}, [("same", 2), ("isolation", 2)]),
    ({"only": ["parallel"], "keyed": KEYED, "parallel": ["A4", "B4"]}, [("same", 2), ("parallel", 3)]),
    ({"only": ["known"], "last": ["A4"]}, [("known", 0), ("known", 1)]),
    ({"only": ["reuse"]}, []),
])  # fmt: skip
def test_the_sections_have_their_histories_in_order(more, numbers):
    plan = HistoryPlan(**{"corpus": "any", "histories": (), "max_examples": 9, "max_requests": 6, "max_prompt": 256,
                          "near": (), "tokens": range(100), **more})  # fmt: skip
    assert [(one.section, one.number) for one in _sources(plan, SPACE)] == numbers


def test_keys_adapters_images_and_drafts_are_judged_where_requests_have_them():
    plan = HistoryPlan("", (), 9, 6, 256, (), range(100))
    assert {*PROPERTIES} - {*plan.judged} == {"key", "adapter", "base", "image", "drafts"}
    more = replace(plan, keys=[RequestKey(), RequestKey("a")], drafts=True, keyed={"image": KeyedHistories()})
    assert {*PROPERTIES} - {*more.judged} == {"adapter", "base"}
    assert "key" not in replace(plan, keys=[RequestKey()]).judged
    assert ("known" in plan.sections, "known" in replace(plan, corpus="any").sections) == (False, True)


def test_wrong_answers_with_something_in_common_are_the_fault_of_the_first():
    results = [Result(name, "same", "s", state) for name, state in (
        ("append", "ok"), ("branch", "failed"), ("repeat", "failed"), ("adapter", "failed"), ("base", "ok"),
        ("unseen", "failed"), ("uncached", "failed"))]  # fmt: skip
    failed = {name: PropertyTally(failed=[(None, PropertyCheck(name, False, 0, split=split)) for split in splits])
              for name, splits in (("branch", [(4, 1)]), ("repeat", [(8, 1)]), ("adapter", [(3, 7)]))}  # fmt: skip
    every = ("all 2 failing cases have 1 token not cached and a multiple of 4 tokens cached, "
             "as do 0 of 0 correct answers")
    assert [(one.name, one.fault, one.like, one.common) for one in _with_faults(results, failed)] == [
        ("append", "", "", ""), ("branch", DIFFERS, "", every), ("repeat", DIFFERS, "branch", every),
        ("adapter", DIFFERS, "", ""), ("base", "", "", ""), ("unseen", "", "", ""), ("uncached", "", "", "")]
    failed["repeat"].failed[:] = [(None, PropertyCheck("repeat", False, 0, split=split)) for split in ((3, 2), (6, 5))]
    assert [(one.like, one.common) for one in _with_faults(results, failed)][1:3] == [
        ("", ""), ("", "all 2 failing cases have a multiple of 3 tokens cached, as do 0 of 0 correct answers")]


def test_a_wrong_answer_that_only_shrinking_found_has_nothing_in_common_with_others():
    found = list(_with_faults([Result("branch", "same", "s", "failed"), Result("repeat", "same", "s", "failed")], {}))
    assert [(one.fault, one.like, one.common) for one in found] == [(DIFFERS, "", "")] * 2


PLAN = HistoryPlan("any", (), 9, 6, 256, (), range(100))


def test_only_lines_of_a_server_may_name_adapters():
    def first(**more):
        return next(iter(_sources(replace(PLAN, **more), SPACE)[0].histories())).line

    adapter = "A4{lora=0:1}/A"
    assert first(only=["drawn"], histories=[adapter], keyed={}) == adapter
    with pytest.raises(BadInput, match="adapters, images and n_cmpl are supported by 'cachesim check' only"):
        first(only=["drawn"], histories=[adapter])
    with pytest.raises(BadInput, match="adapters, images and n_cmpl"):
        next(iter(_lines("known", [adapter]).histories()))
    sources = _sources(replace(PLAN, only=["isolation", "parallel"], keyed={"adapter": KeyedHistories(
        [adapter], "", ["A4/A{lora=0:1 together}"])}, parallel=["A4{n_cmpl=2}"]), SPACE)  # fmt: skip
    lines = {section: [history.line for one in sources if one.section == section for history in one.histories()]
             for section in ("isolation", "parallel")}  # fmt: skip
    assert adapter in lines["isolation"] and lines["parallel"][-2:] == ["A4{n_cmpl=2}", "A4/A{lora=0:1 together}"]


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


def sources_of(**lines):
    return [HistorySource(section, lambda some=some: map(parse_history, some), len(some))
            for section, some in lines.items()]  # fmt: skip


SOURCES = {"same": ["A4/A", "B5"], "known": ["A6"], "drawn": ["A7", "A8"]}


@pytest.mark.parametrize(("search", "done", "counted", "unfinished"), [
    (GivenSearch(), 3, 5, []), (GivenSearch(0), 0, 0, ["same", "known", "drawn"]),
    (GivenSearch(1), 0, 1, ["same", "known", "drawn"]), (GivenSearch(2), 1, 2, ["known", "drawn"]),
    (GivenSearch(4), 2, 4, ["drawn"]), (GivenSearch(cut_at="A6"), 1, 3, ["known", "drawn"]),
    (GivenSearch(cut_at="A8"), 2, 5, ["drawn"]),
])  # fmt: skip
def test_histories_are_run_until_a_limit(search, done, counted, unfinished):
    every = sources_of(**SOURCES)
    _run_sources(every, search)
    assert (search.done, len(search.counted)) == (done, counted)
    assert search.begun == [(name, len(some)) for name, some in SOURCES.items()][: len(search.begun)]
    assert _unfinished_sections(every, search) == dict.fromkeys(
        unfinished, "stopped after 9 seconds before all histories were run")  # fmt: skip
    assert search.gap == ("not run: stopped after 9 seconds" if unfinished else "")


def test_a_section_is_not_begun_after_the_limit():
    search = GivenSearch(0)
    _run_sources(sources_of(**SOURCES), search)
    low = GivenSearch()
    low.is_low = True
    _run_sources(sources_of(**SOURCES), low)
    assert search.begun == low.begun == []


def test_sources_that_were_run_are_not_run_again():
    search = GivenSearch()
    search.done, search.gap = 2, "no cache"
    _run_sources(sources_of(**SOURCES), search)
    assert search.begun == [("drawn", 2)] and _unfinished_sections(sources_of(**SOURCES), search) == {}
    search.done = 2
    assert list(_unfinished_sections(sources_of(**SOURCES), search)) == ["drawn"] and search.gap == "no cache"


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


@pytest.mark.parametrize(("state", "why", "after"), [
    ("ok", "too few", ("undecided", "too few")), ("ok", "", ("ok", "")), ("failed", "too few", ("failed", "")),
    ("failed", "", ("failed", "")), ("unsupported", "too few", ("undecided", "too few")),
])  # fmt: skip
def test_a_result_that_no_mistake_could_have_changed_is_undecided_unless_it_failed(state, why, after):
    found = _unseen_mistakes(Result("prefix", "drawn", "a sentence", state), why)
    assert (found.state, found.why) == after


class ShrunkSearch:
    """A search whose failures shrink to A3/A.B1, which fails again or not."""

    def __init__(self, fails_again=True, is_low=False, is_spent=False, **request):
        self.tallies = {"append": PropertyTally(failed=[(None, None)])}
        self.budget = SimpleNamespace(is_low=is_low, is_spent=is_spent, stopped="stopped after 9 seconds")
        self.fails_again, self.request, self.same, self.shrunk = fails_again, request, identical, []

    def smallest(self, name):
        self.shrunk.append(name)
        self.tallies.setdefault("answers", PropertyTally(failed=[(None, None)]))
        return parse_history("A3/A.B1"), PropertyCheck(name, False, 1, "x", "y", apart=Difference(0.5, "0.5 apart"))

    def play(self, history):
        asks = [CacheRequest((1, 2, 3)), CacheRequest((1, 2, 3, 9), **self.request)]
        cold, warm = [Reply((5,))] * 2, [Reply((5,), cached=0), Reply((6,), cached=3)]
        return HistoryRun(history, asks, cold, [None] * 2, warm, [[0], [1]])

    def again(self, history, check):
        return self.fails_again


def cold_of(prompts):
    """Return a cold implementation that answers 6 to these prompts, and 5 to others; it notes the prompts."""
    asked = []
    return lambda ask: asked.append(ask.prompt) or Reply((6,) if ask.prompt in prompts else (5,)), asked


FIRST_WRONG = "first wrong token: generated token 0, at position 4"


@pytest.mark.parametrize(("request_", "notes"), [
    ({}, ()), ({"sampling": {"seed": 1}}, ("sampling {'seed': 1}",)),
    ({"key": RequestKey("cat")}, (f"keys of the requests: {RequestKey()}, {RequestKey('cat')}",)),
])  # fmt: skip
def test_a_finding_has_what_was_sent_beside_the_prompt_and_the_diagnosis(request_, notes):
    cold, asked = cold_of([(9,)])
    found = _failed("append", ShrunkSearch(**request_), cold)
    assert (found.name, found.section, found.sentence) == ("append", "same", PROPERTIES["append"])
    assert (found.state, found.why, found.finding.line, found.finding.request) == ("failed", "", "A3/A.B1", 1)
    assert found.finding.notes[: len(notes) + 2] == ("0.5 apart", *notes, FIRST_WRONG)
    assert found.finding.notes[-1].startswith("equals a cold run's answer to only the last 1 token: ")
    assert asked == [(9,)] and found.finding.prompts == ((1, 2, 3), (1, 2, 3, 9))


def test_a_failed_request_that_was_not_sent_again_has_no_sampling():
    search = ShrunkSearch(is_low=True)
    whole = search.play
    search.play = lambda history: replace(whole(history), asks=whole(history).asks[:1])
    assert _failed("append", search, cold_of([])[0]).finding.notes == ("0.5 apart",)


@pytest.mark.parametrize(("name", "is_low"), [("append", True), ("answers", False), ("answers", True)])
def test_only_a_wrong_answer_is_diagnosed_while_there_is_time(name, is_low):
    cold, asked = cold_of([(9,)])
    found = _failed(name, ShrunkSearch(is_low=is_low), cold)
    assert (found.finding.notes, asked, found.state) == (("0.5 apart",), [], "failed")


@pytest.mark.parametrize(("is_spent", "why"), [
    (False, "failed, but not when run again"),
    (True, "failed, but stopped after 9 seconds before it was run again"),
])  # fmt: skip
def test_a_failure_that_does_not_recur_is_undecided(is_spent, why):
    found = _failed("append", ShrunkSearch(fails_again=False, is_spent=is_spent), cold_of([])[0])
    assert (found.state, found.why, found.finding.line) == ("undecided", why, "A3/A.B1")


def test_a_property_that_fails_only_while_another_is_shrunk_has_a_result_too():
    search = ShrunkSearch()
    search.tallies["prefix"] = PropertyTally()
    found = _shrunk(search, cold_of([])[0])
    assert [*found] == search.shrunk == ["append", "answers"]


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


def test_histories_of_shrinking_are_no_cases_of_a_fault():
    class Shrinks(GivenSearch):
        """Search with two failed cases, and with another and a correct answer after it has shrunk them."""

        play, again = ShrunkSearch.play, lambda *words: True

        def __init__(self, failed):
            super().__init__()
            self.tallies = {"append": PropertyTally(len(failed), failed=failed)}
            self.counts, self.reported, self.request, self.same = {}, set(), {}, identical

        def smallest(self, name):
            self.tallies[name].failed.append((None, PropertyCheck(name, False, 1, split=(7, 2))))
            self.tallies[name].right[4, 1] += 1
            return parse_history("A3/A.B1"), PropertyCheck(name, False, 1, "x", "y")

    search = Shrinks([(None, PropertyCheck("append", False, 1, split=split)) for split in ((4, 1), (8, 1))])
    plan = replace(PLAN, corpus="", only=("same",))
    found = make_report(plan, SubjectAbilities({}), search, cold_of([])[0])["append"]
    assert found.common == ("all 2 failing cases have 1 token not cached and a multiple of 4 tokens cached, "
                            "as do 0 of 0 correct answers")
