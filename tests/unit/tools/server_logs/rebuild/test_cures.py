"""Cures of a cause: flags and later builds that were run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.tools.advise.case_facts import ASSUMED, LEAST, CaseFacts
from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.rebuild import cures as module
from cachesim.tools.server_logs.rebuild.cures import cures
from cachesim.tools.server_logs.rebuild.line_agreement import Contradiction
from cachesim.tools.server_logs.rebuild.reconstruction import ReconstructedRequest, Reconstruction
from tests.unit.tools.server_logs.records import logged as request_of

LINE = "S100.|U50>a10/S.|U[:25].|V20"              # the second prompt leaves the slot's contents within the history
SERVER = {"parallel": 1, "batch_size": 64, "ubatch_size": 16}


def rebuilt(profile="llama_cpp@b9231", line=LINE, **server):
    requests = [ReconstructedRequest(request_of(0, 7 + step, (10 * step, 10 * step + 9)), step=step)
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


def test_a_build_under_which_a_request_fails_is_no_cure():
    """The server of b8152 ends at the second request, which then evaluates nothing; b8271 evaluates more than now."""
    cures = {kind: (change, before, now) for kind, change, _, before, now in found(rebuilt("llama_cpp@b7400"), said())}
    assert cures["build"] == ("llama_cpp@b9473", 59, 45)


@pytest.mark.parametrize("statement", [said(task=9), said(line=25), {**said(), "what": "request"},
                                       {**said(), "numbers": {"cause": "server-warning"}}])  # fmt: skip
def test_a_cure_is_about_a_request_of_the_simulation(statement):
    assert found(rebuilt(), statement) == []


def test_a_simulation_that_contradicts_the_log_has_no_cure():
    case = rebuilt()
    case.requests[0].simulated_n = 5
    case.requests[0].logged = replace(case.requests[0].logged, numbers={"cache_n": ProvenRange(9, 9)})
    assert case.is_rejected and found(case, said()) == []


def test_the_costliest_request_is_cured():
    line = "S100.|U50>a10/S.|U.a.|V20/S.|W60"
    case = rebuilt("llama_cpp@b11549", line, ctx_checkpoints=1)
    cured = [("flag", "--ctx-checkpoints 3", 2, 160, 60)]
    assert found(case, said(task=8, lost=3), said(task=9, line=21)) == cured
    assert found(case, said(task=8, lost=[3, 900]), said(task=9, line=21, lost=4)) == cured    # the least loss counts
    assert found(case, said(task=8, lost=[None, 900]), said(task=9, line=21, lost=4)) == cured


def test_a_smaller_size_is_sought_only_in_the_runs_that_are_left(monkeypatch):
    """The prompts of the log have 490 tokens: the log and one flag are run."""
    line = "S100.|U50>a10/S.|U.a.|V20/S.|W60"
    case = rebuilt("llama_cpp@b11549", line, ctx_checkpoints=1)
    monkeypatch.setattr(module, "TOKENS", 2 * 490)
    assert found(case, said(task=8, lost=3), said(task=9, line=21)) == [("flag", "--ctx-checkpoints 256", 2, 160, 60)]


@pytest.mark.parametrize(("tokens", "kinds"), [(590, []), (885, ["flag"]), (2655, ["flag", "build"])])
def test_the_work_is_limited_to_whole_runs(monkeypatch, tokens, kinds):
    """The prompts of the log have 295 tokens. The log itself is run first, then flags, then builds, oldest first."""
    monkeypatch.setattr(module, "TOKENS", tokens)
    assert [one[0] for one in found(rebuilt(), said())] == kinds


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


@pytest.mark.parametrize("case", [rebuilt(line=""), rebuilt()])
def test_a_log_that_was_not_simulated_or_not_decided_has_no_cure(case):
    case.requests[0].simulated_n, case.untried_requests = 5, {0}
    case.requests[0].logged = replace(case.requests[0].logged, numbers={"cache_n": ProvenRange(9, 9)})
    if not case.line:
        case.requests.clear()
    assert cures(case, [said()]) == []


def test_a_difference_leaves_no_cure_whether_it_is_open_or_not():
    decided, undecided = rebuilt(), rebuilt()
    decided.requests[0].contradicted = [Contradiction(3, "batch", {}, None)]
    undecided.requests[0].simulated_n = 5
    undecided.requests[0].logged = replace(undecided.requests[0].logged, numbers={"cache_n": ProvenRange(9, 9)})
    assert [bool(case.undecided) for case in (decided, undecided)] == [False, True]
    assert cures(decided, [said()]) == cures(undecided, [said()]) == []
