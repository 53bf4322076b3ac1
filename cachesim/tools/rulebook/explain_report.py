"""How does an explanation look? Its first line says what the word was taken for."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.base.counted import counted
from cachesim.tools.rulebook.log_report import line_report, log_report
from cachesim.tools.rulebook.rules_report import family_report, rule_report

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
