"""Growth of conversations as a plot: the prompt of each request, in parts that an earlier request had, that any server
evaluates again because the prompt changed, that the simulated server did not keep, and new ones."""

from __future__ import annotations

from typing import Any, Iterator

from cachesim.tools.picture.plot import LegendEntry, Plot, PlotPart, PlotPoint, PlotRow, PlotSeries, PointPlot, RowPlot
from cachesim.tools.picture.plot_axis import Axis
from cachesim.tools.request_bodies.report import first_line

Data = dict[str, Any]
MOST = 40  # requests with a bar each; more are drawn as lines
WORDS = {
    "kept": "same as before, reusable",
    "3": "same as before, not kept by the simulated server",
    "again": "evaluated again by any server: the prompt changed",
    "evaluated": "new",
}


def growth_plots(data: Data) -> list[Plot]:
    """Return the plot of the requests, none without any."""
    requests = data["requests"]
    if not requests:
        return []
    about = "~" * (not data["tokens_exact"])
    axis = Axis(f"prompt tokens{'' if data['tokens_exact'] else ' (estimated)'}", whole=True)
    title = first_line(data).plain
    if len(requests) > MOST:
        return [_lines(requests, title, axis)]
    rows = [PlotRow(_name(one, data), _says(one, about), [*_parts(one)], is_bad=bool(one["again"])) for one in requests]
    used = {part.kind for row in rows for part in row.parts if part.value}
    return [
        RowPlot(title, [], axis, rows, legend=[LegendEntry(kind, says) for kind, says in WORDS.items() if kind in used])
    ]


def _name(request: Data, data: Data) -> str:
    of = f" conversation {request['conversation']}" if data["conversations"] > 1 else ""
    return f"#{request['request']}{of}"


def _says(request: Data, about: str) -> str:
    again = f", {about}{request['again']:,} again: {request['says']}" if request["again"] else ""
    return f"{about}{request['tokens']:,}{again}"


def _parts(request: Data) -> Iterator[PlotPart]:
    lost = request["not_kept"] or 0
    counts = {
        "kept": request["reusable"] - lost,
        "3": lost,
        "again": request["again"],
        "evaluated": request["new_tokens"],
    }
    for kind, tokens in counts.items():
        yield PlotPart(kind, max(0, tokens), f"#{request['request']}: {WORDS[kind]}: {tokens:,} tokens")


def _lines(requests: list[Data], title: str, axis: Axis) -> PointPlot:
    """Return the plot of many requests: lines of the prompts and of what is evaluated."""
    prompts = [PlotPoint(one["request"], one["tokens"], f"#{one['request']}: {one['tokens']:,}") for one in requests]
    evaluated = [
        PlotPoint(
            one["request"],
            one["tokens"] - one["reusable"] + (one["not_kept"] or 0),
            f"#{one['request']}: {one['says']}",
        )
        for one in requests
    ]
    series = [PlotSeries("prompt", "4", prompts, "line"), PlotSeries("evaluated", "1", evaluated, "line")]
    return PointPlot(title, [], Axis("request", whole=True), axis, series)
