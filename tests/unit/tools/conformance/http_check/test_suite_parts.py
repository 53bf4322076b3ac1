"""Tests of the parts of a check: the sections that are run, the noise, the sizes of prompts, and the last report."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.history_player import HistoryRun
from cachesim.tools.conformance.http_check import suite
from cachesim.tools.conformance.http_check.adapters import Adapter
from cachesim.tools.conformance.http_check.batch_control import BatchControl, Cause
from cachesim.tools.conformance.http_check.dialect import identify_server
from cachesim.tools.conformance.http_check.known_faults import EarlyFinding
from cachesim.tools.conformance.http_check.listener import CheckListener, FoundFault
from cachesim.tools.conformance.http_check.matching_rules import MatchingRuleSet, WrongRequest
from cachesim.tools.conformance.http_check.parallel_histories import ParallelBounds, burst_lines
from cachesim.tools.conformance.http_check.suite import CheckOptions, _CheckRun, _noise, _with_end, check
from cachesim.tools.conformance.http_check.warm_run import TWICE, ServerEnd
from cachesim.tools.conformance.properties import PropertyCheck
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply
from cachesim.tools.conformance.report import SECTIONS, Finding, Report, Result
from tests.unit.tools.conformance.http_check.in_process import NATIVE, PROPS, InProcess, Toy

SERVER = identify_server(InProcess(Toy()))
IMAGE = "A8.I3x1.B8"
QUICK = CheckOptions(tolerance=0.005)


def run_of(wanted=QUICK, server=SERVER):
    """Return a check that was not begun."""
    return _CheckRun(InProcess(Toy()), server, wanted, CheckListener(), None)


@pytest.mark.parametrize(("only", "judged"), [
    ("books", {"books"}), ("reuse", {"reuse"}), ("same", {"same"}), ("known", {"known", "same"}),
    ("drawn", {"drawn", "same"}), ("parallel", {"parallel", "same", "isolation", "faults"}),
])  # fmt: skip
def test_a_section_is_run_with_those_that_judge_its_histories(only, judged):
    http = InProcess(Toy(), most=20)
    wanted = CheckOptions((only,), examples=1, tolerance=0.005, rounds=1, images=False)
    found = check(http, identify_server(http), wanted)
    assert {*SECTIONS} - {*found.report.skipped} == judged


class GivenStages:
    """Stages of a server whose prompts with images differ by ``noise``."""

    def __init__(self, noise=0.0):
        self.text, self.noise, self.found = SimpleNamespace(server=SERVER, twice=0), noise, 0

    def find_images(self):
        self.found += 1

    def measure_images(self, most):
        assert most == 1_100
        return self.noise


BOUNDS = ParallelBounds(3, 40, ())


@pytest.fixture
def measured(monkeypatch):
    """Let prompts differ by 0.002, and those at once by 0.003; note what is measured."""
    asked = []

    def measure(stage, most, lines=()):
        asked.append((most, [*lines]))
        return 0.003 if lines else 0.002

    monkeypatch.setattr(suite.faults, "measure", measure)
    return asked


@pytest.mark.parametrize(("sections", "images", "noise"), [
    ({"same"}, 0.01, 0.002), ({"parallel"}, 0.001, 0.003), ({"parallel"}, 0.01, 0.01), ({"isolation"}, 0.001, 0.002),
    ({"isolation"}, 0.01, 0.01),
])  # fmt: skip
def test_the_noise_is_the_largest_of_all_prompts_that_are_sent(measured, sections, images, noise):
    stages = GivenStages(images)
    assert _noise(stages, CheckOptions(), sections, BOUNDS) == noise
    assert stages.found == (sections != {"same"}) and stages.text.twice == TWICE
    bursts = [parse_history(line).uncached.line for line in burst_lines(20, 3)][:2]
    assert measured == [(1_100, []), *([(3_300, bursts)] if "parallel" in sections else [])]
    assert all("!" in line for line in bursts)


def test_a_given_tolerance_leaves_the_noise_at_zero(measured):
    stages = GivenStages(0.01)
    assert _noise(stages, CheckOptions(tolerance=0.5), {"parallel"}, BOUNDS) == 0.0
    assert measured == [] and stages.found == 1


@pytest.mark.parametrize(("sections", "histories", "images", "found"), [
    ({"same"}, (), True, 0), ({"same"}, (IMAGE,), True, 1), ({"same"}, ("A4/A",), True, 0),
    ({"same"}, (IMAGE,), False, 0), ({"isolation"}, (), False, 0),
])  # fmt: skip
def test_images_are_looked_for_only_if_a_history_has_some(measured, sections, histories, images, found):
    stages = GivenStages(0.01)
    noise = _noise(stages, CheckOptions(histories=histories, images=images), sections, BOUNDS)
    assert (stages.found, noise) == (found, 0.01 if found else 0.002)


@pytest.mark.parametrize(("n_ctx", "near", "n", "most"), [
    (4096, (16, 64), 130, 4032), (4096, (4,), 24, 4032), (4096, (2_000,), 1_036, 4032), (150, (16, 64), 22, 86),
    (100, (4,), 8, 36),
])  # fmt: skip
def test_histories_of_adapters_and_images_fit_into_the_context(monkeypatch, n_ctx, near, n, most):
    asked = []
    monkeypatch.setattr(suite, "keyed_histories", lambda stages, *sizes: iter([asked.append(sizes) or ("base", "x")]))
    monkeypatch.setattr(suite, "detect_drafts", lambda http, server: False)
    run = run_of(CheckOptions(("isolation",), near=near, at_once=5, tolerance=0.25, images=False),
                 replace(SERVER, n_ctx=n_ctx))  # fmt: skip
    run.prepare()
    assert asked == [(0.25, n, most, 5)] and run.plan.keyed == {"base": "x"}


def test_the_scales_of_all_adapters_are_looked_up_in_order():
    adapters = (Adapter(scale=1.0), Adapter(scale=0.5))
    assert (run_of(server=replace(SERVER, adapters=adapters)).matcher.scales, run_of().matcher.scales) == ("1,0.5", "")
    assert run_of().matcher.slots and not run_of(server=replace(SERVER, client=object())).matcher.slots


@pytest.mark.parametrize("drafts", [True, False])
def test_only_a_server_that_drafts_is_asked_without_drafts(drafts):
    assert (run_of(server=replace(SERVER, drafts=drafts)).search.undrafted is not None) is drafts


@pytest.mark.parametrize(("tolerance", "allowed"), [(None, 0.005), (0.25, 0.25), (0.0, 1e-9)])
def test_answers_may_differ_by_the_tolerance(tolerance, allowed):
    assert run_of(CheckOptions(tolerance=tolerance)).search.same.tolerance == allowed


def run_with(cached):
    """Return a run of two requests, the last of which reused this many tokens."""
    return HistoryRun(parse_history("A5/A"), [CacheRequest((1, 2))] * 2, warm=[Reply((1,)), Reply((1,), cached=cached)])


def test_the_reuse_of_a_finding_is_that_of_its_last_proof():
    """Later records take precedence: a failing run, a known fault, a history that failed twice, the last run."""
    run, finding = run_of(), Finding("Wash5/A5/A", 2, "1", "2")
    assert run._cached(finding) == [None]
    run.search.runs["A5/A"] = run_with(1)
    assert run._cached(finding) == [None, None, 1]
    run.early = [EarlyFinding("A5/A", run_with(2), PropertyCheck("branch", False, 1), 9)]
    assert run._cached(finding) == [None, None, 2]
    run.search.proved["A5/A"] = run_with(3)
    assert run._cached(finding) == [None, None, 3]
    run.stage.end = ServerEnd(run_with(4), 1, "died")
    assert run._cached(finding) == [None, None, 4] and run._cached(replace(finding, line="Wash5/B5/B")) == [None]


FINDING = Finding("Wash5/A5/A", 2, "1", "2")
RESULTS = (Result("append", "same", "s", "failed", finding=FINDING), Result("branch", "same", "s", "ok"),
           Result("prefix", "same", "s", "accepted", finding=FINDING),
           Result("accounting", "books", "s", "failed", finding=FINDING))  # fmt: skip


def reported(interrupt=None, known=None):
    """Return a run with its last report, and the wrong requests whose rules were looked up."""
    run, asked = run_of(), []
    match = MatchingRuleSet("llama_cpp", "p", "GA", True, "", "R", "X")
    run.matcher.matches = lambda wrong: asked.append(wrong) or [match]
    run.matcher.known = known or {}
    run.search.found = {"append": FoundFault("append", "Wash5/A5/A", 2, 7, "x")}
    run.measured, run.http.sent, run.stages.image_tokens = 0.001, 12, 5
    return run, run.report(Report(RESULTS), interrupt), asked


def test_rules_are_looked_up_for_wrong_answers_only():
    run, found, asked = reported()
    assert asked == [WrongRequest("Wash5/A5/A", 2, (None,))] and [*found.rules] == ["append"]
    assert [one.name for one in found.report.results] == [one.name for one in RESULTS] and found.faults == 2
    assert (found.server, found.measured, found.tolerance, found.requests) == (run.server, 0.001, 0.005, 12)
    assert (found.found, found.server_end, found.image_tokens) == ((run.search.found["append"],), "", 5)
    assert (found.stopped, found.interrupt) == ("", None)


def test_after_an_interrupt_only_known_rules_are_listed():
    interrupt = KeyboardInterrupt()
    _, found, asked = reported(interrupt)
    assert (asked, found.rules, found.interrupt) == ([], {"append": []}, interrupt)
    match = MatchingRuleSet("llama_cpp", "q", "GA", True, "", "R", "X")
    _, found, asked = reported(interrupt, {WrongRequest("Wash5/A5/A", 2, (None,)): [match]})
    assert (asked, found.rules) == ([], {"append": [match]})


def test_a_server_that_ended_is_named_in_the_report():
    run = run_of()
    run.stage.end = ServerEnd(run_with(4), 1, "died")
    assert run.report(Report(())).server_end == "died"


def test_a_server_that_refused_its_last_request_is_shown_with_its_words():
    played = HistoryRun(parse_history("A5/A"), [CacheRequest((1, 2))] * 2, warm=[Reply((1,)), Reply(refused="full")])
    stage = SimpleNamespace(end=ServerEnd(played, 1, "stopped answering"), http=SimpleNamespace(dead="it is gone"))
    found = _with_end(Result("answers", "faults", "s", "ok"), stage)
    assert (found.finding.got, found.finding.notes) == ("refused (full)", ("it is gone",))
    played.warm[1] = Failed("status 500: gone")
    assert _with_end(Result("answers", "faults", "s", "ok"), stage).finding.got == "status 500: gone"
    assert _with_end(Result("append", "same", "s", "ok"), stage).state == "ok"


def test_a_fault_that_two_properties_show_is_reported_once():
    run = run_of()
    run.matcher.matches = lambda wrong: [MatchingRuleSet("llama_cpp", "p", "GA", True, "", "R", "X")]
    found = run.report(Report((RESULTS[0], replace(RESULTS[0], name="branch"))))
    assert [one.like for one in found.report.results] == ["", "append"] and found.faults == 1


def test_a_known_fault_after_one_of_numbers_is_still_found(monkeypatch):
    two = [EarlyFinding(line, run_with(1), PropertyCheck("branch", False, 1), 9) for line in ("A5/A", "A7/A")]
    monkeypatch.setattr(suite.faults, "look", lambda stage, most: iter(two))
    monkeypatch.setattr(BatchControl, "cause", lambda control, played, check, same: (
        Cause.NUMBERS if played is two[0].played else Cause.FAULT))  # fmt: skip
    run = run_of(CheckOptions(("known",), tolerance=0.005))
    run.matcher.matches = lambda wrong: []
    run.prepare()
    assert run.early == two[1:] and run.plan.keyed == {}


def test_a_server_that_drafts_is_found_before_anything_is_planned(monkeypatch):
    monkeypatch.setattr(suite, "detect_drafts", lambda http, server: True)
    run = run_of(CheckOptions(("same",), tolerance=0.005))
    assert run.plan.drafts is False
    run.prepare()
    assert run.server.drafts and run.plan.drafts and run.stage.server.drafts and run.search.undrafted is not None


def test_a_check_has_all_sections_and_compares_exactly():
    run = run_of()
    assert run.sections == {*SECTIONS} and run.stage.same.tolerance == 0.0 and run.plan.keyed == {}


def test_a_check_of_a_small_context_has_short_prompts():
    pages = {**NATIVE, "/props": {**PROPS, "default_generation_settings": {"n_ctx": 100}}}
    server = identify_server(InProcess(Toy(), pages))
    run = run_of(CheckOptions(("same",), tolerance=0.005), server)
    assert (run.most, run.plan.max_prompt, run.plan.max_requests) == (64, 64, 6)
