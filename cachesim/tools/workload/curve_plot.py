"""Curves of a workload as plots: evaluated share against memory or against the values of a flag."""

from __future__ import annotations

from math import inf
from typing import Any, Iterator, Sequence

from cachesim.tools.picture.plot import (
    COLOURS,
    Plot,
    PlotLine,
    PlotMark,
    PlotPoint,
    PlotRow,
    PlotSeries,
    PointPlot,
    RowPlot,
)
from cachesim.tools.picture.plot_axis import Axis, plain_number
from cachesim.tools.workload.curve_report import GIB, answer, byte_text, named, share_of, value_text

Data = dict[str, Any]
FEW = 9  # points of a curve that all have a label


def curve_plots(data: Data) -> list[Plot]:
    """Return a plot of the curves: all in one if each of their values has a memory, else one for each rule set."""
    curves = data["curves"]
    if len(curves) > 1 and all(_has_memory(curve) for curve in curves):
        return [_memory_plot(curves)]
    return [_curve_plot(curve) for curve in curves]


def _has_memory(curve: Data) -> bool:
    return bool(curve["option"]) and all(point["memory"] for point in curve["points"])


def _curve_plot(curve: Data) -> Plot:
    points = [point for point in curve["points"] if point["answered"]]
    title = answer(curve)
    if any(isinstance(point["value"], str | bool) for point in points):
        rows = [PlotRow(value_text(point["value"]), share_of(point), marks=[PlotMark("0", _share(point))])
                for point in points]  # fmt: skip
        return RowPlot(title, _about(curve), Axis("evaluated, % of the prompt tokens"), rows, [_least(curve)])
    if _has_memory(curve) and curve["option"]:
        return _memory_plot([curve])
    unit = f" [{curve['unit']}]" if curve["unit"] else ""
    name = (curve["option"] or "sessions at a time") + unit
    series = PlotSeries("", "0", [_point(point, _number(point["value"]), curve, points) for point in points], "line")
    axis = Axis(name, is_log=True, doubles=True)
    return PointPlot(title, _about(curve), axis, _share_axis(), [series], [*_present(curve, False)], _levels(curve))


def _memory_plot(curves: Sequence[Data]) -> Plot:
    """Return a plot over the bytes of the caches. ``curves``: one for each rule set."""
    series = []
    for number, curve in enumerate(curves):
        points = [point for point in curve["points"] if point["answered"]]
        shown = [_point(point, point["memory"] / GIB, curve, points) for point in points]
        name = curve["profile"] if len(curves) > 1 else ""
        series.append(PlotSeries(name, str(number % COLOURS), shown, "line"))
    axis = Axis("memory of the caches [GiB]", is_log=True, says=plain_number, doubles=True)
    if len(curves) > 1:
        title = "; ".join(f"{curve['profile']}: {answer(curve)}" for curve in curves)
        about = [f"model {curves[0]['model']}"]
        return PointPlot(title, about, axis, _share_axis(), series, levels=[_least(curves[0])])
    curve = curves[0]
    return PointPlot(
        answer(curve), _about(curve), axis, _share_axis(), series, [*_present(curve, True)], _levels(curve)
    )


def _point(point: Data, x: float, curve: Data, points: Sequence[Data]) -> PlotPoint:
    failed = curve["requests"] - point["answered"]
    lost = f", {failed:,} fail" if failed else ""
    told = f"{value_text(point['value'])}: {share_of(point)}{lost}"
    size = f", {byte_text(point['memory'])}" if point["memory"] else ""
    values = (curve["enough"], curve["best"], curve["present"])
    is_labelled = len(points) <= FEW or point["value"] in values or point in (points[0], points[-1])
    return PlotPoint(x, _share(point), f"{named(curve, point['value'])}{size}: {share_of(point)}{lost}",
                     told if is_labelled else "")  # fmt: skip


def _number(value: float) -> float:
    """Return a value of a size; below 0 it means no limit."""
    return inf if value < 0 else float(value)


def _share(point: Data) -> float:
    return 100 * point["evaluated"] / point["prompt"] if point["prompt"] else 0.0


def _share_axis() -> Axis:
    return Axis("evaluated [% of prompt tokens, log]", is_log=True)


def _about(curve: Data) -> list[str]:
    given = "".join(f" {setting}" for setting in curve["set"])
    about = f"{curve['profile']}{given}, model {curve['model']}, {curve['requests']:,} requests"
    unit = f" [{curve['unit']}]" if curve["unit"] else ""
    return [about, f"at each point: {curve['option'] or 'sessions'}{unit}, and the evaluated share"]


def _present(curve: Data, in_memory: bool) -> Iterator[PlotLine]:
    """Yield the present value as a line."""
    for point in curve["points"]:
        if point["value"] == curve["present"] and curve["present"] is not None:
            x = point["memory"] / GIB if in_memory else _number(point["value"])
            yield PlotLine(x, f"as now: {named(curve, point['value'])}")


def _levels(curve: Data) -> list[PlotLine]:
    """Return the bounds of the evaluated share, without one that lies on another."""
    best = next(point for point in curve["points"] if point["value"] == curve["best"])
    least = _least(curve)
    if curve["unlimited"] is None or best["answered"] < curve["requests"] or not best["prompt"]:
        return [least]
    share = 100 * curve["unlimited"] / best["prompt"]
    return [least, PlotLine(share, "with unlimited memory", is_limit=False)] if share > 1.02 * least.value else [least]


def _least(curve: Data) -> PlotLine:
    best = next(point for point in curve["points"] if point["value"] == curve["best"])
    share = 100 * curve["least"] / best["prompt"] if best["prompt"] else 0.0
    return PlotLine(share, f"lower bound under any rules: {share:.1f} %", is_limit=False)
