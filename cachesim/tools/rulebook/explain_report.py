"""Report of ``explain``, as data and as text: rules by id, terms of the glossary, log lines, and related entries.

The first line of the text names the kind of entry that was found.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, Iterator, Mapping

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from cachesim.base.errors import counted, nearest
from cachesim.engines.registry import ENGINES, profiles
from cachesim.engines.rule import RULES
from cachesim.tools.rulebook import glossary, rules_report
from cachesim.tools.rulebook.rules_report import first_sentence, words_of

WORD = re.compile(r"[\w./-]+")


def rules_named(text: str) -> list[str]:
    """Return the ids of the rules that a text names, ignoring case: a rule, or all rules of a family or prefix."""
    every = _all_rules()
    key = text.strip().upper()
    exact = [name for name in every if name.upper() == key]
    if exact and "." in key:
        return exact
    return [name for name in every if name.upper() == key or name.upper().startswith((f"{key}.", f"{key}-"))
            if key]  # fmt: skip


def _all_rules() -> list[str]:
    """Return the ids of all rules of all engines. Imports all engines."""
    for rule_set in profiles().values():
        rule_set.fields()
    return list(RULES)


def about_rules(word_names: Iterable[str]) -> list[dict[str, Any]]:
    """Return these rules as data."""
    every = rules_report.tables()
    return [rules_report.rule_data(name, RULES[name], every) for name in word_names]


def term_named(text: str) -> dict[str, Any] | None:
    """Return an entry of the glossary as data, None if the term is unknown."""
    found = glossary.find(text)
    return None if found is None else {"name": found.name, "also": list(found.also), "text": found.text}


def mentions_of(text: str) -> dict[str, Any] | None:
    """Return the log lines, rules, terms and flags that contain every word of a text, else None."""
    words = [word.lower() for word in WORD.findall(text)]
    if not words:
        return None
    rules = [name for name in _all_rules() if _mentions(words, name, words_of(RULES[name]))]
    terms = [term for term in glossary.terms() if _mentions(words, term.name, *term.also, term.text)]
    flags = [(engine.name, flag) for engine in ENGINES.values() for flag in engine.manual.flags
             if _mentions(words, flag.name, *flag.spellings, *flag.off, flag.help)]  # fmt: skip
    lines = _lines(words)
    if not (rules or terms or flags or lines):
        return None
    return {
        "lines": lines,
        "rules": [{"rule": name, "decides": first_sentence(words_of(RULES[name]))} for name in rules],
        "terms": [{"name": term.name, "text": first_sentence(term.text)} for term in terms],
        "flags": [{"engine": engine, "flag": rules_report.spelled(flag), "help": flag.help} for engine, flag in flags],
    }


def _lines(words: list[str]) -> list[dict[str, str]]:
    """Return the log lines that contain every word, a line per kind."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for engine in ENGINES.values():
        grammar = engine.log()
        for line in grammar.lines:
            if _mentions(words, line.template) and line.ev in grammar.meanings:
                row = {"engine": engine.name, "form": line.template, "says": grammar.meanings[line.ev].says}
                found.setdefault((engine.name, line.ev), row)
    return list(found.values())


def _mentions(words: list[str], *texts: str) -> bool:
    joined = " ".join(texts).lower()
    return all(word in joined for word in words)


def nearest_word(text: str) -> str:
    """Return a hint with the most similar rule or term, "" if none is similar."""
    every = _all_rules()
    known = {name.split(".")[0]: "" for name in every} | dict.fromkeys(every, "")
    words = {word: term.name for term in glossary.terms() for word in term.words}
    return nearest(text.upper(), known) or nearest(glossary.plain(text), words)


Data = dict[str, Any]


def line_report(data: Data) -> RenderableType:
    """Return the report of a log line: engine, meaning, numbers, causes, flags and rules. ``data``: from
    ``cachesim.tools.server_logs.recognise``."""
    also = f"; the same line in {', '.join(data['also'])}" if data.get("also") else ""
    span = [f"{word} b{data[word]}" for word in ("since", "until") if data[word]]     # builds that print this form
    builds = f" ({' '.join(span)})" if span else ""
    head = Text.assemble(("log line", "bold"), f" of {data['engine']}{builds}{also}")
    return Group(head, Padding(Text(data["text"], "cyan"), (0, 0, 0, 2)), _body(data), Text(""))


def log_report(data: Data) -> RenderableType:
    """Return the report of a log, with an entry for each kind of line."""
    known = f"{data['known']:,} of {counted(data['lines'], 'line')} known"
    head = Text.assemble((data["file"], "bold"), f": a log of {data['engine']}, {known}, {len(data['kinds'])} kinds")
    parts: list[RenderableType] = [head, Text("")]
    for kind in data["kinds"]:
        where = f"  line {kind['line']}" + (f", {kind['times']:,} times" if kind["times"] > 1 else "")
        parts += [Text.assemble((kind["text"], "cyan"), (where, "dim")), _body(kind), Text("")]
    return Group(*parts)


def _body(data: Data) -> RenderableType:
    table = Table(Column(style="dim", no_wrap=True), Column(), box=None, padding=(0, 1), show_header=False)
    here = [f"{name} {data[name]}" for name in ("slot", "task") if data[name] is not None]
    here += [f"{name} = {value}" for name, value in data["numbers"].items()]
    rows = (("says", [data["says"]], ""), ("here", here, ", "), ("causes", data["causes"], "; "),
            ("flags", data["flags"], "  "), ("rules", data["rules"], "  "))  # fmt: skip
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
    elif found == "rule":
        yield Text("rule", "dim")
        yield rules_report.rule_report(data["rules"][0])
    elif found == "rules":
        yield Text(f"{counted(len(data['rules']), 'rule')}; explain ID shows a single rule", "dim")
        yield rules_report.family_report(data["rules"])
    elif found == "term":
        term = data["term"]
        also = (f"  (also: {', '.join(term['also'])})", "dim") if term["also"] else ""
        yield Text("term of the glossary", "dim")
        yield Text.assemble((term["name"], "bold"), also, "\n", term["text"])
    else:
        yield from _search(data)


def _search(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text("no exact match; related entries:", "dim")
    for name, key, description in KINDS:
        rows = data[name]
        if not rows:
            continue
        first = Column("log lines") if name == "lines" else Column(name, no_wrap=True)
        table = Table(first, "", box=None, padding=(0, 1), header_style="dim")
        for row in rows[:MOST]:
            table.add_row(Text(row[key], "bold"), Text(row[description]))
        yield table
        if len(rows) > MOST:
            yield Text(f" ... and {len(rows) - MOST} more", "dim")
