"""Requests of a log as a plot: what the log proves about each prompt, reused, evaluated again, and new."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from cachesim.tools.picture.plot import LegendEntry, PlotPart, PlotRow, RowPlot
from cachesim.tools.picture.plot_axis import Axis
from cachesim.tools.server_logs.report.headline import headline
from cachesim.tools.server_logs.report.shown_requests import ShownRequest, shown_requests

Data = dict[str, Any]
WORDS = {
    "reused": "reused",
    "again": "evaluated again, at least",
    "evaluated": "evaluated, new as far as the log proves",
    "4": "known length alone",
}


def log_plots(data: Data) -> list[RowPlot]:
    """Return the plot of the requests whose prompt has a known length, none without any."""
    rows = [row for one in shown_requests(data["statements"]) if (row := _row(one)) is not None]
    if not rows:
        return []
    used = {part.kind for row in rows for part in row.parts if part.value}
    legend = [LegendEntry(kind, says) for kind, says in WORDS.items() if kind in used]
    axis = Axis("prompt tokens", whole=True)
    return [RowPlot(headline(data["statements"]).plain, [data["file"]], axis, rows, legend=legend)]


def _row(request: ShownRequest) -> PlotRow | None:
    """Return the row of a request, None if the length of its prompt is not known."""
    prompt = request.numbers.get("n_tokens")
    if not isinstance(prompt, int):
        return None
    again = _low(request.numbers, "lost")
    says = f"{prompt:,}" + (f", {again:,} again" if again else "")
    return PlotRow(request.name, says, [*_parts(request.name, request.numbers, prompt, again)], is_bad=bool(again))


def _parts(name: str, numbers: Mapping[str, Any], prompt: int, again: int) -> Iterator[PlotPart]:
    """Yield the parts of a prompt that the log proves; the whole prompt if it does not print what was reused."""
    reused = numbers.get("cache_n")
    evaluated = numbers.get("prompt_n")
    if not isinstance(reused, int) and isinstance(evaluated, int):
        reused = prompt - evaluated
    if not isinstance(reused, int):
        yield PlotPart("4", prompt, f"{name}: {prompt:,} tokens; what was reused does not follow from the log")
        return
    for kind, tokens in (("reused", reused), ("again", again), ("evaluated", prompt - reused - again)):
        yield PlotPart(kind, max(0, tokens), f"{name}: {WORDS[kind]}: {tokens:,} tokens")


def _low(numbers: Mapping[str, Any], name: str) -> int:
    value = numbers.get(name, 0)
    return value if isinstance(value, int) else value[0] or 0
