"""Differences of a folder as a plot: the evaluated tokens of each changed scenario before and after, worst first."""

from __future__ import annotations

from typing import Any

from cachesim.base.errors import counted
from cachesim.tools.picture.plot import LegendEntry, PlotMark, PlotRow, RowPlot
from cachesim.tools.picture.plot_axis import Axis
from cachesim.tools.run.diff_folder_report import worst_first
from cachesim.tools.run.diff_report import percent

Data = dict[str, Any]
BEFORE, AFTER, WRONG = "before", "0", "bad"


def folder_plots(data: Data) -> list[RowPlot]:
    """Return the plot of a folder, none without a changed scenario."""
    files = worst_first(data["files"])
    if not files:
        return []
    sums = data["totals"]
    a = sums["evaluated_a"]
    b = sums["evaluated_b"]
    wrong = f"; {counted(sums['broken'], 'answer')} newly wrong" if sums["broken"] else ""
    legend = [LegendEntry(BEFORE, f"A {data['a']}"), LegendEntry(AFTER, f"B {data['b']}")]
    legend += [LegendEntry(WRONG, "B, with newly wrong answers")] if sums["broken"] else []
    return [RowPlot(
        title=f"{len(files)} of {counted(sums['files'], 'scenario')} differ: {a:,} -> {b:,} evaluated tokens"
              f"{percent(a, b, 2)}{wrong}",
        about=[data["folder"]],
        axis=Axis("evaluated prompt tokens of the scenario [log]", is_log=True),
        rows=[_row(file) for file in files],
        legend=legend,
    )]  # fmt: skip


def _row(file: Data) -> PlotRow:
    a = file["evaluated_a"]
    b = file["evaluated_b"]
    says = f"{a:,} -> {b:,}"
    says += f", {file['broken']} newly wrong" if file["broken"] else ""
    says += f", {file['mended']} fixed" if file["mended"] else ""
    after = WRONG if file["broken"] else AFTER
    return PlotRow(file["scenario"], says, marks=[PlotMark(BEFORE, a), PlotMark(after, b)], is_bad=bool(file["broken"]))
