"""Agreement of the simulator with recordings of real servers, as data and as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.layout import WholeTable
from cachesim.replay.recorded_answers import fields_not_compared
from cachesim.replay.replay_result import ReplayResult

Data = dict[str, Any]
TOTALS = ("steps", "steps_agree", "steps_undecided", "events", "events_agree")


def replay_data(found: ReplayResult) -> Data:
    """Return the data of a trace. ``verdicts_agree`` is None if nothing was judged; ``not_compared``: fields of the
    recorded replies that are not compared."""
    scope = "out" if found.trace.out else "in"
    return {
        "file": str(found.trace.file), "profile": found.trace.profile, "scope": scope, "why": found.why,
        **{name: getattr(found, name) for name in TOTALS},
        "first_difference": found.first, "verdicts_agree": found.verdicts_agree, "broken": found.broken,
        "not_compared": fields_not_compared(found.trace),
    }


def not_replayed(file: Path, scope: str, why: str) -> Data:
    """Return the data of a file that was not replayed, with the reason."""
    return {
        "file": str(file), "profile": "", "scope": scope, "why": why, **dict.fromkeys(TOTALS, 0),
        "first_difference": None, "verdicts_agree": None, "broken": [], "not_compared": [],
    }


def totals(traces: Sequence[Data]) -> Data:
    """Return the sums over all traces."""
    sums: Data = {name: sum(trace[name] for trace in traces) for name in TOTALS}
    judged = [trace for trace in traces if trace["verdicts_agree"] is not None]
    sums["verdicts"] = sum(trace["steps"] - trace["steps_undecided"] for trace in judged)
    sums["verdicts_agree"] = sum(trace["verdicts_agree"] for trace in judged)
    return sums


def replay_report(traces: Sequence[Data]) -> RenderableType:
    """Return a table with a row per profile, the first differences, and a closing line."""
    return grouped_report(traces, "profile", lambda trace: str(trace["profile"] or f"({trace['scope']})"))


def grouped_report(traces: Sequence[Data], title: str, group: Callable[[Data], str]) -> RenderableType:
    """Return a table with a row per group of traces, the first differences, and a closing line."""
    table = WholeTable(padding=(0, 1, 0, 0))
    table.add_column(title, no_wrap=True)
    for name in ("files", "steps", "ok", "events", "ok", "verdicts", "ok", "out"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in dict.fromkeys(map(group, traces)):
        table.add_row(Text(name, "cyan"), *_row([trace for trace in traces if group(trace) == name]))
    different = [trace for trace in traces if trace["first_difference"]]
    lines = [Text(f"  {trace['file']}: {trace['first_difference']}", "red") for trace in different[:10]]
    if len(different) > 10:
        lines.append(Text(f"  and {len(different) - 10} more files", "red"))
    unexplained = [trace for trace in traces if trace["scope"] == "in" and trace["why"]]
    lines += [Text(f"  {trace['file']}: {trace['why']}", "yellow") for trace in unexplained[:10]]
    if all(trace["scope"] == "out" for trace in traces):
        lines += [Text(f"  {why}", "yellow") for why in dict.fromkeys(trace["why"] for trace in traces) if why]
    left = sorted({name for trace in traces for name in trace["not_compared"]})
    note = [Text(f"  recorded, not compared: {', '.join(left)}", "dim")] if left else []
    return Group(table, *lines, *note, _closing(traces))


def _row(traces: Sequence[Data]) -> list[str]:
    inside = [trace for trace in traces if trace["scope"] == "in"]
    sums = totals(inside)
    judged = [str(sums["verdicts"]), str(sums["verdicts_agree"])] if sums["verdicts"] else ["-", "-"]
    counts = [len(inside), sums["steps"], sums["steps_agree"], sums["events"], sums["events_agree"]]
    return [*map(str, counts), *judged, str(len(traces) - len(inside))]


def _closing(traces: Sequence[Data]) -> Text:
    sums = totals(traces)
    decided = sums["steps"] - sums["steps_undecided"]
    wrong = decided - sums["steps_agree"] + sums["verdicts"] - sums["verdicts_agree"]
    text = f"{sums['steps_agree']} of {decided} steps agree, {sums['steps_undecided']} undecided"
    lost = sum(trace["scope"] not in ("in", "out") for trace in traces)
    if lost:
        text += f"; {lost} file{'s' * (lost > 1)} could not be replayed"
    if sums["verdicts"]:
        text += f"; {sums['verdicts_agree']} of {sums['verdicts']} verdicts agree"
    complete = decided and not sums["steps_undecided"]
    return Text(text, "bold red" if wrong or lost else "bold green" if complete else "bold yellow")
