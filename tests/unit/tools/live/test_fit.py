"""Tests of fitted word lengths for a model with another window or another batch."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.scenarios.corpus import named
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.verify.case import fitted

PROFILE = "llama_cpp@b11549"


@pytest.fixture
def ways(monkeypatch):
    """Return the word lengths of every change that is tried on this model and server, if none succeeds."""

    def of(line, model, target, server=None, there=None):
        found, wrong = [], iter([(1,)])

        def judged(case, *_, **__):
            found.append(tuple(case.words.values()))
            return SimpleNamespace(broken=next(wrong, ()))

        monkeypatch.setattr("cachesim.tools.live.llama_server.verify.case.run_judged", judged)
        server = {"parallel": 1, **(server or {})}
        with pytest.raises(BadInput, match=r"the same requests are wrong \(1\) with the model"):
            fitted(from_line(line, model=model, server=server), PROFILE, target, {**server, **(there or {})})
        return list(dict.fromkeys(found[1:]))

    return of


def test_the_case_that_a_narrower_window_shows_is_found():
    case = load(named("llama-first-window-default-gemma3"))
    found, said = fitted(case, PROFILE, "W8 A", case.server)
    assert (repr(case), repr(found)) == ("A37>3/A[:32]>3", "A13>3/A[:8]>3")
    assert said == "lengths from 32 on changed by -24 tokens (window)"
    assert case.expect and not found.expect


def test_a_fitted_scenario_leaves_out_in_which_versions_the_original_fails():
    case = load(named("llama-16560-cache-ram-token-limit"))
    found, _ = fitted(replace(case, steps=case.steps[:2]), PROFILE, case.model, case.server)
    assert case.lives and not found.lives


def test_lengths_below_both_windows_stay_and_none_becomes_nothing(ways):
    line = "A7.B8.C20.D31.E32.F40>1/A"
    assert ways(line, "W32 A", "W8 A")[:2] == [(7, 8, 20, 31, 32, 40), (7, 1, 1, 7, 8, 16)]
    assert ways(line, "W32 A", "W64 A")[1] == (7, 8, 20, 31, 64, 72)


def test_lengths_are_scaled_where_moving_them_shows_nothing(ways):
    assert ways("A1.B16.C33>1/A", "W32 A", "W8 A")[2] == (1, 4, 8)


def test_lengths_stand_in_relation_to_batches_too(ways):
    here, there = {"ubatch_size": 32, "batch_size": 64}, {"ubatch_size": 16, "batch_size": 96}
    assert ways("A40.B80>1/A", "A", "A", here, there) == [(40, 80), (24, 64), (20, 40), (40, 112), (60, 120)]
    assert ways("A40.B80>1/A", "A", "A", here, here) == [(40, 80)]


def test_a_change_that_cannot_run_in_any_slot_is_tried_in_slot_0(monkeypatch):
    tried = []

    def judged(case, *_, **__):
        tried.append(repr(case))
        if len(tried) == 2:
            raise BadInput("this slot has no room")
        return SimpleNamespace(broken=(1,))

    monkeypatch.setattr("cachesim.tools.live.llama_server.verify.case.run_judged", judged)
    found, said = fitted(from_line("A9/A", model="A", server={"parallel": 2}), PROFILE, "A", {"parallel": 2})
    assert (repr(found), said) == ("A9@0/A@0", "every request names slot 0")
    assert tried == ["A9/A", "A9/A", "A9@0/A@0"]
