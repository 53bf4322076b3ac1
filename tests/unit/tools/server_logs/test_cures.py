"""Cures of a cause: flags and later builds that were run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.tools.server_logs import cures as module
from cachesim.tools.server_logs.cures import cures
from cachesim.tools.server_logs.logged_requests import LoggedRequest
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
