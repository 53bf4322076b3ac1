"""Curves of a workload as data and as text: the answer, the points with bars, and how they were computed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from cachesim.base.layout import WholeTable, block_bar
from cachesim.engines.capabilities import Option
from cachesim.judging.reproduce_command import settings
from cachesim.tools.workload.curve_point import Curve, CurvePoint
from cachesim.tools.workload.report import counted, share_text, short_number

Data = dict[str, Any]
BAR = 24                    # characters of 100 %
GIB = 1 << 30
MIB = 1 << 20


def curves_data(curves: Sequence[Curve]) -> Data:
    """Return the report's data."""
    return {"curves": [_curve_data(one) for one in curves]}


def _curve_data(curve: Curve) -> Data:
    enough = curve.enough
    first = curve.points[0].cell
    return {
        "profile": curve.profile, "model": curve.model, "set": settings(curve.given), "scale": curve.scale,
        "option": curve.option or None, "unit": curve.unit or None, "present": curve.present,
        "filled": curve.filled, "sessions": curve.sessions, "servers": curve.servers, "requests": first.requests,
        "least": curve.best.cell.least, "unlimited": curve.unlimited, "enough": enough.value if enough else None,
        "best": curve.best.value, "each_run_alone": curve.obstacle or None,
        "points": [_point_data(point) for point in curve.points],
    }  # fmt: skip


def _point_data(point: CurvePoint) -> Data:
    cell = point.cell
    return {
        "value": point.value, "memory": point.memory, "evaluated": cell.evaluated, "prompt": cell.prompt,
        "answered": cell.answered, "refused": cell.refused, "died": cell.died, "from_one_run": point.from_one_run,
    }  # fmt: skip


def curves_report(data: Data) -> Iterator[RenderableType]:
    """Yield the report of all curves: the answer of each first."""
    for number, curve in enumerate(data["curves"]):
        if number:
            yield Text("")
        yield from _curve_report(curve)


def _curve_report(curve: Data) -> Iterator[RenderableType]:
    yield Text(answer(curve), "bold")
    cost = _cost(curve)
    if cost:
        yield Text(cost)
    rise = _rise(curve)
    if rise:
        yield Text(rise, "yellow")
    given = "".join(f" {setting}" for setting in curve["set"])
    sessions = f"{counted(curve['sessions'], 'session')}" if curve["option"] else f"{curve['requests']:,} requests"
    servers = f" on {counted(curve['servers'], 'server')}" if curve["servers"] != curve["sessions"] else ""
    requests = f", {curve['requests']:,} requests" if curve["option"] else ""
    yield Text(f"{curve['profile']}{given}, model {curve['model']}: {sessions}{servers}{requests}", "dim")
    if (n := curve["scale"]) > 1:
        yield Text(f"scale {n}: {n} recorded tokens are simulated as 1 and counted as {n}", "dim")
    yield _table(curve)
    yield Text(_bounds(curve))
    yield Text(_method(curve), "dim")


def answer(curve: Data) -> str:
    """Return the sentence that answers how much is enough."""
    points = curve["points"]
    if not curve["option"]:
        return _sessions_answer(points)
    by_value = {str(point["value"]): point for point in points}
    best = by_value[str(curve["best"])]
    share = share_text(best["evaluated"], best["prompt"])
    if not best["answered"]:
        return f"all {curve['requests']:,} requests fail with each value that was tried"
    if best["answered"] < curve["requests"]:
        failed = curve["requests"] - best["answered"]
        return (f"{named(curve, curve['best'])} answers most: {failed:,} of {curve['requests']:,} requests fail, "
                f"{share} % of the other prompts are evaluated")  # fmt: skip
    if curve["enough"] is None:
        return f"{named(curve, curve['best'])} evaluates least: {share} % of the prompt tokens"
    enough = by_value[str(curve["enough"])]
    size = f" ({byte_text(enough['memory'])})" if enough["memory"] else ""
    told = f"{named(curve, curve['enough'])}{size}: {share} % of the prompt tokens are evaluated"
    if enough["evaluated"] == curve["unlimited"] and not enough["refused"]:
        told += ", as with unlimited memory"
    elif enough is points[-1]:
        told += " with the largest value tried"
    return f"{told}; smaller values were not tried" if enough is points[0] else told


def share_of(point: Data) -> str:
    """Return the evaluated share of a point."""
    return f"{share_text(point['evaluated'], point['prompt'])} %"


def _sessions_answer(points: Sequence[Data]) -> str:
    """Return how many sessions at a time evaluate no more than the fewest that were tried."""
    first = points[0]
    fits = first
    for point in points:
        if point["answered"] < first["answered"] or point["evaluated"] > first["evaluated"]:
            break
        fits = point
    share = share_text(first["evaluated"], first["prompt"])
    fewest = "each alone" if first["value"] == 1 else f"{first['value']:,}"
    if len(points) == 1:
        return f"{counted(first['value'], 'session')} at a time evaluate {share} % of the prompt tokens"
    if fits is first:
        following = points[1]
        more = share_text(following["evaluated"], following["prompt"])
        return f"{following['value']:,} sessions at a time evaluate more than {fewest}: {more} % in place of {share} %"
    tried = ", the largest number tried" if fits is points[-1] else ""
    return f"{fits['value']:,} sessions at a time fit{tried}: they evaluate no more than {fewest} ({share} %)"


def _cost(curve: Data) -> str:
    """Return what the present value of the option costs, "" if there is none or its point is missing."""
    present = curve["present"]
    point = next((point for point in curve["points"] if point["value"] == present), None)
    if present is None or point is None:
        return ""
    best = next(other for other in curve["points"] if other["value"] == curve["best"])
    name = f"{named(curve, present)}, as now"
    share = share_text(point["evaluated"], point["prompt"])
    if point["answered"] < best["answered"]:
        return f"{name}: {best['answered'] - point['answered']:,} requests fail that others values answer"
    more = point["evaluated"] - best["evaluated"]
    if not more:
        return f"{name}: {share} %, no value evaluates less"
    return f"{name}: {share} %, {short_number(more)} tokens more than {named(curve, curve['best'])}"


def _rise(curve: Data) -> str:
    """Return a sentence on a value that evaluates more than a smaller one, "" if there is none or values have no
    order."""
    points = curve["points"]
    if not curve["option"] or any(isinstance(point["value"], str | bool) for point in points):
        return ""
    for smaller, larger in pairwise(points):
        if larger["evaluated"] > smaller["evaluated"] and larger["answered"] <= smaller["answered"]:
            return (f"larger is not always better: {named(curve, larger['value'])} evaluates more than "
                    f"{value_text(smaller['value'])}")  # fmt: skip
    return ""


def named(curve: Data, value: Option) -> str:
    """Return a value of the axis with its name."""
    unit = f" {curve['unit']}" if curve["unit"] else ""
    return f"{curve['option'] or 'sessions'} {value_text(value)}{unit}"


def value_text(value: Option) -> str:
    """Return a value of the axis."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int | float) else value


def _table(curve: Data) -> WholeTable:
    points = curve["points"]
    has_memory = any(point["memory"] is not None for point in points)
    has_failed = any(point["answered"] < curve["requests"] for point in points)
    table = WholeTable(padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(curve["option"] or "sessions", justify="right", no_wrap=True)
    if has_memory:
        table.add_column("memory", justify="right", no_wrap=True)
    for name in ("evaluated", "%", *(("failed",) if has_failed else ())):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for point in points:
        failed = curve["requests"] - point["answered"]
        memory = [byte_text(point["memory"]) if point["memory"] is not None else "-"] if has_memory else []
        mark = "cyan" if point["value"] == curve["enough"] else ""
        table.add_row(
            Text(value_text(point["value"]), mark), *memory, short_number(point["evaluated"]),
            share_text(point["evaluated"], point["prompt"]), *([f"{failed:,}" if failed else ""] if has_failed else []),
            Text(block_bar(point["evaluated"], point["prompt"], BAR), "cyan"),
        )  # fmt: skip
    return table


def _bounds(curve: Data) -> str:
    """Return the bounds of the evaluated tokens."""
    best = next(point for point in curve["points"] if point["value"] == curve["best"])
    whole = best["prompt"]
    told = f"at least {short_number(curve['least'])} ({share_text(curve['least'], whole)} %) under any rules"
    if curve["unlimited"] is None or best["answered"] < curve["requests"]:
        return told
    share = share_text(curve["unlimited"], whole)
    return f"{told}; {short_number(curve['unlimited'])} ({share} %) with unlimited memory"


def _method(curve: Data) -> str:
    """Return how the points were computed."""
    own = sum(not point["from_one_run"] for point in curve["points"])
    whole = len(curve["points"])
    if own == whole:
        return f"each value was run: {curve['each_run_alone'] or 'these values refuse or delay requests'}"
    if not own:
        return "one run for all values: least recently used blocks leave first, one request at a time"
    return (f"one run for {whole - own} values: least recently used blocks leave first, one request at a time; "
            f"{own} smaller values, which refuse or delay requests, were run")  # fmt: skip


def byte_text(n: int) -> str:
    """Return bytes in GiB, small amounts in MiB."""
    return f"{n / GIB:,.1f} GiB" if n >= GIB else f"{n / MIB:,.1f} MiB"

