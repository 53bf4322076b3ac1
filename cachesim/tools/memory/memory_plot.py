"""Memory of a server as a plot: each part begins where the one before it ends, so that the last one ends at the total,
beside the memory that the user has."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from cachesim.tools.memory.report import GIB, MIB, answer, gib_text, options_text
from cachesim.tools.picture.plot import LegendEntry, PlotLine, PlotPart, PlotRow, RowPlot
from cachesim.tools.picture.plot_axis import Axis

Data = dict[str, Any]
DEVICE, HOST = "0", "2"  # colours of memory


def memory_plots(data: Sequence[Data]) -> list[RowPlot]:
    """Return a plot for each estimate with parts."""
    return [_memory_plot(one) for one in data if one["total"]]


def _memory_plot(data: Data) -> RowPlot:
    room = data["room"]
    unit, name = (GIB, "GiB") if max(data["total"], room or 0) >= GIB else (MIB, "MiB")
    lines = [PlotLine(room / unit, f"given: {gib_text(room)}")] if room else []
    legend = [LegendEntry(DEVICE, "of the model's device")] if any(one["host"] for one in data["parts"]) else []
    legend += [LegendEntry(HOST, "of the host, wherever the model runs")] if legend else []
    return RowPlot(
        title=answer(data).plain,
        about=[f"{data['model']} under {data['profile']}{options_text(data)}"],
        axis=Axis(f"memory [{name}], each part after the one above it"),
        rows=[*_rows(data, unit)],
        lines=lines,
        legend=legend,
    )


def _rows(data: Data, unit: int) -> Iterator[PlotRow]:
    """Yield the parts, then all of them."""
    start = 0.0
    colours = []
    for one in data["parts"]:
        colour = HOST if one["host"] else DEVICE
        size = one["bytes"] / unit
        says = f"{one['number']:,} {one['unit']}{', host' * one['host']}"
        part = PlotPart(colour, size, f"{one['name']}: {says}, {gib_text(one['bytes'])}")
        colours.append(part)
        yield PlotRow(one["name"], f"{gib_text(one['bytes'])}, {says}", [part], start=start)
        start += size
    if len(colours) > 1:
        yield PlotRow("together", gib_text(data["total"]), colours, is_bad=data["fits"] is False)
