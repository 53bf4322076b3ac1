"""What does a word mean? Rules by their ids, terms of the glossary, and whatever mentions the word."""

from __future__ import annotations

import inspect
import re
from typing import Any, Iterable

from cachesim.base.errors import nearest
from cachesim.engines.registry import ENGINES, profiles
from cachesim.engines.rule import RULES, rule_text
from cachesim.tools.rulebook import glossary
from cachesim.tools.rulebook.rules_report import first_sentence, rule_data, spelled, tables

WORD = re.compile(r"[\w./-]+")


def rules(text: str) -> list[str]:
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


def about_rules(names: Iterable[str]) -> list[dict[str, Any]]:
    """What is known of these rules."""
    every = tables()
    return [rule_data(name, RULES[name], every) for name in names]


def term(text: str) -> dict[str, Any] | None:
    """An entry of the glossary as data, None where there is none."""
    found = glossary.find(text)
    return None if found is None else {"name": found.name, "also": list(found.also), "text": found.text}


def text(wanted: str) -> dict[str, Any] | None:
    """Log lines, rules, terms and flags that mention every word, None where nothing does."""
    words = [word.lower() for word in WORD.findall(wanted)]
    if not words:
        return None
    rules = [name for name in _all_rules() if _mentions(words, name, _words_of(name))]
    terms = [one for one in glossary.terms() if _mentions(words, one.name, *one.also, one.text)]
    flags = [(engine.name, flag) for engine in ENGINES.values() for flag in engine.manual.flags
             if _mentions(words, flag.name, *flag.spellings, *flag.off, flag.help)]  # fmt: skip
    lines = _lines(words)
    if not (rules or terms or flags or lines):
        return None
    return {
        "lines": lines,
        "rules": [{"rule": name, "decides": first_sentence(_words_of(name))} for name in rules],
        "terms": [{"name": one.name, "text": first_sentence(one.text)} for one in terms],
        "flags": [{"engine": engine, "flag": spelled(flag), "help": flag.help}
                  for engine, flag in flags],
    }  # fmt: skip


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


def _words_of(name: str) -> str:
    return " ".join(inspect.cleandoc(rule_text(RULES[name])).split())


def _mentions(words: list[str], *texts: str) -> bool:
    said = " ".join(texts).lower()
    return all(word in said for word in words)


def near(text: str) -> str:
    """A hint with the nearest rule or term, "" = none is near."""
    every = _all_rules()
    known = {name.split(".")[0]: "" for name in every} | dict.fromkeys(every, "")
    words = {word: one.name for one in glossary.terms() for word in one.words}
    return nearest(text.upper(), known) or nearest(glossary.plain(text), words)
