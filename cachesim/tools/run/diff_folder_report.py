"""Report of ``diff FOLDER``: differences between two profiles on each scenario, and totals over all of them."""

from __future__ import annotations

from collections import Counter
from typing import Any, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import FittedRenderable, WholeTable, block_bar, indented, lean_table
from cachesim.judging.verdict_words import OK, WRONG_OUTPUT
from cachesim.tools.run.diff_report import percent

Data = dict[str, Any]
BAR = 40                     # characters of the larger number of evaluated tokens
COUNTS = ("requests", "changed", "broken", "mended", "evaluated_a", "evaluated_b", "wrong_a", "wrong_b")


def file_data(file: str, a: Data, b: Data, differ: Sequence[Data]) -> Data:
    """Return the differences of a scenario between two profiles. ``a``, ``b``: data of ``run_data``; ``differ``: the
    requests with another observable (``observed_data``).

    ``evaluated_a``, ``evaluated_b``: evaluated prompt tokens. ``changed``: number of requests that differ;
    ``observed``: the first observable that differs in each. ``broken``: answers correct under A and wrong under B;
    ``mended``: the reverse. ``wrong_a``, ``wrong_b``: wrong answers. ``answers``: all answers under both profiles, with
    ``equal`` to a cold run (None = undecided) and ``told`` if the file expects a refusal.
    """
    pairs = list(zip(a["requests"], b["requests"], strict=True))
    return {
        "file": file, "scenario": a["scenario"], "requests": len(pairs), "changed": len(differ),
        "broken": sum(x["equal_cold"] is True and y["equal_cold"] is False for x, y in pairs),
        "mended": sum(x["equal_cold"] is False and y["equal_cold"] is True for x, y in pairs),
        "evaluated_a": sum(x["prompt_n"] for x, _ in pairs), "evaluated_b": sum(y["prompt_n"] for _, y in pairs),
        "wrong_a": sum(x["equal_cold"] is False for x, _ in pairs),
        "wrong_b": sum(y["equal_cold"] is False for _, y in pairs),
        "answers": [
            {"equal": request["equal_cold"], "told": request["i"] in run["told"]}
            for run in (a, b) for request in run["requests"]
        ],
        "observed": [{"request": one["request"], **one["differs"][0]} for one in differ],
    }  # fmt: skip


def totals(files: Sequence[Data]) -> dict[str, int]:
    """Return the sums over all files. ``files_changed``: number of files with a changed request."""
    sums = {name: sum(file[name] for file in files) for name in COUNTS}
    return {"files": len(files), "files_changed": sum(file["changed"] > 0 for file in files), **sums}


def worst_first(files: Sequence[Data]) -> list[Data]:
    """Return the changed files, sorted by newly wrong answers (descending), fixed answers (ascending) and additional
    evaluated tokens (descending)."""
    changed = [file for file in files if file["changed"]]
    return sorted(changed, key=lambda file: (-file["broken"], file["mended"], -_more(file), file["file"]))


def _more(file: Data) -> int:
    return int(file["evaluated_b"]) - int(file["evaluated_a"])


def diff_table(data: Data) -> RenderableType:
    """Return the report of a folder: changed scenarios, worst first, and totals. Fits 80 columns."""
    sums = data["totals"]
    head = Text.assemble((data["folder"], "bold"), "\n  A ", (data["a"], "cyan"), "  B ", (data["b"], "cyan"))
    files = worst_first(data["files"])
    table = FittedRenderable(lambda width: _table_diff_table(files, width))
    parts: list[RenderableType] = [table] if files else [Text("  all requests are equal", "green")]
    if data["other_engines"]:
        parts.append(Text(f"  {counted(data['other_engines'], 'scenario')} of other engines skipped", "dim"))
    if data["failed"]:
        parts.append(Text(f"  {counted(data['failed'], 'scenario')} not compared", "yellow"))
    first = Counter(one["observable"] for file in data["files"] for one in file["observed"])
    if first:
        named = ", ".join(f"{name} ({n})" for name, n in first.most_common())
        parts.append(indented(f"first difference of a request: {named}", "", 2))
    return Group(head, *parts, _sums(sums))


def _table_diff_table(files: Sequence[Data], width: int) -> WholeTable:
    table = lean_table(width)
    table.add_column("scenario", overflow="fold")
    for name in ("requests", "newly wrong", "fixed", "evaluated"):
        table.add_column(name, justify="right")
    for file in files:
        counts = (str(file[name]) if file[name] else "·" for name in ("broken", "mended"))
        evaluated = f"{file['evaluated_a']} -> {file['evaluated_b']}"
        changed = f"{file['changed']} of {file['requests']}"
        table.add_row(Text(file["scenario"]), changed, *counts, evaluated, style=_style(file))
    return table


def _style(file: Data) -> str:
    return "bold red" if file["broken"] else "green" if file["mended"] else ""


def _sums(sums: dict[str, int]) -> Text:
    a = sums["evaluated_a"]
    b = sums["evaluated_b"]
    digits = len(f"{max(a, b)}")
    worst = WRONG_OUTPUT if sums["wrong_a"] or sums["wrong_b"] else OK
    lines = [
        f"  {sums['files_changed']} of {counted(sums['files'], 'scenario')} differ,"
        f" {sums['changed']} of {counted(sums['requests'], 'request')}",
        f"  evaluated in all: {a} -> {b} tokens{percent(a, b, 2)}",
        f"    A {a:{digits}} {block_bar(a, max(a, b), BAR)}",
        f"    B {b:{digits}} {block_bar(b, max(a, b), BAR)}",
        f"  {worst.name}: {counted(sums['wrong_a'], 'wrong answer')} under A, {sums['wrong_b']} under B;"
        f" {sums['broken']} newly wrong, {sums['mended']} fixed",
    ]
    return Text("\n".join(lines), "bold red" if sums["broken"] else "bold")
