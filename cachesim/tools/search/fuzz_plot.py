"""Results of a search as a grid: a row for each property, a tile for each distinct failure with its rule."""

from __future__ import annotations

from typing import Any, Iterator

from cachesim.base.errors import counted
from cachesim.tools.picture.plot import GridPlot, LegendEntry, PlotTile, TileRow

Data = dict[str, Any]


def fuzz_plots(data: Data) -> list[GridPlot]:
    """Return the grid of the searched properties."""
    failures = data["failures"]
    failing = {one["property"] for one in failures}
    names = counted(len(data["properties"]), "property", "properties")
    found = f"{counted(len(failures), 'distinct failure')} of {len(failing)} of {names}"
    legend = [LegendEntry("bad", "fails: rule, conversations")] if failures else []
    return [GridPlot(
        title=f"{data['profile']}: {found if failures else f'nothing found for {names}'}",
        about=[f"{counted(data['examples'], 'drawn conversation')}, seed {data['seed']}"],
        rows=[_row(name, data) for name in dict.fromkeys([*data["properties"], *failing])],
        legend=[*legend, LegendEntry("good", "no failure found")],
    )]  # fmt: skip


def _row(name: str, data: Data) -> TileRow:
    mine = [one for one in data["failures"] if one["property"] == name]
    if not mine:
        return TileRow(name, "", [PlotTile("good", "nothing found", f"in {data['examples']:,} conversations")])
    times = sum(one["times"] for one in mine)
    says = f"{counted(times, 'failing conversation')}, {counted(len(mine), 'distinct failure')}"
    return TileRow(name, says, [*_tiles(mine)])


def _tiles(failures: list[Data]) -> Iterator[PlotTile]:
    """Yield the failures, the most frequent first."""
    for one in sorted(failures, key=lambda one: -one["times"]):
        yield PlotTile("bad", f"{one.get('deciding') or one['rule']} x{one['times']}", one["text"])
