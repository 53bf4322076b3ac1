"""How does the meaning of a line of a log look? From the data of ``cachesim.tools.server_logs.explain``."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cachesim.base.counted import counted

Data = dict[str, Any]


def line_report(data: Data) -> RenderableType:
    """One line: whose it is, what it says, its numbers, causes, flags and rules."""
    also = f"; the same line in {', '.join(data['also'])}" if data.get("also") else ""
    head = Text.assemble(("log line", "bold"), f" of {data['engine']}{_builds(data)}{also}")
    return Group(head, Padding(Text(data["text"], "cyan"), (0, 0, 0, 2)), _body(data), Text(""))


def log_report(data: Data) -> RenderableType:
    """Every kind of line in a log."""
    known = f"{data['known']:,} of {counted(data['lines'], 'line')} known"
    head = Text.assemble((data["file"], "bold"), f": a log of {data['engine']}, {known}, {len(data['kinds'])} kinds")
    parts: list[RenderableType] = [head, Text("")]
    for kind in data["kinds"]:
        where = f"  line {kind['line']}" + (f", {kind['times']:,} times" if kind["times"] > 1 else "")
        parts += [Text.assemble((kind["text"], "cyan"), (where, "dim")), _body(kind), Text("")]
    return Group(*parts)


def _builds(data: Data) -> str:
    """The builds that print this spelling, as far as they are known."""
    since, until = data["since"], data["until"]
    text = f"since b{since}" if since else ""
    text += (" " if text else "") + f"until b{until}" if until else ""
    return f" ({text})" if text else ""


def _body(data: Data) -> RenderableType:
    table = Table(box=None, padding=(0, 1), show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    where = [f"{name} {data[name]}" for name in ("slot", "task") if data[name] is not None]
    numbers = [f"{name} = {value}" for name, value in data["numbers"].items()]
    table.add_row("says", Text(data["says"]))
    if where or numbers:
        table.add_row("here", Text(", ".join([*where, *numbers])))
    if data["causes"]:
        table.add_row("causes", Text("; ".join(data["causes"])))
    if data["flags"]:
        table.add_row("flags", Text("  ".join(data["flags"])))
    if data["rules"]:
        table.add_row("rules", Text("  ".join(data["rules"])))
    return table
