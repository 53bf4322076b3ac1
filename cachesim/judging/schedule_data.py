"""Steps of a run's scheduler as plain data, and what they come to for each request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Mapping

from cachesim.engines.contract import Server
from cachesim.events import Event
from cachesim.events.scheduling import StepLimit, StepPreemption, StepScheduled, StepTokens, StepWait
from cachesim.scenarios.runner import SilentObserver

Data = Mapping[str, Any]


class ScheduleRecorder(SilentObserver):
    """Observer that lets a server emit its steps. ``schedules_steps``: False for a server without them."""

    def __init__(self) -> None:
        self.schedules_steps = False
        self.preemption = ""

    def started(self, server: Server) -> None:
        self.schedules_steps = server.schedule.record()
        self.preemption = server.schedule.preemption


@dataclass(slots=True)
class RequestSchedule:
    """The steps of a request. ``waits``: limits that it waited for, each with its number of steps, by kind and
    option."""

    first_step: int | None = None
    last_step: int | None = None
    in_steps: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    draft_tokens: int = 0
    waited: int = 0
    preemptions: int = 0
    waits: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def run(self, number: int, tokens: StepTokens) -> None:
        """Add a step that evaluates tokens of the request."""
        self.first_step = number if self.first_step is None else self.first_step
        self.last_step = number
        self.in_steps += 1
        self.prompt_tokens += tokens.prompt
        self.answer_tokens += tokens.answer
        self.draft_tokens += tokens.drafts

    def wait(self, limit: StepLimit) -> None:
        """Add a step in which the request waits."""
        self.waited += 1
        key = (limit.kind, limit.option)
        wait = self.waits.setdefault(key, {**_named(limit), "waited": 0, "behind": []})
        wait["waited"] += 1
        wait["behind"] = sorted({*wait["behind"], *limit.behind})

    def data(self, request: int) -> dict[str, Any]:
        """Return the schedule as plain data; of the limits, that of most steps comes first."""
        numbers = {name: getattr(self, name) for name in (
            "first_step", "last_step", "in_steps", "prompt_tokens", "answer_tokens", "draft_tokens", "waited",
            "preemptions")}  # fmt: skip
        waits = sorted(self.waits.values(), key=lambda one: -one["waited"])
        return {"request": request, **numbers, "waited_for": waits}


def schedule_data(events: Iterable[Event], recorder: ScheduleRecorder) -> dict[str, Any] | None:
    """Return the steps of a run, numbered from 1, and the schedule of each request; None for a server that does not
    schedule steps. Tokens of a request that are evaluated again after a preemption count again."""
    if not recorder.schedules_steps:
        return None
    steps = [event for event in events if isinstance(event, StepScheduled)]
    return {
        "preemption_word": recorder.preemption,
        "scheduled": [_step(number, step) for number, step in enumerate(steps, 1)],
        "by_request": [one.data(request) for request, one in sorted(_by_request(steps).items())],
    }


def _by_request(steps: Iterable[StepScheduled]) -> dict[int, RequestSchedule]:
    found: dict[int, RequestSchedule] = {}
    for number, step in enumerate(steps, 1):
        for run in step.runs:
            found.setdefault(run.request, RequestSchedule()).run(number, run)
        for wait in step.waits:
            found.setdefault(wait.request, RequestSchedule()).wait(wait.limit)
        for preemption in step.preemptions:
            found.setdefault(preemption.request, RequestSchedule()).preemptions += 1
    return found


def _step(number: int, step: StepScheduled) -> dict[str, Any]:
    return {
        "step": number,
        "step_kind": step.kind,
        "step_tokens": sum(run.prompt + run.answer + run.drafts for run in step.runs),
        "runs_in_step": [_run(run) for run in step.runs],
        "waits_in_step": [_wait(wait) for wait in step.waits],
        "preempted_in_step": [_preemption(preemption) for preemption in step.preemptions],
    }


def _run(run: StepTokens) -> dict[str, Any]:
    return {
        "request": run.request,
        "start": run.start,
        "prompt_tokens": run.prompt,
        "answer_tokens": run.answer,
        "draft_tokens": run.drafts,
        "cut_by": [_limit(limit) for limit in run.limits],
    }


def _wait(wait: StepWait) -> dict[str, Any]:
    return {"request": wait.request, **_limit(wait.limit)}


def _preemption(preemption: StepPreemption) -> dict[str, Any]:
    return {"request": preemption.request, "given_up": preemption.computed, **_limit(preemption.limit)}


def _limit(limit: StepLimit) -> dict[str, Any]:
    return {**_named(limit), "needed": limit.needed, "free": limit.free, "behind": list(limit.behind)}


def _named(limit: StepLimit) -> dict[str, Any]:
    return {"limit_kind": limit.kind.value, "option": limit.option, "option_value": limit.value, "unit": limit.unit}
