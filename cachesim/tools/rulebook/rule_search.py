"""Search in rules, terms of the glossary, server flags and log lines, for ``explain``."""

from __future__ import annotations

import re
from typing import Any, Sequence

from cachesim.base.errors import nearest
from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import RULES
from cachesim.engines.shared import command_table as effects
from cachesim.tools.rulebook import glossary

LEAST, NEAREST = 4, 3        # letters of a word that counts; terms that are named, at most
WORD = re.compile(r"[\w./-]+")


_ID = re.compile(r"[A-Za-z][\w.-]*")


def rules_named(text: str) -> list[str]:
    """Return the ids of the rules that a text names, ignoring case: a rule, or all rules of a family or prefix. Imports
    engines only until one of them has such rules."""
    key = text.strip().upper()
    if not _ID.fullmatch(key):
        return []
    for engine in ENGINES.values():
        engine.load_rules()
        exact = [name for name in RULES if name.upper() == key]
        if exact and "." in key:
            return exact
        if found := [name for name in RULES if name.upper() == key or name.upper().startswith((f"{key}.", f"{key}-"))]:
            return found
    return []


def _all_rules() -> list[str]:
    """Return the ids of all rules of all engines: by engine, in alphabetical order. Imports all engines."""
    for engine in ENGINES.values():
        engine.load_rules()
    engines = [*ENGINES]

    def place(name: str) -> tuple[int, str]:
        path = RULES[name].__module__.split(".")
        return next((at for at, engine in enumerate(engines) if engine in path), len(engines)), name

    return sorted(RULES, key=place)


def about_rules(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return these rules, which are of the same engine, as data."""
    from cachesim.tools.rulebook import rules_report

    every = rules_report.tables(names[0])
    return [rules_report.rule_data(name, RULES[name], every) for name in names]


def rules_in_short(names: Sequence[str]) -> list[dict[str, Any]]:
    """Return what a list of rules prints of each: its id and its description."""
    from cachesim.tools.rulebook.rules_report import words_of

    return [{"rule": name, "decides": words_of(RULES[name])} for name in names]


def mentions_of(text: str) -> dict[str, Any] | None:
    """Return the log lines, rules, terms and flags that contain every word of a text, else None."""
    from cachesim.tools.rulebook.rules_report import first_sentence, spelled, words_of

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
        "flags": [{"engine": engine, "flag": spelled(flag), "help": flag.help} for engine, flag in flags],
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


EFFECTS = {effects.NO_EFFECT: "does not change the cache", effects.SIZE: "changes the size of the pool",
           effects.LIMIT: "is not simulated, and assumed not to matter", effects.OPEN: "is not simulated"}  # fmt: skip
"""Effect of an argument that only the real server has, in words."""


def argument_effects(text: str) -> str:
    """Return what an argument that only real servers have does to their cache, "" for any other text."""
    found = [f"{engine.name}: {EFFECTS[row.effect]}" for engine in ENGINES.values()
             for row in engine.command_table.names.get(text, ())[-1:] if row.effect in EFFECTS]  # fmt: skip
    return "; ".join(found)


def nearest_word(text: str) -> str:
    """Return a hint with the most similar rule or term, else the terms that share most words with the text; "" without
    one."""
    every = _all_rules()
    known = {name.split(".")[0]: "" for name in every} | dict.fromkeys(every, "")
    names = {glossary.lookup_form(name): name for term in glossary.terms() for name in (term.name, *term.also)}
    if similar := nearest(text.upper(), known) or nearest(glossary.lookup_form(text), names, names):
        return similar
    terms = nearest_terms(text)
    return f"nearest terms: {', '.join(terms)}" if terms else ""


def nearest_terms(text: str) -> list[str]:
    """Return the names of the glossary's terms that share words with a text, those with the rarest words first."""
    words = {word for word in WORD.findall(text.lower()) if len(word) >= LEAST}
    entries = {term.name: {*WORD.findall(f"{' '.join(term.words)} {term.text}".lower())} for term in glossary.terms()}
    weights = {word: 1 / count for word in words if (count := sum(word in entry for entry in entries.values()))}
    scores = {name: sum(weight for word, weight in weights.items() if word in entry) for name, entry in entries.items()}
    found = sorted((name for name, score in scores.items() if score), key=lambda name: -scores[name])
    return found[:NEAREST]
