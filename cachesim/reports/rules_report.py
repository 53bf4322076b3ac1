"""What does a rule say, and which rules make up a profile? From the rules' own text."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Mapping

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from cachesim.engines.rule import about, rule_text
from cachesim.rule_files import file_with


def rule_data(rule_id: str, rule: Callable[..., Any], users: list[str]) -> dict[str, Any]:
    """A rule: its words, its source in the real engine, its code, the profiles that use it."""
    known = about(rule)
    return {
        "rule": rule_id,
        "role": str(known.role),
        "decides": " ".join(inspect.cleandoc(rule_text(rule)).split()),
        "source": known.cited,
        "link": known.source.link,
        "since": known.since,
        "until": known.until,
        "code": _body(rule),
        "profiles": users,
        "file": f"{_file(rule)}:{inspect.getsourcelines(rule)[1]}",
    }


def _file(rule: Callable[..., Any]) -> str:
    mine = file_with(rule)
    return str(mine) if mine else f"{rule.__module__.replace('.', '/')}.py"


def _body(rule: Callable[..., Any]) -> str:
    """The rule's code without its docstring, which is shown as text."""
    code = inspect.getsource(rule)
    head, quotes, rest = code.partition('    """')
    return head + rest.partition('"""\n')[2] if quotes else code


def rule_report(data: Mapping[str, Any]) -> RenderableType:
    """One rule on the screen."""
    used = [Text(f"used by:  {', '.join(data['profiles'])}", "cyan")] if data["profiles"] else []
    return Group(
        Text.assemble((data["rule"], "bold"), f"  ({data['role']})"), Text(data["decides"]),
        Text(f"source:   {data['source']}"), *([Text(data["link"], "dim", overflow="fold")] if data["link"] else []),
        *used, Text(f"code:     {data['file']}", "dim"),
        Syntax(data["code"], "python", background_color="default", word_wrap=True),
    )


def list_report(
    profiles: Mapping[str, Any], latest: Mapping[str, str], notes: Mapping[str, str],
    spans: Mapping[str, tuple[str, ...]],
) -> RenderableType:
    """All profiles, the names that stand for the newest of them first; ``notes`` are added to their sources.
    ``spans``: from when to when each was in force, in builds and dates."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("profile", "in force", "source"):
        table.add_column(name, no_wrap=name != "source", overflow="fold")
    for name, profile in latest.items():
        table.add_row(Text(name, "cyan"), profiles[profile].build, f"= {profile}, the newest recorded; the default")
    for name, rules in profiles.items():
        note = f" [{notes[name]}]" if name in notes else ""
        when = "\n".join(spans[name]) or f"({rules.build})"
        table.add_row(Text(name, "cyan"), when, Text(rules.source + note))
    return Group(table, Text("+: at least so long. In brackets: the build that a proposal is made on.", "dim"))


def differences_report(a: str, b: str, rows: list[tuple[str, str, str]]) -> RenderableType:
    """Fields in which two profiles differ."""
    if not rows:
        return Text("the same rules and numbers")
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for name in ("field", a, b):
        table.add_column(name)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
