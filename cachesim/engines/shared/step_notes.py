"""Notes of a scheduler about the step that it fills: why requests have fewer tokens than they could, or none."""

from __future__ import annotations

from typing import Iterable, Protocol, Sequence

from cachesim.engines.base import Answer
from cachesim.engines.server_parts import StepSchedule
from cachesim.events import Log
from cachesim.events.scheduling import StepLimit, StepPreemption, StepScheduled, StepTokens, StepWait


class TaskWithAnswer(Protocol):
    """A received request."""

    @property
    def answer(self) -> Answer:
        """Its answer, which has its number in the log."""
        ...


class ScheduledRequest(Protocol):
    """A request that a scheduler knows."""

    @property
    def task(self) -> TaskWithAnswer:
        """What the client sent."""
        ...


def number_of(request: ScheduledRequest) -> int:
    """Return the number of a request in the log."""
    return request.task.answer.request


def numbers_of(requests: Iterable[ScheduledRequest]) -> tuple[int, ...]:
    """Return the numbers of requests in the log."""
    return tuple(number_of(request) for request in requests)


class StepNotes(StepSchedule):
    """What limits the step that is being scheduled, by request. A scheduler notes nothing unless ``is_recorded``."""

    def __init__(self, log: Log, preemption: str) -> None:
        self.log = log
        self.preemption = preemption
        self.is_recorded = False
        self.begin()

    def record(self) -> bool:
        self.is_recorded = True
        return True

    def begin(self) -> None:
        """Begin a step."""
        self.cuts: dict[int, tuple[StepLimit, ...]] = {}
        self.held: dict[int, StepLimit | None] = {}
        self.preemptions: list[StepPreemption] = []

    def cut(self, request: ScheduledRequest, limits: Iterable[StepLimit]) -> None:
        """Note why a request of the step has no more tokens in it."""
        self.cuts[number_of(request)] = tuple(limits)

    def hold(self, request: ScheduledRequest, limit: StepLimit | None) -> None:
        """Note why a request waits; None = it has no token left to evaluate."""
        self.held[number_of(request)] = limit

    def hold_others(self, requests: Iterable[ScheduledRequest], limit: StepLimit) -> None:
        """Note why those of the requests wait whose reason is not noted."""
        for request in requests:
            self.held.setdefault(number_of(request), limit)

    def limit_of(self, request: ScheduledRequest) -> StepLimit | None:
        """Return why a request waits, None = no reason is noted."""
        return self.held.get(number_of(request))

    def preempt(self, request: ScheduledRequest, computed: int, limit: StepLimit) -> None:
        """Note that a running request gives up its memory with ``computed`` tokens."""
        number = number_of(request)
        self.preemptions.append(StepPreemption(number, computed, limit))
        self.held[number] = limit
        self.cuts.pop(number, None)

    def tokens(self, request: ScheduledRequest, start: int, num_tokens: int, num_prompt_tokens: int,
               num_drafts: int = 0) -> StepTokens:
        """Return ``num_tokens`` tokens of a request from ``start`` on, the last ``num_drafts`` of them drafted.
        ``num_prompt_tokens``: the length of its prompt."""
        known = num_tokens - num_drafts
        prompt = min(max(num_prompt_tokens - start, 0), known)
        number = number_of(request)
        return StepTokens(number, start, prompt=prompt, answer=known - prompt, drafts=num_drafts,
                          limits=self.cuts.get(number, ()))

    def emit(self, kind: str, runs: Sequence[StepTokens]) -> None:
        """Log the step, unless nothing runs, waits or is preempted."""
        running = {run.request for run in runs}
        waits = tuple(StepWait(number, limit) for number, limit in sorted(self.held.items())
                      if limit is not None and number not in running)
        if runs or waits or self.preemptions:
            self.log.emit(StepScheduled(kind, tuple(runs), waits, tuple(self.preemptions)))
