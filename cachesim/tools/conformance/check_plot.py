"""Results of a check as a grid: a row for each section, a tile for each property."""

from __future__ import annotations

from typing import Iterator

from cachesim.base.errors import counted
from cachesim.tools.conformance.report import SECTIONS, Report, Result
from cachesim.tools.picture.plot import GridPlot, LegendEntry, PlotTile, TileRow

KINDS = {"failed": "bad", "undecided": "open", "missed": "open", "accepted": "none", "ok": "good",
         "unsupported": "none", "skipped": "none"}  # fmt: skip
LEGEND = {"bad": "fails", "open": "undecided", "good": "holds", "none": "not checked, or accepted"}


def check_plot(report: Report, title: str, name: str) -> GridPlot:
    """Return the grid of a report. ``title``: the verdict; ``name``: that of the server."""
    rows = [TileRow(f"{number} {section}", SECTIONS[section], [*_tiles(report, section)])
            for number, section in enumerate(SECTIONS, 1)]  # fmt: skip
    shown = {tile.kind for row in rows for tile in row.tiles}
    return GridPlot(title, [name], rows, [LegendEntry(kind, says) for kind, says in LEGEND.items() if kind in shown])


def _tiles(report: Report, section: str) -> Iterator[PlotTile]:
    """Yield the properties of a section, and the histories that it ran."""
    for one in report.results:
        if one.section == section:
            yield PlotTile(KINDS[one.state], one.name, _says(one))
    count = report.counts.get(section)
    if count is not None and count.histories:
        state = KINDS[report.section(section)]
        kind = "bad" if count.failed else "good" if state == "bad" else state
        failed = f", {count.failed} failed: {', '.join(count.names)}" if count.failed else ""
        yield PlotTile(
            kind, f"{count.histories:,} histories", f"{counted(count.histories, 'history', 'histories')}{failed}"
        )
    elif why := report.skipped.get(section) or report.unfinished.get(section):
        yield PlotTile("none" if section in report.skipped else "open", "no histories", why)


def _says(result: Result) -> str:
    """Return the state of a property in words."""
    why = result.why or result.fault or result.sentence
    checks = counted(result.checked, "check")
    return f"{result.state}, {checks}, {result.decisive} of them could fail: {why}"
