"""Cures of a cause: flags and later builds that were run."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import BUILTIN
from cachesim.tools.advise.case_facts import ASSUMED, LEAST, CaseFacts
from cachesim.tools.advise.setup_changes import ChangeKind, Setup, SetupChange
from cachesim.tools.server_logs import cures as module
from cachesim.tools.server_logs.cures import _changes, _text, cures
from cachesim.tools.server_logs.logged_requests import LoggedRequest
from cachesim.tools.server_logs.printed_numbers import Contradiction
from cachesim.tools.server_logs.reconstruction import ReconstructedRequest, Reconstruction

LINE = "S100.|U50>a10/S.|U[:25].|V20"              # the second prompt leaves the slot's contents within the history
SERVER = {"parallel": 1, "batch_size": 64, "ubatch_size": 16}


def rebuilt(profile="llama_cpp@b9231", line=LINE, **server):
    requests = [ReconstructedRequest(LoggedRequest(0, 7 + step, (10 * step, 10 * step + 9)), step=step)
                for step in range(line.count("/") + 1)]  # fmt: skip
    return Reconstruction(profile, "GGGA", {**SERVER, **server}, requests, line)


def said(cause="no-checkpoint", task=8, line=11, lost=(100, None)):
    return {"what": "cause", "slot": 0, "task": task, "lines": [line], "numbers": {"cause": cause, "lost": lost}}


def found(case, *statements):
    names = ("kind", "change", "request", "before", "evaluated")
    return [tuple(one[name] for name in names) for one in cures(case, statements)]


def test_the_best_flag_and_the_first_later_build_are_named():
    assert found(rebuilt(), said()) == [
        ("flag", "-cms 64", 1, 145, 81), ("build", "llama_cpp@b9473", 1, 145, 45)]  # fmt: skip
    assert cures(rebuilt(), [said(), said("edited-prompt")])[0]["causes"] == ["no-checkpoint", "edited-prompt"]


def test_a_change_without_effect_is_no_cure():
    assert found(rebuilt("llama_cpp@b11549"), said()) == []
    assert [one[0] for one in found(rebuilt(), said("edited-prompt"))] == ["build"]      # no flag is about the client


@pytest.mark.parametrize("statement", [said(task=9), said(line=25), {**said(), "what": "request"},
                                       {**said(), "numbers": {"cause": "server-warning"}}])  # fmt: skip
def test_a_cure_is_about_a_request_of_the_simulation(statement):
    assert found(rebuilt(), statement) == []


def test_a_simulation_that_contradicts_the_log_has_no_cure():
    case = rebuilt()
    case.requests[0].simulated_n = 5
    case.requests[0].logged = replace(case.requests[0].logged, cache_n=9)
    assert case.is_rejected and found(case, said()) == []


def test_the_costliest_request_is_cured():
    line = "S100.|U50>a10/S.|U.a.|V20/S.|W60"
    case = rebuilt("llama_cpp@b11549", line, ctx_checkpoints=1)
    small = said(task=8, lost=3)
    assert found(case, small, said(task=9, line=21)) == [("flag", "--ctx-checkpoints 32", 2, 160, 60)]


def test_the_work_is_limited(monkeypatch):
    monkeypatch.setattr(module, "TOKENS", 600)
    assert found(rebuilt(), said()) == []


def test_a_cure_is_stated_with_what_it_rests_on():
    facts = CaseFacts(sources={"checkpoint_min_step": ASSUMED}, low=9231, high=9231)
    flag, build = cures(rebuilt(), [said()], facts)
    assert flag == {
        "causes": ["no-checkpoint"], "request": 1, "slot": 0, "task": 8, "kind": "flag", "change": "-cms 64",
        "evaluated": 81, "before": 145, "rests_on": ["-cms -1 was set"],
    }  # fmt: skip
    assert (build["change"], build["rests_on"]) == ("llama_cpp@b9473", [])
    [flag, build] = cures(rebuilt(), [said()])
    assert (flag["rests_on"], build["rests_on"]) == (["the server has the default -cms -1"],
                                                     ["the server is older than llama_cpp@b9473"])  # fmt: skip


def test_a_change_that_the_log_rules_out_is_not_tried():
    allowed = CaseFacts(sources={"checkpoint_min_step": LEAST}, low=9473)
    assert [one["change"] for one in cures(rebuilt(), [said()], allowed)] == ["llama_cpp@b9518"]


@pytest.mark.parametrize("tokens", [589, 590, 885])
def test_at_least_one_change_is_run_besides_the_log(monkeypatch, tokens):
    """The prompts of the log have 295 tokens."""
    runs = []
    run = module.run_trial
    monkeypatch.setattr(module, "run_trial", lambda case: runs.append(case) or run(case))
    monkeypatch.setattr(module, "TOKENS", tokens)
    cures(rebuilt(), [said()])
    assert len(runs) == {589: 0, 590: 2, 885: 3}[tokens]


@pytest.mark.parametrize("case", [rebuilt(line=""), rebuilt()])
def test_a_log_that_was_not_simulated_or_not_decided_has_no_cure(case):
    case.requests[0].simulated_n, case.untried_requests = 5, {0}
    case.requests[0].logged = replace(case.requests[0].logged, cache_n=9)
    if not case.line:
        case.requests.clear()
    assert cures(case, [said()]) == []


class Change:
    """Change whose run has an outcome, or that cannot be applied."""

    def __init__(self, outcome):
        self.outcome = outcome

    def of(self, case):
        if self.outcome is None:
            raise BadInput("not possible")
        return self.outcome


def outcome(evaluated, wrong=(), failed=(), undecided=()):
    return SimpleNamespace(each=[0, evaluated], wrong=wrong, failed=failed, undecided=undecided)


@pytest.mark.parametrize(("changed", "evaluated"), [
    (outcome(40), 40), (None, 100), (outcome(40, wrong=[0]), 100), (outcome(40, failed=[0]), 100),
    (outcome(40, undecided=[0]), 100), (outcome(40, wrong=[1]), 40), (outcome(40, failed=[2]), 40),
    (outcome(40, undecided=[3]), 40), (outcome(40, wrong=[1, 0]), 100),
])  # fmt: skip
def test_a_change_that_makes_an_answer_wrong_saves_nothing(monkeypatch, changed, evaluated):
    monkeypatch.setattr(module, "run_trial", lambda case: SimpleNamespace(outcome=case))
    base = outcome(100, wrong=[1], failed=[2], undecided=[3])
    assert module._evaluated(None, Change(changed), base, 1) == evaluated


def test_a_change_that_does_not_apply_saves_nothing():
    assert module._evaluated(None, SimpleNamespace(of=lambda case: None), outcome(100), 1) == 100


@pytest.mark.parametrize(("lost", "least"), [(5, 5), ([3, 9], 3), ([3, None], 3), ([None, 9], 0), (0, 0)])
def test_the_least_loss_counts(lost, least):
    assert module._least(lost) == least


def test_a_difference_leaves_no_cure_whether_it_is_open_or_not():
    decided, undecided = rebuilt(), rebuilt()
    decided.requests[0].contradicted = [Contradiction(3, "batch", {}, None)]
    undecided.requests[0].simulated_n = 5
    undecided.requests[0].logged = replace(undecided.requests[0].logged, cache_n=9)
    assert [bool(case.undecided) for case in (decided, undecided)] == [False, True]
    assert cures(decided, [said()]) == cures(undecided, [said()]) == []


def test_a_change_of_options_without_a_flag_is_named_by_its_build():
    change = SetupChange(ChangeKind.BUILD, {"own": 1}, "llama_cpp@b9473")
    assert _text(change, BUILTIN["llama_cpp"]) == "llama_cpp@b9473"
    assert _text(SetupChange(ChangeKind.FLAG, {"parallel": 3}), BUILTIN["llama_cpp"]) == "-np 3"


@pytest.mark.parametrize(("cause", "named"), [
    ("checkpoint-evicted", {("ctx_checkpoints",)}), ("trim-refused", set()),
    ("slot-overwritten", {("parallel",)}),
])  # fmt: skip
def test_the_flags_of_a_cause_are_tried_and_no_others(cause, named):
    case = Setup(rebuilt().scenario, "llama_cpp@b9231")
    kinds = [(change.kind, tuple(change.options)) for change in _changes(case, [cause])]
    assert {options for kind, options in kinds if kind is ChangeKind.FLAG} == named
    assert all(options == () for kind, options in kinds if kind is ChangeKind.BUILD)
    assert [kind for kind, _ in kinds] == sorted(kind for kind, _ in kinds)


def test_of_several_flags_the_best_is_named_and_of_several_builds_the_first_that_helps(monkeypatch):
    flags = [SetupChange(ChangeKind.FLAG, {"parallel": slots}) for slots in (2, 3, 4)]
    later = [SetupChange(ChangeKind.BUILD, {}, f"llama_cpp@b{build}") for build in (9473, 9518)]
    evaluated = dict(zip(map(repr, [*flags, *later]), (90, 80, 85, 70, 60), strict=True))
    monkeypatch.setattr(module, "_changes", lambda case, causes: [*flags, *later])
    monkeypatch.setattr(module, "_evaluated", lambda case, change, base, step: evaluated[repr(change)])
    assert found(rebuilt(), said()) == [("flag", "-np 3", 1, 145, 80), ("build", "llama_cpp@b9473", 1, 145, 70)]
