"""Search by halving for the first real build whose outcome of a scenario differs from that of the oldest."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.scenarios.schema import Scenario
from cachesim.tools.live.llama_server.real.comparison import RealComparison, compare_case, comparison_data
from cachesim.tools.live.llama_server.real.real_server import is_path, require_installed, wheel_server
from cachesim.tools.live.llama_server.real.wheels import WHEELS, Wheel, find_wheel

ALL = "all"


class RealHistory(NamedTuple):
    """What the halving ran. ``runs``: comparisons, the oldest build first; ``last_old`` and ``first_new``: neighbouring
    wheels between which the real outcome changed, "" without a change; ``left_out``: builds that were not run."""

    runs: list[RealComparison]
    last_old: str
    first_new: str
    left_out: dict[str, str]


def wheels_between(text: str) -> list[Wheel]:
    """Return the wheels to halve, the oldest first: all of them, or those from one build to another. Raise BadInput."""
    ordered = sorted(WHEELS, key=lambda wheel: wheel.number)
    if text == ALL:
        return ordered
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(names) != 2 or any(map(is_path, names)):
        raise BadInput("bisect --real takes all, or two builds such as b8672,b11549", hint="cachesim real list")
    ends = sorted({find_wheel(name).number for name in names})
    chosen = [wheel for wheel in ordered if ends[0] <= wheel.number <= ends[-1]]
    if len(chosen) < 2:
        raise BadInput("bisect --real needs two different builds", hint="cachesim real list")
    return chosen


def bisect_real(
    scenario: Scenario, wheels: Sequence[Wheel], may_install: bool, gguf: Path | None = None
) -> RealHistory:
    """Run a scenario on the oldest and the newest wheel; if their outcomes differ, halve the wheels between. A wheel on
    which the scenario cannot be run is left out: its neighbour is taken instead. Raise BadInput."""
    search = _Halving(scenario, list(wheels), may_install, gguf)
    ends = search.first(range(len(wheels))), search.first(reversed(range(len(wheels))))
    if ends[0] is None or ends[1] is None or ends[0] == ends[1]:
        return search.history(None, None)
    low, high = ends[0], ends[1]
    if search.outcome(low) == search.outcome(high):
        return search.history(None, None)
    while (middle := search.between(low, high)) is not None:
        if search.outcome(middle) == search.outcome(ends[0]):
            low = middle
        else:
            high = middle
    return search.history(low, high)


def history_data(history: RealHistory) -> dict[str, Any]:
    """Return what the halving ran as plain data."""
    left_out = [{"build": build, "left_out": why} for build, why in history.left_out.items()]
    return {"last_old": history.last_old, "first_new": history.first_new, "not_run": left_out,
            "runs": [comparison_data(run) for run in history.runs]}  # fmt: skip


def _why(run: RealComparison) -> str:
    """Return why a comparison is not used."""
    rows = run.found.rows if run.found else ()
    open_rows = (f"request {row.number} is undecided: {row.why}" for row in rows if row.same is None)
    return run.left_out or next(open_rows, "")


class _Halving:
    """Comparisons of a scenario by the place of their wheel."""

    def __init__(self, scenario: Scenario, wheels: list[Wheel], may_install: bool, gguf: Path | None) -> None:
        self.scenario, self.wheels, self.may_install, self.gguf = scenario, wheels, may_install, gguf
        self.runs: dict[int, RealComparison] = {}

    def run(self, place: int) -> RealComparison:
        """Return the comparison on a wheel."""
        if place not in self.runs:
            require_installed([self.wheels[place]], self.may_install)
            self.runs[place] = compare_case(self.scenario, wheel_server(self.wheels[place]), self.gguf)
        return self.runs[place]

    def outcome(self, place: int) -> tuple[Any, ...]:
        """Return the real outcome of every request: reused and evaluated tokens, status, and equality with a cold
        run. Empty if the scenario was not run, or the comparison is undecided: the requests may be others there."""
        run = self.run(place)
        return () if run.found is None or run.same is None else tuple(row.theirs for row in run.found.rows)

    def first(self, places: Sequence[int] | range | Any) -> int | None:
        """Return the first of the places on which the scenario runs, None if there is none."""
        return next((place for place in places if self.outcome(place)), None)

    def between(self, low: int, high: int) -> int | None:
        """Return the place nearest to the middle of two on which the scenario runs, None if there is none."""
        middle = (low + high) // 2
        return self.first(sorted(range(low + 1, high), key=lambda place: abs(place - middle)))

    def history(self, low: int | None, high: int | None) -> RealHistory:
        """Return what was run."""
        ordered = sorted(self.runs.items())
        left = {self.wheels[place].build: _why(run) for place, run in ordered if not self.outcome(place)}
        names = ["" if place is None else self.wheels[place].build for place in (low, high)]
        return RealHistory([run for place, run in ordered if self.outcome(place)], names[0], names[1], left)
