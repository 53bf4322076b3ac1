"""A page per engine and per rule set."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from cachesim.engines.build_names import in_force
from cachesim.engines.contract import Engine
from cachesim.engines.registry import ENGINES, latest, notes
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.pages.site.paths import engine_path, release_path, rule_path
from cachesim.pages.site.source_page import SearchEntry, SourcePage, code, link, plain, table

INDEX = "engines/index"
HIDDEN = ("name", "build", "source", "inferred", "ended", "defaults")
"""Fields of a rule set that its head shows, or that stand at the flags."""


def release_pages() -> Iterator[SourcePage]:
    """Yield a page per engine and per rule set, and the list of the engines."""
    rows = []
    for engine in ENGINES.values():
        yield from _engine_pages(engine)
        last = engine.newest or [*engine.line][-1]
        newest = link(code(last), INDEX, release_path(last))
        rows.append((link(code(engine.name), INDEX, engine_path(engine.name)), newest, str(len(engine.profiles))))
    text = f"# Engines and releases\n\n{table(['engine', 'newest rule set', 'rule sets'], rows)}"
    yield SourcePage(INDEX, text, is_listed=True)


def _engine_pages(engine: Engine) -> Iterator[SourcePage]:
    """Yield the page of an engine, and those of its rule sets."""
    here = engine_path(engine.name)
    names = [*engine.profiles]
    rows = []
    for name in names:
        rules = engine.profiles[name]
        older = _older(engine, name)
        yield _release_page(engine, name, rules, older)
        rows.append((link(code(name), here, release_path(name)), plain("; ".join(in_force(engine, name))),
                     plain(rules.source)))  # fmt: skip
    text = f"# {engine.name}\n\n{table(['rule set', 'in force', 'source'], rows)}"
    entry = SearchEntry(kind="engine", title=engine.name, says="rule sets of this server", names=(engine.name,))
    yield SourcePage(path=here, text=text, entry=entry)


def _older(engine: Engine, name: str) -> str:
    """Return the rule set with which one is compared: the one before it on the main line, or the one that it changes;
    "" = none."""
    if name in engine.beside:
        return engine.beside[name]
    line = [*engine.line]
    at = line.index(name) if name in line else 0
    return line[at - 1] if at else ""


def _release_page(engine: Engine, name: str, rules: RuleSet, older: str) -> SourcePage:
    """Return the page of a rule set: what it is, and what changed."""
    here = release_path(name)
    parts = [f"# {plain(name)}\n", f"{plain(rules.source)}\n"]
    if name in notes():
        parts.append(f"{plain(notes()[name])}\n")
    periods = in_force(engine, name)
    if periods:
        parts.append(f"In force: {plain('; '.join(periods))}.\n")
    parts.append(f"Server: {link(code(engine.name), here, engine_path(engine.name))}.\n")
    mine = rules.fields()
    if older:
        changed = _changes(here, mine, engine.profiles[older].fields())
        parts.append(f"## Changes against {link(code(older), here, release_path(older))}\n")
        parts.append(table(["decision", "before", "here"], changed) or "No rule and no number differs.\n")
    rows = [(code(field), _value(here, value)) for field, value in mine.items() if field not in HIDDEN]
    parts += ["## Rules and numbers\n", table(["decision", "rule or number"], rows)]
    parts.append(f"In a terminal: {code('cachesim profiles show ' + name)}\n")
    named = tuple(alias for alias, target in latest().items() if target == name)
    entry = SearchEntry(kind="release", title=name, says=rules.source, names=(name, name.partition("@")[2], *named))
    return SourcePage(path=here, text="\n".join(parts), entry=entry)


def _changes(here: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the fields that differ, with both values."""
    for field, value in mine.items():
        if field not in HIDDEN and theirs.get(field) != value:
            yield code(field), _value(here, theirs.get(field)), _value(here, value)


def _value(here: str, value: Any) -> str:
    """Return a rule as a link, and any other value as code. The members of a set stand in alphabetical order, so that
    two builds are equal."""
    rule = str(getattr(value, "rule", ""))
    if rule:
        return link(code(rule), here, rule_path(rule))
    if callable(value):
        return "a function"
    if isinstance(value, Mapping):
        return ", ".join(code(f"{name} = {', '.join(_members(one))}") for name, one in value.items()) or "none"
    return ", ".join(map(code, _members(value))) or "none"


def _members(value: Any) -> list[str]:
    """Return the members of a set or a list as text, or a value of another type alone; [] if it is empty."""
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if type(value) in (tuple, list):           # a record, too, is a tuple: it prints the names of its fields
        return [str(one) for one in value]
    return [str(value)] if value is not None and value != "" else []
