"""Points of a curve: what a server evaluates with a value of the axis."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Self, Sequence

from cachesim.engines.capabilities import Option


class CurveCell(NamedTuple):
    """Numbers of one server or of several, in tokens of the recording. ``least``: lower bound under any rules."""

    requests: int
    answered: int
    refused: int
    died: int
    prompt: int
    evaluated: int
    least: int

    @classmethod
    def of(cls, numbers: Mapping[str, Any]) -> Self:
        """Return the numbers of a line of a workload."""
        return cls(*(int(numbers[name]) for name in cls._fields))

    @classmethod
    def summed(cls, cells: Sequence[CurveCell]) -> Self:
        """Return the sums over several servers."""
        return cls(*(sum(column) for column in zip(*cells, strict=True)))


class CurvePoint(NamedTuple):
    """A value of the axis. ``memory``: bytes of the caches of a server, None = unknown; ``from_one_run``: its numbers
    follow from the run with room for everything."""

    value: Option
    cell: CurveCell
    memory: int | None
    from_one_run: bool


class Curve(NamedTuple):
    """What a rule set evaluates along an axis. ``unlimited``: tokens evaluated with room for everything, None = not
    asked for; ``obstacle``: why every value had a run of its own, "" = not all had."""

    profile: str
    model: str
    option: str                 # "" = number of sessions at a time
    unit: str                   # "" = the values have none
    filled: bool                # the server derives the value from its memory if it is not given
    present: Option | None      # value without a change, None = none
    given: Mapping[str, Option]
    scale: int
    sessions: int
    servers: int
    points: Sequence[CurvePoint]
    unlimited: int | None
    obstacle: str

    @property
    def best(self) -> CurvePoint:
        """The first point that evaluates least, among those that answer the most requests."""
        return min(self.points, key=lambda point: (-point.cell.answered, point.cell.evaluated))

    @property
    def enough(self) -> CurvePoint | None:
        """The first point from which on no value evaluates more, or answers less, than the best one; None for values
        without an order."""
        if any(isinstance(point.value, (str, bool)) for point in self.points):
            return None
        best = self.best.cell
        found = None
        for point in reversed(self.points):
            if point.cell.answered < best.answered or point.cell.evaluated > best.evaluated:
                break
            found = point
        return found
