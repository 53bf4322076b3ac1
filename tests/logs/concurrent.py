"""Full logs of recordings with requests at the same time, written from the recorded events and answers alone.

The order in which such requests arrived is not recorded, so they are not run: what their slots shared and which
decision lost what is not known, and causes stated about them are not judged. Counts of the answers are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator, Mapping

from cachesim.replay.event_owners import events_by_request
from tests.logs.full_logs import EventAt, Numbers, TaskTruth
from tests.replay.log_writer import BEFORE, BY_SERVER

UNOWNED = BY_SERVER | BEFORE | {"pc_info", "cache_lcp", "warn", "error"}
"""Events whose lines name no task."""
EACH_STEP = 1000  # task ids between two steps


def recorded_events(file: Path) -> tuple[list[EventAt], dict[int, TaskTruth]]:
    """Return the events of a recording up to its first restart, and the truth about its tasks."""
    recording = json.loads(file.read_text("utf-8"))
    one_slot = recording["server"].get("n_slots") == 1
    events: list[EventAt] = []
    tasks: dict[int, TaskTruth] = {}
    for number, step in enumerate(recording["steps"]):
        if step["op"] == "restart":
            break
        events += _step_events(step, number, one_slot)
        tasks |= dict(_step_tasks(step, number))
    return events, tasks


def _step_events(step: Mapping[str, Any], number: int, one_slot: bool) -> Iterator[EventAt]:
    several = any("task" in event for event in step.get("events", ()))
    for event in step.get("events", ()):
        fields = {name: value for name, value in event.items() if name not in ("ev", "slot", "task")}
        slot = event.get("slot", 0 if one_slot and event["ev"] not in BY_SERVER | {"warn", "error"} else None)
        known = event.get("task", None if several or event["ev"] in UNOWNED else 0)
        task = None if known is None else EACH_STEP * number + known
        yield EventAt(event["ev"], fields, slot, task, range(number, number + 1))


def _step_tasks(step: Mapping[str, Any], number: int) -> Iterator[tuple[int, TaskTruth]]:
    """Yield the tasks of a step's requests that are known by their prompt, slot and end."""
    sent = [
        one for one in step.get("steps", [step]) if one["op"] in ("completion", "chat") and one.get("launched", True)
    ]
    sides = [(one["request"], one.get("response") or {}) for one in sent]
    owned = events_by_request(sides, step.get("events", ()), [one.get("task") for one in sent])
    for (body, response), own in zip(sides, owned, strict=True):
        names = {event.get("task", 0) for event in own.events}
        if response.get("status") == 200 and len(names) == 1 and "predicted_n" in response:
            ends = [event["n_tokens"] for event in own.events if event["ev"] == "release"]
            yield EACH_STEP * number + names.pop(), TaskTruth(number, _numbers(body, response, ends))


def _numbers(body: Mapping[str, Any], response: Mapping[str, Any], ends: list[int]) -> Numbers:
    numbers = {name: response[name] for name in ("cache_n", "prompt_n", "predicted_n") if name in response}
    if isinstance(body.get("prompt"), list):
        numbers["n_tokens"] = response.get("tokens_evaluated", len(body["prompt"]))
    found: Numbers = {name: frozenset({count}) for name, count in numbers.items()}
    return found | ({"end": frozenset({ends[-1]})} if ends else {})
