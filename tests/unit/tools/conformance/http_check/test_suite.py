"""Tests of the whole check on servers in this process: findings, matching rules and false alarms."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.fingerprint import Difference
from cachesim.tools.conformance.history_player import HistoryRun
from cachesim.tools.conformance.http_check import known_faults as faults
from cachesim.tools.conformance.http_check.batch_control import BatchControl, Cause, SecondServer, SharedBatch
from cachesim.tools.conformance.http_check.dialect import identify_server
from cachesim.tools.conformance.http_check.http_client import Exhausted
from cachesim.tools.conformance.http_check.known_faults import EarlyFinding
from cachesim.tools.conformance.http_check.listener import CheckListener
from cachesim.tools.conformance.http_check.matching_rules import MatchingRuleSet, WrongRequest
from cachesim.tools.conformance.http_check.parallel_histories import parallel_lines
from cachesim.tools.conformance.http_check.suite import (
    CheckOptions,
    _CheckRun,
    _cold_answer,
    _counted_once,
    _reused,
    _with_number,
    check,
    longest,
)
from cachesim.tools.conformance.properties import PropertyCheck
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply
from cachesim.tools.conformance.report import Finding, Result
from tests.unit.tools.conformance.http_check.in_process import NATIVE, InProcess, Toy
from tests.unit.tools.conformance.http_check.stand_in import Simulated

STALE, SOUND = "A5/B10/B[:1].C5", "A9/A.B3/A[:4]"
QUICK = CheckOptions(("same",), (SOUND,), examples=1, tolerance=0.005)


def checked(complete, wanted=QUICK, most=400):
    http = InProcess(complete, NATIVE, most)
    return check(http, identify_server(http), wanted)


def by_state(found, state="failed"):
    return {one.name: one for one in found.report.results if one.state == state}


def test_a_sound_server_has_no_finding():
    found = checked(Toy())
    assert by_state(found) == {} and found.rules == {} and not found.server_end and found.requests <= 400
    assert found.report.results[0].name == "repeatable" and found.report.results[0].state == "ok"


@pytest.mark.long
def test_a_stale_checkpoint_is_found_with_the_rule_behind_it():
    simulated = Simulated("llama_cpp@b11549")
    found = checked(simulated.complete, CheckOptions(("same",), (STALE,), examples=1, tolerance=0.005), 120)
    result = by_state(found)["branch"]
    assert result.finding.line.startswith("Wash5/") and result.finding.request > 0
    assert found.rules["branch"][0].rule == "LC-CKPT-ERASE.ER2" and found.faults == 1


@pytest.mark.long
def test_known_faults_come_first_and_count_where_the_search_came_to_no_other_finding():
    toy = Toy(apart=lambda request, prompt, reused: 0.2 if reused == 1 else 0.0)
    found = checked(toy, CheckOptions(("known",), examples=1, tolerance=0.005), 40)
    assert [one.line for one in found.found] == [f"Wash5/{STALE}"] and found.found[0].requests <= 20
    result = by_state(found)["branch"]
    assert result.finding.line == f"Wash5/{STALE}" and result.finding.request == 3 and "larg" in result.finding.notes[0]


def test_no_known_fault_is_looked_for_on_a_server_that_does_not_repeat_itself():
    toy = Toy(apart=lambda request, prompt, reused: 0.2 * (request % 2))
    assert checked(toy, CheckOptions(("known",), examples=1, tolerance=0.005), 60).rules == {}


@pytest.mark.long
def test_the_tolerance_is_measured_unless_it_is_given():
    toy = Toy(apart=lambda request, prompt, reused: 0.002 if reused else 0.0)
    found = checked(toy, CheckOptions(("same",), (SOUND,), examples=1))
    assert 0.0019 < found.measured < 0.0021 and 0.019 < found.tolerance < 0.021 and by_state(found) == {}
    found = checked(toy, CheckOptions(("same",), (SOUND,), examples=1, tolerance=0.001))
    assert (found.measured, found.tolerance) == (0.0, 0.001) and by_state(found)


def test_a_server_that_stops_answering_is_a_finding_with_its_history():
    def complete(body):
        dead.append(1) if dead or len(body["prompt"]) == 12 else None
        return (500, {"error": "gone"}) if dead else toy(body)

    dead, toy = [], Toy()
    found = checked(complete)
    result = by_state(found)["answers"]
    assert found.server_end == "stopped answering"
    assert result.finding.line == f"Wash5/{SOUND}" and result.finding.request == 2
    assert result.why == "not shrunk: the server stopped answering"
    assert "the server stopped answering: status 500: gone" in result.finding.notes[0]


def test_an_answer_that_was_spoilt_once_is_no_finding_of_its_history():
    asked = []

    def once(request, prompt, reused):
        asked.append(1) if reused == 9 else None
        return 1.0 if reused == 9 and len(asked) == 1 else 0.0

    found = checked(Toy(apart=once))
    assert by_state(found) == {} and found.faults == 0
    assert by_state(found, "undecided")["repeatable"].finding.line == f"Wash5/{SOUND}"


class Interrupting(CheckListener):
    """Raise KeyboardInterrupt when a stage begins for the first time, or after a fault."""

    def __init__(self, at):
        self.at, self.heard = at, []

    def stage(self, what, histories=0):
        self.heard.append(what)
        if what == self.at:
            self.at = ""
            raise KeyboardInterrupt

    def fault(self, found):
        self.heard.append(found)
        if self.at == "fault":
            raise KeyboardInterrupt


def stopped_at(at, complete, wanted):
    http, listener = InProcess(complete, NATIVE, 400), Interrupting(at)
    return check(http, identify_server(http), wanted, listener), listener


@pytest.mark.part(5)
@pytest.mark.parametrize("at", ["first requests", "known faults", "fault", "noise", "section same"])
def test_an_interrupt_keeps_what_was_found(at):
    toy = Toy(apart=lambda request, prompt, reused: 0.2 if reused == 1 else 0.0)
    found, listener = stopped_at(at, toy, CheckOptions(("known", "drawn"), examples=1, tolerance=0.005))
    assert isinstance(found.interrupt, KeyboardInterrupt) and found.stopped == "interrupted"
    assert found.report.unfinished["drawn"] == "interrupted before all histories were run" and not found.report.conforms
    assert found.faults == (at not in ("first requests", "known faults")), listener.heard
    states = {one.state for one in found.report.results if one.name != "branch"}
    assert "failed" not in states and "undecided" in states


@pytest.mark.long
def test_an_interrupt_while_rules_are_looked_up_keeps_all_results():
    toy = Toy(apart=lambda request, prompt, reused: 1.0 if reused == 1 else 0.0)
    wanted = CheckOptions(("same",), (STALE,), examples=1, tolerance=0.005)
    found, _ = stopped_at("rules", toy, wanted)
    whole = checked(Toy(apart=toy.apart), wanted)
    assert isinstance(found.interrupt, KeyboardInterrupt) and whole.interrupt is None and whole.rules["branch"]
    assert found.report == whole.report and found.rules == {"branch": []}


def test_a_fault_is_reported_before_its_history_is_shrunk():
    toy = Toy(apart=lambda request, prompt, reused: 1.0 if reused == 1 else 0.0)
    found, listener = stopped_at("", toy, CheckOptions(("same",), (STALE,), examples=1, tolerance=0.005))
    assert listener.heard.index(found.found[0]) < listener.heard.index("shrinking branch") and found.interrupt is None


def test_faults_with_one_rule_count_once_and_others_do_not():
    def result(name):
        return Result(name, "same", "s", "failed", finding=Finding("A/A", 1, "1", "2"))

    def match(rule, cure="X of y"):
        return [MatchingRuleSet("llama_cpp", "p", "GA", True, "", rule, cure)]

    names = ("append", "branch", "prefix", "repeat", "new", "burst")
    rules = {"append": match("R"), "branch": match("R"), "prefix": match("Q"), "repeat": match("R", "other"),
             "new": match("")}  # fmt: skip
    found = _counted_once([result(name) for name in names], rules)
    assert {one.name: one.like for one in found} == {**dict.fromkeys(names, ""), "branch": "append"}


@pytest.mark.parametrize("more", [7, -1])
def test_counts_that_cannot_be_are_a_finding(more):
    def complete(body):
        status, said = toy(body)
        said["timings"]["cache_n"] += more if said["timings"]["cache_n"] else 0
        return status, said

    toy = Toy()
    assert "accounting" in by_state(checked(complete, CheckOptions(("books",), (SOUND,), examples=1, tolerance=0.005)))


def test_prompts_leave_room_in_the_context():
    def longest_of(n_ctx):
        props = {"total_slots": 1, "n_ctx": n_ctx}
        return longest(identify_server(InProcess(None, {**NATIVE, "/props": props})))

    assert [longest_of(n) for n in (100, 1_000, 1_164, 8_192)] == [64, 936, 1_100, 1_100]


def test_a_property_whose_histories_a_limit_cut_off_is_undecided():
    found = checked(Toy(), most=40)
    result = found.report["append"]
    assert result.checked and result.decisive and result.state == "undecided" and not found.report.conforms
    assert result.why.startswith("stopped after 40 requests before all histories were run; ")


def test_the_reuse_of_a_run_begins_with_its_first_prompt():
    warm = [Reply((1,), None, cached=3), Reply((), None, cached=4, refused="full"), Failed("x"), Reply((1,), None)]
    assert _reused(SimpleNamespace(warm=warm)) == [None, 3, None, None, None] and _reused(None) == [None]


def run_of(complete=None, wanted=QUICK, pages=None, control=None):
    """Return a check that was not begun."""
    http = InProcess(complete or Toy(), pages or NATIVE, 400)
    return _CheckRun(http, identify_server(http), wanted, CheckListener(), control)


PLAYED = HistoryRun(parse_history("A5/A"), [CacheRequest((1, 2))] * 2, warm=[Reply((1,), cached=0)] * 2)
WRONG = PropertyCheck("branch", False, 1, "x", "y", apart=Difference(0.2, "0.2 apart"))
EARLY = EarlyFinding("A5/A", PLAYED, WRONG, 9)


@pytest.mark.parametrize(("name", "state", "apart", "found", "why"), [
    ("branch", "undecided", 0.2, "failed", ""), ("append", "undecided", 0.2, "undecided", "limit"),
    ("branch", "failed", 0.2, "failed", "limit"), ("branch", "skipped", 0.2, "skipped", "limit"),
    ("branch", "ok", 0.2, "undecided", "differed after 9 requests, but not when run again: A5/A"),
    ("branch", "ok", 0.005, "undecided",
     "differed after 9 requests, but within the tolerance that was measured later: A5/A"),
    ("branch", "ok", None, "undecided", "differed after 9 requests, but not when run again: A5/A"),
])  # fmt: skip
def test_a_known_fault_counts_if_the_search_came_to_no_other_result(name, state, apart, found, why):
    run = run_of()
    check_of = WRONG._replace(apart=None if apart is None else Difference(apart, "far"))
    run.early = [EARLY._replace(check=check_of)]
    said = run._with_early(Result(name, "same", "s", state, why="limit"))
    assert (said.state, said.why) == (found, why)
    is_early = state == "undecided" and name == "branch"
    assert (said.finding.line if said.finding else "") == ("A5/A" if is_early else "")


@pytest.fixture
def known(monkeypatch):
    """Let a known fault be found first, and note what is reported of it."""
    heard = SimpleNamespace(rules=[], faults=[], cause=Cause.FAULT)
    monkeypatch.setattr(faults, "repeats", lambda stage: True)
    monkeypatch.setattr(faults, "look", lambda stage, most: iter([EARLY]))
    monkeypatch.setattr(faults, "measure", lambda *words: 0.001)
    monkeypatch.setattr(BatchControl, "cause", lambda *words: heard.cause)

    def run(wanted=QUICK, rules=()):
        made = run_of(wanted=replace(wanted, only=("known",), histories=()))
        monkeypatch.setattr(made.matcher, "matches", lambda wrong: [*rules])
        monkeypatch.setattr(made.listener, "rule", heard.rules.append, raising=False)
        monkeypatch.setattr(made.listener, "fault", heard.faults.append, raising=False)
        made.prepare()
        return made

    heard.run = run
    return heard


def test_a_known_fault_is_reported_with_its_first_rule(known):
    rules = [MatchingRuleSet("llama_cpp", f"p{number}", "GA", True, f"why {number}", "R.1") for number in range(2)]
    run = known.run(rules=rules)
    assert run.early == [EARLY] and [one.name for one in run.search.found.values()] == ["branch"]
    assert known.rules == ["p0 gives a wrong answer on GA: R.1 decided (why 0)"]
    assert [(one.name, one.line) for one in known.faults] == [("branch", "Wash5/A5/A")]


@pytest.mark.parametrize("cause", [Cause.NUMBERS, Cause.OPEN])
def test_a_difference_that_may_be_a_matter_of_numbers_is_left_to_the_search(known, cause):
    known.cause = cause
    run = known.run()
    assert (run.early, known.rules, known.faults, run.search.found) == ([], [], [], {})


def test_a_noise_that_cannot_be_measured_is_an_error_unless_a_fault_was_found(known, monkeypatch):
    def silent(*words):
        raise BadInput("an answer is missing")

    monkeypatch.setattr(faults, "measure", silent)
    measured = replace(QUICK, tolerance=None)
    run = known.run(measured)
    assert (run.measured, run.tolerance) == (0.0, faults.LEAST)
    monkeypatch.setattr(faults, "look", lambda stage, most: iter([]))
    with pytest.raises(BadInput, match="an answer is missing"):
        known.run(measured)


def test_a_tolerance_that_is_given_is_not_measured(known, monkeypatch):
    assert known.run(replace(QUICK, tolerance=None)).tolerance == 0.01
    monkeypatch.setattr(faults, "measure", None)
    run = known.run(replace(QUICK, tolerance=0.5))
    assert (run.measured, run.tolerance) == (0.0, 0.5)


def test_a_model_that_chooses_rows_shares_its_batch_unless_there_is_another_server():
    named = {**NATIVE, "/props": {**NATIVE["/props"], "model_alias": "DeepSeek-V3.2"}}
    run = run_of(pages=named)
    assert isinstance(run.search.control.source, SharedBatch) and run.search.control.chooses
    other = SecondServer(None)
    assert run_of(pages=named, control=other).search.control == BatchControl(other, True)
    assert run_of(control=other).search.control == BatchControl(other, False)
    assert run_of().search.control == BatchControl(None, False)


def test_histories_are_planned_for_the_sections():
    plain, parallel, known_too = (run_of(wanted=CheckOptions(only)) for only in (("same",), ("parallel",), ("known",)))
    assert (plain.plan.histories, plain.plan.parallel, plain.plan.last) == ((), (), ())
    assert parallel.plan.parallel == tuple(parallel_lines(parallel.server, parallel.bounds, 20, 0))
    assert known_too.plan.histories == tuple(faults.known_lines(known_too.most, ()))
    assert known_too.plan.last == faults.LAST
    own = run_of(wanted=CheckOptions(("known",), ("A5/A",), examples=3, near=(8,)))
    assert (own.is_known, own.plan.histories, own.plan.max_examples, own.plan.last) == (False, ("A5/A",), 3, ())
    assert tuple(own.plan.near) == (8,)


def test_a_fault_is_sought_with_the_number_of_its_request_after_the_first_prompt():
    run = run_of()
    asked = []
    run.matcher.matches = lambda wrong: asked.append(wrong) or []
    run._report_rule(EARLY)
    assert asked == [WrongRequest("Wash5/A5/A", 2, (None, 0, 0))]


@pytest.mark.parametrize(("name", "state", "why"), [
    ("identical", "ok", "1 distinct answer to 3 identical prompts at once"), ("identical", "failed", ""),
    ("burst", "ok", ""),
])  # fmt: skip
def test_the_number_of_identical_prompts_is_stated(name, state, why):
    assert _with_number(Result(name, "parallel", "s", state), 3).why == why


def test_cold_answers_for_a_diagnosis_come_from_the_server_until_its_last_request():
    def exhausted(ask):
        raise Exhausted("stopped after 9 requests")

    reply = Reply((5,))
    stages = SimpleNamespace(answer=lambda ask: reply)
    assert _cold_answer(stages, CacheRequest((1,))) is reply
    stages.answer = exhausted
    assert str(_cold_answer(stages, CacheRequest((1,)))) == "stopped after 9 requests"


def test_the_stages_of_a_check_are_heard_in_order():
    listener = Interrupting("never")
    http = InProcess(Toy(), NATIVE, 400)
    check(http, identify_server(http), replace(QUICK, only=("known",), histories=()), listener)
    stages = [what for what in listener.heard if isinstance(what, str)]
    assert stages[:3] == ["first requests", "known faults", "noise"] and stages[-1] == "rules"
    assert next(what for what in stages if what.startswith("section")) == "section same"


def test_every_request_of_a_check_is_heard():
    heard = []
    listener = CheckListener()
    listener.request = heard.append
    http = InProcess(Toy(), NATIVE, 400)
    server = identify_server(http)
    found = check(http, server, QUICK, listener)
    assert heard == list(range(heard[0], found.requests + 1))
