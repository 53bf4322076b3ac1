"""How a replay asks the judge: provenance of every answer and of what it left in its slot, against a cold run."""

from __future__ import annotations

from pathlib import Path

from cachesim.engines.registry import engine_of, profiles
from cachesim.judge.judge import Judge
from cachesim.live.replay import Check, Replayed, replay
from cachesim.live.trace import read_trace

DATA = Path(__file__).parents[1] / "data"


def judging(profile: str) -> Check:
    """A check for one server: was the answer, and what the next token would read, a cold run's?"""
    kit, judge = engine_of(profile), None

    def check(server, request, answer):
        nonlocal judge
        judge = judge or Judge(server.context.model)
        slot = kit.live(server, answer.id_slot) if answer.status == 200 and not answer.died else None
        return judge.judge(request, answer, slot).equal_cold

    return check


def decisions(path: Path) -> Replayed:
    """A trace replayed without a model: does every step and event agree?"""
    return replay(read_trace(path, profiles()))


def verdicts(path: Path) -> Replayed:
    """A trace replayed with provenance, every answer judged."""
    trace = read_trace(path, profiles())
    return replay(trace, "provenance", judging(trace.profile) if not trace.out else None)


def decided_alike(found: Replayed) -> bool:
    """Every step and every event agrees."""
    return (found.steps_agree, found.events_agree) == (found.steps, found.events)


def judged_alike(found: Replayed) -> bool:
    """Broken exactly where the real server was inexact."""
    return found.verdicts_agree == found.steps
