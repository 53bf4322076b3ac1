"""How does an explanation look? Its first line says what the word was taken for."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.tools.rulebook.rules_report import family_report, rule_report

# How does the meaning of a line of a log look? From the data of ``cachesim.tools.server_logs.recognise``.

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


MOST = 20                # rows of each kind that a search lists
KINDS = (
    ("lines", "form", "says"), ("terms", "name", "text"), ("flags", "flag", "help"), ("rules", "rule", "decides"),
)
TITLES = {"lines": "log lines"}


def explain_report(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The parts of an explanation, by what was found."""
    found = data["found"]
    if found == "log":
        yield log_report(data["log"])
    elif found == "line":
        yield line_report(data["line"])
    elif found == "rule":
        yield Text("rule", "dim")
        yield rule_report(data["rules"][0])
    elif found == "rules":
        yield Text(f"{counted(len(data['rules']), 'rule')}; explain ID shows one of them", "dim")
        yield family_report(data["rules"])
    elif found == "term":
        yield Text("term of the glossary", "dim")
        yield _term(data["term"])
    else:
        yield from _search(data)


def _term(term: Mapping[str, Any]) -> Text:
    also = (f"  (also: {', '.join(term['also'])})", "dim") if term["also"] else ""
    return Text.assemble((term["name"], "bold"), also, "\n", term["text"])


def _search(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text("neither a rule nor a term nor a known log line; these mention it", "dim")
    for name, key, other in KINDS:
        rows = data[name]
        if not rows:
            continue
        table = Table(box=None, padding=(0, 1), header_style="dim")
        table.add_column(TITLES.get(name, name), no_wrap=name != "lines")
        table.add_column("")
        for row in rows[:MOST]:
            table.add_row(Text(row[key], "bold"), Text(row[other]))
        yield table
        if len(rows) > MOST:
            yield Text(f" ... and {len(rows) - MOST} more", "dim")
