"""Tests of the halving over real builds. Starting a server is replaced by a table of outcomes."""

from __future__ import annotations

import pytest

from cachesim.base.console import as_text
from cachesim.base.errors import BadInput
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.real import real_bisect
from cachesim.tools.live.llama_server.real.comparison import RealComparison
from cachesim.tools.live.llama_server.real.real_bisect import bisect_real, history_data, wheels_between
from cachesim.tools.live.llama_server.real.wheels import WHEELS
from cachesim.tools.live.llama_server.verify.case import Verification
from cachesim.tools.live.llama_server.verify.model_of import ComparedRequest, RequestResult
from cachesim.tools.live.real_report import change_sentence, history_report

SCENARIO = from_line("A20>2@0/B10@0/A@0", model="A", profiles=("llama_cpp@b11549",), server={})


@pytest.fixture
def played(monkeypatch):
    """Builds that were run, in order. Request 2 reuses 8 tokens from b9718 on; builds in ``refused`` cannot run."""

    class Played(list):
        changed_at, again_at, refused, wrong, open = 9718, 99999, (), (), ()

    found = Played()
    found.installed = []

    def compare(scenario, wheel, gguf):
        found.append(wheel.build)
        if wheel.build in found.refused:
            return RealComparison(scenario, server_of(wheel), None, "no such layers")
        reused = 8 * (wheel.number >= found.changed_at) + (wheel.number >= found.again_at)
        sides = [RequestResult(0, 9, 200, True), RequestResult(0, 9, 200, True), RequestResult(reused, 9, 200, True)]
        rows = [ComparedRequest(n, "A", side, side, wheel.build not in found.wrong) for n, side in enumerate(sides)]
        if wheel.build in found.open:
            rows[1] = rows[1]._replace(same=None, why="the answer ended early")
        notes = ["not marked"] if wheel.number < 9500 else []
        return RealComparison(scenario, server_of(wheel), Verification(rows, "A", "llama_cpp@b1", notes))

    def server_of(wheel):
        from pathlib import Path

        from cachesim.tools.live.llama_server.real.real_server import RealServer

        return RealServer(wheel.build, Path("x"), f"llama_cpp@{wheel.build}", wheel.requirement)

    monkeypatch.setattr(real_bisect, "require_installed", lambda wheels, may: found.installed.append(
        (len(found), [wheel.build for wheel in wheels], may)))  # fmt: skip
    monkeypatch.setattr(real_bisect, "wheel_server", lambda wheel: wheel)
    monkeypatch.setattr(real_bisect, "compare_case", compare)
    return found


def test_halving_finds_the_neighbouring_wheels(played):
    history = bisect_real(SCENARIO, wheels_between("all"), True)
    assert (history.last_old, history.first_new) == ("b9713", "b9873")
    assert len(played) <= 7
    assert played.installed == [(place, [build], True) for place, build in enumerate(played)], "each before its run"
    text = as_text(history_report(history_data(history)))
    assert text.startswith("real builds: request 2 changes between b9713 and b9873")
    assert "b9873   8 + 9, correct  equal" in text


def test_what_was_changed_to_send_a_scenario_is_said(played):
    text = as_text(history_report(history_data(bisect_real(SCENARIO, wheels_between("all"), True))))
    assert "  b7376, b9093: note: not marked" in text


def test_a_further_change_that_the_runs_show_is_named(played):
    played.again_at = 11000
    text = change_sentence(history_data(bisect_real(SCENARIO, wheels_between("all"), True)))
    assert text == "real builds: request 2 changes between b9713 and b9873, and again between b10068 and b11549"


def test_without_a_change_only_the_ends_run(played):
    played.changed_at = 1
    history = bisect_real(SCENARIO, wheels_between("b8672,b11549"), True)
    assert played == ["b8672", "b11549"] and not history.first_new
    assert "no request changes between b8672 and b11549" in as_text(history_report(history_data(history)))


def test_a_wheel_that_cannot_run_the_scenario_is_left_out(played):
    played.refused = ("b9713", "b7376")
    history = bisect_real(SCENARIO, wheels_between("all"), True)
    assert (history.last_old, history.first_new) == ("b9538", "b9873")
    assert history.left_out == {"b9713": "no such layers", "b7376": "no such layers"}
    assert "not run on b9713: no such layers" in as_text(history_report(history_data(history)))


def test_an_undecided_comparison_is_left_out(played):
    played.open = ("b9713",)
    history = bisect_real(SCENARIO, wheels_between("all"), True)
    assert (history.last_old, history.first_new) == ("b9538", "b9873")
    assert history.left_out == {"b9713": "request 1 is undecided: the answer ended early"}


def test_a_scenario_that_runs_nowhere_has_no_history(played):
    played.refused = tuple(wheel.build for wheel in WHEELS)
    history = bisect_real(SCENARIO, wheels_between("all"), True)
    assert history.runs == []
    assert "fewer than two could be compared" in as_text(history_report(history_data(history)))


def test_a_build_on_which_the_simulator_differs_is_marked(played):
    played.wrong = ("b11549",)
    text = as_text(history_report(history_data(bisect_real(SCENARIO, wheels_between("all"), True))))
    assert "b11549  8 + 9, correct  DIFFERS" in text


@pytest.mark.parametrize("text", ["b11549", "b11549,b11549", "b8672,b9713,b11549", "/bin/sh,b11549"])
def test_other_ranges_are_refused(text):
    with pytest.raises(BadInput, match="bisect --real"):
        wheels_between(text)


def test_two_neighbours_can_be_compared():
    assert [wheel.build for wheel in wheels_between("b11549, b8672")][:: len(wheels_between("b8672,b11549")) - 1] == [
        "b8672", "b11549"]  # fmt: skip
    builds = [wheel.build for wheel in wheels_between("all")]
    assert [wheel.build for wheel in wheels_between(",".join(builds[1::-1]))] == builds[:2]
