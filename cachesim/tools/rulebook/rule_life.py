"""In which rule sets is a rule in force, what takes its place in others, and which options govern it?"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

from cachesim.engines import registry
from cachesim.engines.contract import Engine
from cachesim.engines.manual import Flag

Rule = Callable[..., Any]
Fields = Mapping[str, Mapping[str, Rule]]          # rules by field, by profile
Tables = Mapping[str, Fields]                      # the same, by engine


class Life(NamedTuple):
    """``profiles`` use the rule. ``since`` and ``until``: the first rule set of the main line that has it, and the
    first that has it no more ("" = from the oldest on, or to the newest). ``before``, ``after``: what those have
    instead; ``proposed``: what a rule set beside the main line has instead, by its name; ``inferred``: rule sets in
    which nobody saw it run."""

    engine: str = ""
    profiles: tuple[str, ...] = ()
    since: str = ""
    until: str = ""
    before: str = ""
    after: str = ""
    proposed: tuple[tuple[str, str], ...] = ()
    inferred: tuple[str, ...] = ()
    flags: tuple[tuple[str, str], ...] = ()


def tables() -> Tables:
    """The rules of every rule set there is now."""
    return {
        engine.name: {
            name: {field: one for field, one in rules.fields().items() if callable(one)}
            for name, rules in engine.profiles.items()
        } for engine in registry.ENGINES.values()
    }  # fmt: skip


def life(rule: Rule, every: Tables) -> Life:
    """The life of one rule in all ``tables()``. Of a rule that nothing uses nothing is known."""
    for engine, mine in every.items():
        users = [name for name, fields in mine.items() if rule in fields.values()]
        if users:
            return _life(registry.ENGINES[engine], mine, rule, users)
    return Life()


def _life(engine: Engine, mine: Fields, rule: Rule, users: list[str]) -> Life:
    field = next(name for name, one in mine[users[0]].items() if one == rule)
    line = [(name, mine[name][field]) for name in engine.line]
    held = [k for k, (_, one) in enumerate(line) if one == rule]
    first, last = (held[0], held[-1]) if held else (0, len(line))
    beside = [(mine[base].get(field), mine[name].get(field), name) for name, base in engine.beside.items()]
    proposed = tuple((name, _id(theirs)) for own, theirs, name in beside if own == rule and theirs != rule)
    return Life(
        engine.name, tuple(users),
        since=line[first][0] if held and first else "",
        until=line[last + 1][0] if last + 1 < len(line) else "",
        before=_id(line[first - 1][1]) if held and first else _base(engine, mine, field, rule),
        after=_id(line[last + 1][1]) if last + 1 < len(line) else "",
        proposed=proposed,
        inferred=tuple(name for name in users if field in engine.rules(name).inferred),
        flags=_flags(engine, _id(rule)),
    )  # fmt: skip


def _base(engine: Engine, mine: Fields, field: str, rule: Rule) -> str:
    """What a proposal's base has in place of a rule that only the proposal has."""
    pairs = [(mine[name].get(field), mine[base].get(field)) for name, base in engine.beside.items()]
    return next((_id(theirs) for own, theirs in pairs if own == rule and theirs != rule), "")


def _id(rule: object) -> str:
    return str(getattr(rule, "rule", ""))


def spelled(flag: Flag) -> str:
    """The server's long spelling of an option, its own name where the server has none."""
    return next((one for one in flag.spellings if one.startswith("--")), flag.name)


def _flags(engine: Engine, rule: str) -> tuple[tuple[str, str], ...]:
    """Options that govern the rule: the server's spelling and what it changes."""
    names = engine.rule_flags.get(rule.split(".")[0], ())
    flags = filter(None, map(engine.manual.flag, names))
    return tuple((spelled(flag), flag.help) for flag in flags)
