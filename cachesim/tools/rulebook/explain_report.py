"""Report of ``explain`` as text: rules by id, terms of the glossary, log lines, and related entries.

The first line of the text names the kind of entry that was found.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import WholeTable

Data = dict[str, Any]


def line_report(data: Data) -> RenderableType:
    """Return the report of a log line: engine, meaning, numbers, causes, flags and rules. ``data``: from
    ``cachesim.tools.server_logs.lines.explanations``."""
    also = f"; the same line in {', '.join(data['also'])}" if data.get("also") else ""
    span = [f"{word} b{data[word]}" for word in ("since", "until") if data[word]]     # builds that print this form
    builds = f" ({' '.join(span)})" if span else ""
    head = Text.assemble(("log line", "bold"), f" of {data['engine']}{builds}{also}")
    return Group(head, Padding(Text(data["text"], "cyan"), (0, 0, 0, 2)), _body(data), Text(""))


def log_report(data: Data) -> RenderableType:
    """Return the report of a log, with an entry for each kind of line."""
    lines = f"{data['lines']:,} line{'s' if data['lines'] != 1 else ''}"
    known = f"{data['known']:,} of {lines} known" if data["known"] <= data["lines"] else \
        f"{data['known']:,} messages in {lines}"
    head = Text.assemble((data["file"] or "lines", "bold"), f": a log of {data['engine']}, {known}, "
                         f"{counted(len(data['kinds']), 'kind')}")  # fmt: skip
    parts: list[RenderableType] = [head, Text("")]
    for kind in data["kinds"]:
        where = f"  line {kind['line']}" + (f", {kind['times']:,} times" if kind["times"] > 1 else "")
        parts += [Text.assemble((kind["text"], "cyan"), (where, "dim")), _body(kind), Text("")]
    if len(data["verdicts"]) > 1:
        parts += [Text(f"line {row['line']}: {row['verdict']}") for row in data["verdicts"][:MOST]]
        more = len(data["verdicts"]) - MOST
        parts += [Text(f"... and {more} more with --json", "dim")] if more > 0 else []
    if data["ordinary"]:
        names = ", ".join(f"{row['is']} ({row['times']:,})" for row in data["ordinary"])
        parts.append(Text(f"not about the cache: {names}", "dim"))
    return Group(*parts)


def _body(data: Data) -> RenderableType:
    table = WholeTable(Column(style="dim", no_wrap=True), Column(), show_header=False)
    here = [f"{name} {data[name]}" for name in ("slot", "task") if data[name] is not None]
    here += [f"{name} = {value}" for name, value in data["numbers"].items()]
    verdict = [data["verdict"]] if data["verdict"] else []
    rows = (("says", [data["says"]], ""), ("verdict", verdict, ""), ("here", here, ", "),
            ("causes", data["causes"], "; "), ("flags", data["flags"], "  "),
            ("rules", data["rules"], "  "))  # fmt: skip
    for name, words, between in rows:
        if words:
            table.add_row(name, Text(between.join(words)))
    return table


MOST = 20                # maximum rows per kind of entry
KINDS = (("lines", "form", "says"), ("terms", "name", "text"), ("flags", "flag", "help"), ("rules", "rule", "decides"))


def explain_report(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield the parts of an explanation, depending on ``found``."""
    found = data["found"]
    if found == "log":
        yield log_report(data["log"])
    elif found == "line":
        yield line_report(data["line"])
    elif found in ("rule", "rules"):
        yield from _rules_report(data["rules"])
    elif found == "ordinary":
        line = data["ordinary"]
        by = f", printed by {line['engine']}" if line["engine"] else ""
        yield Text(f"not about the cache: {line['is']}{by}")
    elif found == "term":
        term = data["term"]
        also = (f"  (also: {', '.join(term['also'])})", "dim") if term["also"] else ""
        yield Text("term of the glossary", "dim")
        yield Text.assemble((term["name"], "bold"), also, "\n", term["text"])
    else:
        yield from _search(data)


def _rules_report(rules: list[Data]) -> Iterator[RenderableType]:
    from cachesim.tools.rulebook import rules_report  # imports the engines

    if len(rules) == 1:
        yield Text("rule", "dim")
        yield rules_report.rule_report(rules[0])
        return
    yield Text(f"{counted(len(rules), 'rule')}; explain ID shows a single rule", "dim")
    yield rules_report.family_report(rules)


def _search(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text("no exact match; related entries:", "dim")
    for name, key, description in KINDS:
        rows = data[name]
        if not rows:
            continue
        first = Column("log lines") if name == "lines" else Column(name, no_wrap=True)
        table = WholeTable(first, "")
        for row in rows[:MOST]:
            table.add_row(Text(row[key], "bold"), Text(row[description]))
        yield table
        if len(rows) > MOST:
            yield Text(f" ... and {len(rows) - MOST} more", "dim")
