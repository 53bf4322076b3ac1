"""Result of a replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Sequence

from cachesim.replay.recorded_trace import Trace
from cachesim.replay.schedule_search import SearchPlace


@dataclass(slots=True)
class ReplayResult:
    """Result of a replay of a trace. ``first`` describes the first difference."""

    trace: Trace
    steps: int = 0
    steps_agree: int = 0
    steps_undecided: int = 0
    events: int = 0                                               # recorded
    events_agree: int = 0                                         # reproduced in place
    first: dict[str, Any] | None = None
    broken: list[int] = field(default_factory=list)               # steps with a wrong answer
    verdicts_agree: int | None = None                             # steps, without undecided steps
    why: str = ""                                                 # first undecided step, and the reason
    verdicts: dict[int, bool] = field(default_factory=dict)       # by step, whether it agrees with the recording
    differing: list[int] = field(default_factory=list)            # steps that differ
    unsearched: int | None = None                                 # first step of which not all orders were tried
    unset: set[tuple[int, int]] = field(default_factory=set)      # uninitialised numbers that decided something
    places: dict[int, Sequence[SearchPlace]] = field(default_factory=dict)    # by step, where its searches stand
    work: int = 0                                                 # of all searches [rounds + evaluated tokens]

    def leave_open(self, step: int, why: str) -> None:
        """Count a step that agrees as undecided."""
        self.steps_agree, self.steps_undecided = self.steps_agree - 1, self.steps_undecided + 1
        if self.verdicts_agree is not None and self.verdicts.get(step):
            self.verdicts_agree -= 1
        self.why = self.why or f"step {step}: {why}"

    def leave_differences_open(self, why: str) -> None:
        """Count the steps that differ, and the verdicts that differ after the first of them, as undecided."""
        assert self.first is not None
        begun = self.first["step"]
        verdicts = [step for step, agrees in self.verdicts.items() if step > begun and not agrees]
        self.steps_agree += len(self.differing)
        for step in sorted({*self.differing, *verdicts}):
            self.leave_open(step, why)
            self.verdicts.pop(step, None)
        self.broken = [step for step in self.broken if step < begun or step in self.verdicts]
        self.first = None
