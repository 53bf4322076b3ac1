"""Suggestions as a plot: the evaluated tokens of the unchanged case and of each suggestion, with the lower bound. Where
the sizes of the real model are known, also against their memory."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from cachesim.tools.advise.report import changes_text, try_sentence
from cachesim.tools.picture.plot import Plot, PlotLine, PlotPart, PlotPoint, PlotRow, PlotSeries, PointPlot, RowPlot
from cachesim.tools.picture.plot_axis import Axis

Data = dict[str, Any]
UNCHANGED, CHANGED = "4", "0"


def advice_plots(found: Sequence[Data]) -> list[Plot]:
    """Return a plot for each rule set with suggestions."""
    return [plot for data in found if data["advice"] for plot in _plots(data)]


def _plots(data: Data) -> Iterator[Plot]:
    """Yield the tokens as bars, then tokens and memory as points if all memories are known."""
    items = [data["base"], *data["advice"]]
    about = [f"{data['scenario']}, {data['profile']}, model {data['model']}: {data['prompt_tokens']:,} prompt tokens"]
    bound = data["bound"]
    says = f"any server, for unchanged requests: at least {bound['total']:,}"
    lines = [PlotLine(bound["total"], says, is_limit=False)] if bound["holds"] else []
    yield RowPlot(
        title=try_sentence(data),
        about=about,
        axis=Axis("evaluated tokens", whole=True),
        rows=[_row(number, item, data) for number, item in enumerate(items)],
        lines=lines,
    )
    if all(item["mib"] is not None for item in items):
        points = [_point(number, item, data) for number, item in enumerate(items)]
        yield PointPlot(
            title="Evaluated tokens against memory",
            about=[],
            x=Axis("memory of the caches at the fullest [MiB, log]", is_log=True),
            y=Axis("evaluated tokens", whole=True),
            series=[PlotSeries("unchanged", UNCHANGED, points[:1]), PlotSeries("suggestions", CHANGED, points[1:])],
            levels=lines,
        )


def _row(number: int, item: Data, data: Data) -> PlotRow:
    name = f"{number}  {changes_text(item, data)}" if number else "unchanged"
    wrong = len({*item["wrong"], *item["failed"]})
    says = f"{item['evaluated']:,}" + (f" ({-item['share']:+.0%})" if number else "")
    says += f", {wrong} of {data['requests']} answers wrong or missing" if wrong else ""
    part = PlotPart(CHANGED if number else UNCHANGED, item["evaluated"], f"{name}: {item['evaluated']:,} tokens")
    return PlotRow(name, says, [part], is_bad=bool(wrong))


def _point(number: int, item: Data, data: Data) -> PlotPoint:
    name = changes_text(item, data) if number else "unchanged"
    says = f"{name}: {item['evaluated']:,} tokens, {item['mib']:,.1f} MiB"
    label = f"{number}: {item['mib']:,.0f} MiB" if number else "unchanged"
    return PlotPoint(item["mib"], item["evaluated"], says, label)
