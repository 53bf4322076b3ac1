"""Tests that the recompute ledger balances on requests of real clients: recordings, run as scenarios."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.engines.base import Request
from cachesim.engines.registry import profiles
from cachesim.judging.judged_run import run_judged
from cachesim.replay.recorded_trace import Trace, read_trace
from cachesim.scenarios.notation.tree import PLAIN, Action
from cachesim.scenarios.option_checks import filled
from cachesim.scenarios.schema import Scenario, Step
from tests.replay.verdicts import DATA
from tests.shared import TRACES, each, needs

FEW = sorted((DATA / "llama_cpp").glob("*.json"))[::3]


def as_scenario(trace: Trace) -> Scenario:
    """Return the requests of a recording as a scenario; the order of concurrent requests may differ from the
    recording."""
    steps = []
    for step in trace.steps:
        if step.action:
            steps.append(Step(Request(()), Action(step.action, step.id_slot, step.file)))
        for k, member in enumerate(step.members):
            steps.append(Step(member.request, PLAIN._replace(together=k > 0)))
    return Scenario(
        id=trace.name, title="", source=("recorded",), why="", engine="llama_cpp", model=trace.model,
        profiles=(trace.profile,), server=filled(trace.flags), words={}, steps=tuple(steps),
    )


def balances(path: Path) -> list[tuple[int, object]]:
    """Requests whose charges do not add up, or that charge the same token twice."""
    trace = read_trace(path, profiles())
    run = run_judged(as_scenario(trace), trace.profile, "provenance")
    accounts = [(i, one.ledger) for i, one in enumerate(run.requests)]
    return [(i, a) for i, a in accounts if not a.is_balanced or any(charge.tokens <= 0 for charge in a.charges)]


@pytest.mark.long
@pytest.mark.parametrize("path", FEW, ids=lambda path: path.stem)
def test_charges_add_up(path):
    assert balances(path) == []


@pytest.mark.slow
@needs(TRACES / "llama_cpp")
@pytest.mark.parametrize("path", each("llama_cpp*/**/*.json"))
def test_charges_add_up_on_the_full_set(path):
    assert balances(path) == []
