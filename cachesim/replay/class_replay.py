"""Replay of a recording of a server's classes: requests, steps, and what the classes did in each step.

A step agrees if every field that our server fills in has the recorded value; its events are compared one by one. With a
model the outputs of a step are judged; the recording marks the requests that read something wrong.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping

from cachesim.base.errors import ProcessAborted
from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.replay.recorded_trace import Trace, bad_shape
from cachesim.replay.replay_result import ReplayResult

EVENTS = "ev"
DIED = "died"
FINAL = "final"


def replay_classes(
    trace: Trace, data: Mapping[str, Any], mode: str, check: Callable[[Server, Request, Answer], bool | None] | None,
    table: RuleSet | None,
) -> ReplayResult:
    """Replay a recording under the rules of its profile, or those of ``table``."""
    steps = data["steps"]
    with bad_shape():
        events = sum(len(step.get(EVENTS, ())) for step in steps)
    out = ReplayResult(trace, steps=len(steps), events=events)
    engine = engine_of(trace.profile) if not trace.out else None
    form = engine.recorded.classes() if engine else None
    if engine is None or form is None:
        out.steps_undecided, out.why = len(steps), trace.out
        return out
    why = form.undecided(data) if mode != "none" else ""
    judged = mode != "none" and not why
    server = engine.start(table or engine.rules(trace.profile), trace.model, trace.flags, mode if judged else "none")
    if judged:
        out.verdicts_agree = 0
    with bad_shape():
        play = form.play(server, data)
        for number, step in enumerate(steps):
            _step(out, number, step, play, form.wrong(step), server, check if judged else None)
            if out.first is not None:
                break
        else:
            _compare(out, len(steps), {"op": FINAL, **data[FINAL]}, play({"op": FINAL, **data[FINAL]}).fields)
    return out


def _step(
    out: ReplayResult, number: int, step: Mapping[str, Any], play: Callable[[Mapping[str, Any]], Any],
    wrong: Any, server: Server, check: Callable[[Server, Request, Answer], bool | None] | None,
) -> None:
    """Perform a step, compare it with the recording, and judge its outputs."""
    try:
        done = play(step)
    except ProcessAborted as end:
        ours = {"op": DIED, "error": str(end), "in": end.kind}
        out.broken.append(number)
        if _compare(out, number, step, ours):
            out.steps_agree += 1
            out.events_agree += len(step.get(EVENTS, ()))
            out.verdicts_agree = None if out.verdicts_agree is None else out.verdicts_agree + 1
        return
    theirs, events = step.get(EVENTS, ()), done.fields.get(EVENTS, ())
    out.events_agree += sum(a == b for a, b in zip(theirs, events, strict=False))
    out.steps_agree += _compare(out, number, step, done.fields)
    if check is not None and out.verdicts_agree is not None:
        found = {i for i, request, answer in done.said if check(server, request, answer) is False}
        out.verdicts[number] = found == wrong
        if found == wrong:
            out.verdicts_agree += 1
        if found:
            out.broken.append(number)


def _compare(out: ReplayResult, number: int, theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> bool:
    """True if all of our fields are those of the recording; record the first difference."""
    for name, value in ours.items():
        recorded = theirs.get(name, type(value)())
        if recorded != value:
            out.first = out.first or {"step": number, "field": name, "recorded": recorded, "ours": value}
            return False
    return True
