"""Does our server decide as the real one did? Drives a profile with a trace's requests and compares step by step.

A step agrees iff cache_n, prompt_n, tokens_cached, slot, truncated and every recorded event with every field are equal,
in order. The generated tokens are the recorded ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable

from cachesim.engines.base import Answer, Request
from cachesim.engines.registry import engine_of
from cachesim.events import Log
from cachesim.live.trace import Trace, TraceStep

FIELDS = ("cache_n", "prompt_n", "tokens_cached", "id_slot", "truncated")


@dataclass(slots=True)
class Replayed:
    """What a replay found. ``steps_agree`` counts steps, ``events_agree`` recorded events met in place;
    ``first`` describes the first difference."""

    trace: Trace
    steps: int = 0
    steps_agree: int = 0
    steps_undecided: int = 0
    events: int = 0
    events_agree: int = 0
    first: dict[str, Any] | None = None
    broken: list[int] = field(default_factory=list)
    verdicts_agree: int | None = None


Check = Callable[[Any, Request, Answer], bool | None]
"""(server, request, answer) -> was the answer equal to a cold run? None = undecided. The judge lives beside
this folder, so it is handed in."""


def replay(trace: Trace, mode: str = "none", check: Check | None = None) -> Replayed:
    """Replay one trace. ``mode``: "none" (positions only), "provenance", or "exact". With ``check`` the numbers of
    steps that it finds broken are compared with those that the trace calls inexact."""
    out = Replayed(trace, steps=len(trace.steps))
    out.events = sum(len(step.events) for step in trace.steps)
    if trace.out:
        out.steps_undecided = out.steps
        return out
    kit = engine_of(trace.profile)
    log = Log()
    server = kit.start(trace.profile, trace.model, trace.flags, mode, log)
    silent = kit.profiles[trace.profile].silent
    equal: list[bool | None] = []
    for step in trace.steps:
        assert step.request is not None
        answer = server.complete(step.request)
        if check is not None and mode != "none":
            equal.append(check(server, step.request, answer))
        ours = [
            event.record(one_slot=trace.server.get("n_slots") == 1)
            for event in log.of(answer.request)
            if event.logged and event.ev not in silent
        ]
        _compare(out, step, answer, ours)
    if equal:
        out.broken = [step.number for step, same in zip(trace.steps, equal, strict=True) if same is False]
        out.verdicts_agree = sum(
            same is not None and (step.number in trace.inexact) == (not same)
            for step, same in zip(trace.steps, equal, strict=True)
        )
    return out


def _compare(out: Replayed, step: TraceStep, answer: Answer, ours: list[dict[str, Any]]) -> None:
    same = sum(1 for theirs, mine in zip(step.events, ours, strict=False) if theirs == mine)
    out.events_agree += same
    wrong = difference(step, answer, ours)
    if wrong is None:
        out.steps_agree += 1
    elif out.first is None:
        out.first = {"step": step.number, **wrong}


def difference(step: TraceStep, answer: Answer, ours: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The first thing in which a step differs, None if it agrees."""
    for place in range(max(len(step.events), len(ours))):
        theirs = step.events[place] if place < len(step.events) else None
        mine = ours[place] if place < len(ours) else None
        if theirs != mine:
            return {"event": place, "recorded": theirs, "ours": mine}
    if "error" in step.response:
        status = step.response.get("status")
        return None if answer.status == status else {"field": "status", "recorded": status, "ours": answer.status}
    for name in FIELDS:
        if name in step.response and step.response[name] != getattr(answer, name):
            return {"field": name, "recorded": step.response[name], "ours": getattr(answer, name)}
    return None
