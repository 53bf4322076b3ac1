"""What does a word mean, and how does the explanation look? As data: rules by their ids, terms of the glossary, and
whatever mentions the word. As text: the first line says what the word was taken for."""

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
    """Ids of the rules that a text names, in any case: one rule, or all of a family or with a common beginning."""
    every = _all_rules()
    wanted = text.strip().upper()
    exact = [name for name in every if name.upper() == wanted]
    if exact and "." in wanted:
        return exact
    return [name for name in every if name.upper() == wanted or name.upper().startswith((f"{wanted}.", f"{wanted}-"))
            if wanted]  # fmt: skip


def _all_rules() -> list[str]:
    """The ids of all rules of all engines, imported for this."""
    for rule_set in profiles().values():
        rule_set.fields()
    return list(RULES)


def about_rules(word_names: Iterable[str]) -> list[dict[str, Any]]:
    """What is known of these rules."""
    every = rules_report.tables()
    return [rules_report.rule_data(name, RULES[name], every) for name in word_names]


def term_named(text: str) -> dict[str, Any] | None:
    """An entry of the glossary as data, None where there is none."""
    found = glossary.find(text)
    return None if found is None else {"name": found.name, "also": list(found.also), "text": found.text}


def mentions_of(wanted: str) -> dict[str, Any] | None:
    """Log lines, rules, terms and flags that mention every word, None where nothing does."""
    words = [word.lower() for word in WORD.findall(wanted)]
    if not words:
        return None
    rules = [name for name in _all_rules() if _mentions(words, name, words_of(RULES[name]))]
    terms = [one for one in glossary.terms() if _mentions(words, one.name, *one.also, one.text)]
    flags = [(engine.name, flag) for engine in ENGINES.values() for flag in engine.manual.flags
             if _mentions(words, flag.name, *flag.spellings, *flag.off, flag.help)]  # fmt: skip
    lines = _lines(words)
    if not (rules or terms or flags or lines):
        return None
    return {
        "lines": lines,
        "rules": [{"rule": name, "decides": first_sentence(words_of(RULES[name]))} for name in rules],
        "terms": [{"name": one.name, "text": first_sentence(one.text)} for one in terms],
        "flags": [{"engine": engine, "flag": rules_report.spelled(flag), "help": flag.help} for engine, flag in flags],
    }


def _lines(words: list[str]) -> list[dict[str, str]]:
    """Lines of logs that contain every word, one of each kind."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for engine in ENGINES.values():
        grammar = engine.log()
        for line in grammar.lines:
            if _mentions(words, line.template) and line.ev in grammar.meanings:
                row = {"engine": engine.name, "form": line.template, "says": grammar.meanings[line.ev].says}
                found.setdefault((engine.name, line.ev), row)
    return list(found.values())


def _mentions(words: list[str], *texts: str) -> bool:
    said = " ".join(texts).lower()
    return all(word in said for word in words)


def nearest_word(text: str) -> str:
    """A hint with the nearest rule or term, "" = none is near."""
    every = _all_rules()
    known = {name.split(".")[0]: "" for name in every} | dict.fromkeys(every, "")
    words = {word: one.name for one in glossary.terms() for word in one.words}
    return nearest(text.upper(), known) or nearest(glossary.plain(text), words)


# How does the meaning of a line of a log look? From the data of ``cachesim.tools.server_logs.recognise``.

Data = dict[str, Any]


def line_report(data: Data) -> RenderableType:
    """One line: whose it is, what it says, its numbers, causes, flags and rules."""
    also = f"; the same line in {', '.join(data['also'])}" if data.get("also") else ""
    span = [f"{word} b{data[word]}" for word in ("since", "until") if data[word]]     # the builds that print it so
    builds = f" ({' '.join(span)})" if span else ""
    head = Text.assemble(("log line", "bold"), f" of {data['engine']}{builds}{also}")
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


MOST = 20                # rows of each kind that a search lists
KINDS = (("lines", "form", "says"), ("terms", "name", "text"), ("flags", "flag", "help"), ("rules", "rule", "decides"))


def explain_report(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The parts of an explanation, by what was found."""
    found = data["found"]
    if found == "log":
        yield log_report(data["log"])
    elif found == "line":
        yield line_report(data["line"])
    elif found == "rule":
        yield Text("rule", "dim")
        yield rules_report.rule_report(data["rules"][0])
    elif found == "rules":
        yield Text(f"{counted(len(data['rules']), 'rule')}; explain ID shows one of them", "dim")
        yield rules_report.family_report(data["rules"])
    elif found == "term":
        term = data["term"]
        also = (f"  (also: {', '.join(term['also'])})", "dim") if term["also"] else ""
        yield Text("term of the glossary", "dim")
        yield Text.assemble((term["name"], "bold"), also, "\n", term["text"])
    else:
        yield from _search(data)


def _search(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text("neither a rule nor a term nor a known log line; these mention it", "dim")
    for name, key, other in KINDS:
        rows = data[name]
        if not rows:
            continue
        first = Column("log lines") if name == "lines" else Column(name, no_wrap=True)
        table = Table(first, "", box=None, padding=(0, 1), header_style="dim")
        for row in rows[:MOST]:
            table.add_row(Text(row[key], "bold"), Text(row[other]))
        yield table
        if len(rows) > MOST:
            yield Text(f" ... and {len(rows) - MOST} more", "dim")
