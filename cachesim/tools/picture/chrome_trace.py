"""Run as a trace in Chrome's format for Perfetto and chrome://tracing, suitable for runs too long for a picture.

A simulation has no durations. Each evaluated or generated token takes a microsecond of the trace's clock, so width
shows cost. Requests follow each other in the order in which they were sent.
"""

from __future__ import annotations

import json
from typing import Any, Iterator, Sequence

from cachesim.tools.picture.scene import Scene, StepRow

WORK = ("evaluated", "again", "generated")
"""Origins of tokens that the model processed."""


def chrome_trace(scenes: Sequence[Scene]) -> str:
    """Return a JSON trace with a process for each run and a thread for each slot."""
    events = [event for number, one in enumerate(scenes, 1) for event in _run(number, one)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns",
                       "otherData": {"unit": "1 us = 1 token evaluated or generated"}})  # fmt: skip


def _run(pid: int, scene: Scene) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"{scene.title}, {scene.profile}"}}
    for slot in sorted({row.slot for row in scene.rows}):
        name = f"slot {slot}" if slot >= 0 else "no slot"
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": slot + 1, "args": {"name": name}}
    at = 0
    for row in scene.rows:
        cost = sum(part.stop - part.start for part in row.stretches if part.origin in WORK)
        yield from _request(pid, row, at, cost)
        at += cost


def _request(pid: int, row: StepRow, at: int, cost: int) -> Iterator[dict[str, Any]]:
    place = {"pid": pid, "tid": row.slot + 1}
    said = {"prompt": row.text, "reused": row.cache_n, "evaluated": row.prompt_n, "verdict": row.verdict,
            "how": row.reason, "rule": row.rule, "why": row.why}  # fmt: skip
    yield {"ph": "X", "name": f"#{row.number} {row.text}", "ts": at, "dur": cost, "args": said, **place}
    for part in row.stretches:
        tokens = part.stop - part.start
        if part.origin in WORK:
            yield {"ph": "X", "name": part.origin, "ts": at, "dur": tokens,
                   "args": {"why": part.why} if part.why else {}, **place}
            at += tokens
    yield {"ph": "C", "name": "tokens reused", "pid": pid, "ts": at, "args": {"tokens": row.cache_n}}
