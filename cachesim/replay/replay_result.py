"""Result of a replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cachesim.replay.recorded_trace import Trace


@dataclass(slots=True)
class Replayed:
    """What a replay found. ``steps_agree`` counts steps, ``events_agree`` recorded events met in place;
    ``first`` describes the first difference; ``verdicts_agree`` counts no step that is undecided. ``verdicts``: by
    step, whether the verdict agrees with the recording; ``unset``: uninitialised numbers that decided something."""

    trace: Trace
    steps: int = 0
    steps_agree: int = 0
    steps_undecided: int = 0
    events: int = 0
    events_agree: int = 0
    first: dict[str, Any] | None = None
    broken: list[int] = field(default_factory=list)
    verdicts_agree: int | None = None
    why: str = ""               # the first step of which nothing could be said, and the reason
    verdicts: dict[int, bool] = field(default_factory=dict)
    unset: set[tuple[int, int]] = field(default_factory=set)

    def leave_open(self, step: int, why: str) -> None:
        """Count a step that agrees as undecided."""
        self.steps_agree, self.steps_undecided = self.steps_agree - 1, self.steps_undecided + 1
        if self.verdicts_agree is not None and self.verdicts.get(step):
            self.verdicts_agree -= 1
        self.why = self.why or f"step {step}: {why}"
