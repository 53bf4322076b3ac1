"""Where do two profiles decide differently on many scenarios, and what does that change in all? Totals, and the files
that changed, worst first."""

from __future__ import annotations

from typing import Any, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.base.counted import counted
from cachesim.base.layout import Fitted, lean_table
from cachesim.tools.run.diff_report import percent

Data = dict[str, Any]
COUNTS = ("requests", "changed", "broken", "mended", "evaluated_a", "evaluated_b", "wrong_a", "wrong_b")


def file_data(file: str, a: Data, b: Data) -> Data:
    """One scenario judged under both profiles (``run_data``). ``evaluated_a`` and ``_b`` are tokens of prompts;
    ``changed`` requests kept another number of tokens, had another status or another verdict; ``broken`` answers are a
    cold run's under A and are not under B, ``mended`` the other way round; ``wrong_a`` and ``_b`` are not a cold run's
    there. ``answers`` are those of both: equal to a cold run (None = undecided), and does the file expect a refusal?"""
    pairs = list(zip(a["requests"], b["requests"], strict=True))
    return {
        "file": file, "scenario": a["scenario"], "requests": len(pairs),
        "changed": sum(_told(x) != _told(y) for x, y in pairs),
        "broken": sum(x["equal_cold"] is True and y["equal_cold"] is False for x, y in pairs),
        "mended": sum(x["equal_cold"] is False and y["equal_cold"] is True for x, y in pairs),
        "evaluated_a": sum(x["prompt_n"] for x, _ in pairs), "evaluated_b": sum(y["prompt_n"] for _, y in pairs),
        "wrong_a": sum(x["equal_cold"] is False for x, _ in pairs),
        "wrong_b": sum(y["equal_cold"] is False for _, y in pairs),
        "answers": [
            {"equal": one["equal_cold"], "told": one["i"] in run["told"]} for run in (a, b) for one in run["requests"]
        ],
    }  # fmt: skip


def _told(one: Data) -> tuple[Any, ...]:
    return one["cache_n"], one["prompt_n"], one["status"], one["died"], one["equal_cold"]


def totals(files: Sequence[Data]) -> dict[str, int]:
    """Sums over all files; ``files_changed`` are those in which any request changed."""
    sums = {name: sum(one[name] for one in files) for name in COUNTS}
    return {"files": len(files), "files_changed": sum(one["changed"] > 0 for one in files), **sums}


def worst_first(files: Sequence[Data]) -> list[Data]:
    """The files that changed: those with answers that broke first, then by what they evaluate more; those that were
    mended, or evaluate less, last."""
    changed = [one for one in files if one["changed"]]
    return sorted(changed, key=lambda one: (-one["broken"], one["mended"], -_more(one), one["file"]))


def _more(one: Data) -> int:
    return int(one["evaluated_b"]) - int(one["evaluated_a"])


def diff_table(data: Data) -> RenderableType:
    """Everything within 80 columns."""
    sums = data["totals"]
    head = Text.assemble((data["folder"], "bold"), "\n  A ", (data["a"], "cyan"), "  B ", (data["b"], "cyan"))
    files = worst_first(data["files"])
    table = Fitted(lambda width: _table(files, width))
    parts: list[RenderableType] = [table] if files else [Text("  no request differs", "green")]
    if data["other_engines"]:
        parts.append(Text(f"  {counted(data['other_engines'], 'scenario')} of other engines left out", "dim"))
    if data["failed"]:
        parts.append(Text(f"  {counted(data['failed'], 'scenario')} not compared", "yellow"))
    return Group(head, *parts, _sums(sums))


def _table(files: Sequence[Data], width: int) -> Table:
    table = lean_table(width)
    table.add_column("scenario", overflow="fold")
    for name in ("requests", "newly wrong", "fixed", "evaluated"):
        table.add_column(name, justify="right")
    for one in files:
        counts = (str(one[name]) if one[name] else "·" for name in ("broken", "mended"))
        evaluated = f"{one['evaluated_a']} -> {one['evaluated_b']}"
        what = f"{one['changed']} of {one['requests']}"
        table.add_row(Text(one["scenario"]), what, *counts, evaluated, style=_style(one))
    return table


def _style(one: Data) -> str:
    return "bold red" if one["broken"] else "green" if one["mended"] else ""


def _sums(sums: dict[str, int]) -> Text:
    a, b = sums["evaluated_a"], sums["evaluated_b"]
    wrong = "WRONG OUTPUT" if sums["wrong_a"] or sums["wrong_b"] else "OK"
    lines = [
        f"  {sums['files_changed']} of {counted(sums['files'], 'scenario')} differ,"
        f" {sums['changed']} of {counted(sums['requests'], 'request')}",
        f"  evaluated in all: {a} -> {b} tokens{percent(a, b, 2)}",
        f"  {wrong}: {counted(sums['wrong_a'], 'wrong answer')} under A, {sums['wrong_b']} under B;"
        f" {sums['broken']} newly wrong, {sums['mended']} fixed",
    ]
    return Text("\n".join(lines), "bold red" if sums["broken"] else "bold")
