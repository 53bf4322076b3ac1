"""Reports on rules and profiles, from the text of the rules: rule, family of rules, list of profiles, differences."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.table import Column
from rich.text import Text

from cachesim.base.layout import WholeTable
from cachesim.engines import registry
from cachesim.engines.build_names import main_branch
from cachesim.engines.capabilities import Flag
from cachesim.engines.contract import Engine
from cachesim.engines.rule import about, rule_text
from cachesim.engines.rule_files import file_with
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging.evidence import grades_of_rule
from cachesim.scenarios.corpus import shown_in

Rule = Callable[..., Any]
Fields = Mapping[str, Mapping[str, Rule]]          # rules by profile and field
Tables = Mapping[str, Fields]                      # rules by engine, profile and field


class RuleLife(NamedTuple):
    """Use of a rule in the rule sets of its engine."""

    engine: str = ""
    profiles: tuple[str, ...] = ()                  # profiles that use the rule
    since: str = ""                                 # first rule set of the main line with the rule, "" = the oldest
    until: str = ""                                 # first later rule set without the rule, "" = none
    before: str = ""                                # rule in its place before ``since``
    after: str = ""                                 # rule in its place from ``until`` on
    proposed: tuple[tuple[str, str], ...] = ()      # (profile, rule in its place) of proposed rule sets
    inferred: tuple[str, ...] = ()                  # profiles under which the rule was never observed
    flags: tuple[tuple[str, str], ...] = ()         # (spelling, help) of the options that govern the rule


def tables(rule: str = "") -> Tables:
    """Return the rules of all registered rule sets; with ``rule``, only those of the first engine that has the rule
    with this id."""
    if rule:
        for name, engine in registry.ENGINES.items():
            found = {profile: _callables(rules) for profile, rules in engine.profiles.items()}
            if any(_id(known) == rule for fields in found.values() for known in fields.values()):
                return {name: found}
    return {
        engine.name: {
            name: _callables(rules) for name, rules in engine.profiles.items()
        } for engine in registry.ENGINES.values()
    }  # fmt: skip


def _callables(rules: RuleSet) -> Mapping[str, Rule]:
    """Return the rules of a rule set by field."""
    return {field: rule for field, rule in rules.fields().items() if callable(rule)}


def life(rule: Rule, every: Tables) -> RuleLife:
    """Return the use of a rule in ``every`` (from ``tables()``); an empty Life for an unused rule."""
    for engine, fields in every.items():
        users = [name for name, rules in fields.items() if rule in rules.values()]
        if users:
            return _life(registry.ENGINES[engine], fields, rule, users)
    return RuleLife()


def _life(engine: Engine, mine: Fields, rule: Rule, users: list[str]) -> RuleLife:
    field = next(name for name, one in mine[users[0]].items() if one == rule)
    line = [(name, mine[name].get(field)) for name in engine.line]
    held = [k for k, (_, one) in enumerate(line) if one == rule]
    older = line[held[0] - 1] if held and held[0] else None
    newer = line[held[-1] + 1] if held and held[-1] + 1 < len(line) else None
    beside = [(mine[base].get(field), mine[name].get(field), name) for name, base in engine.beside.items()]
    proposed = tuple((name, _id(theirs)) for own, theirs, name in beside if own == rule and theirs != rule)
    return RuleLife(
        engine.name, tuple(users), since=line[held[0]][0] if older else "", until=newer[0] if newer else "",
        before=_id(older[1]) if older else "" if held else _base(engine, mine, field, rule),
        after=_id(newer[1]) if newer else "",
        proposed=proposed,
        inferred=tuple(name for name in users if field in engine.rules(name).inferred),
        flags=_flags(engine, _id(rule)),
    )  # fmt: skip


def _base(engine: Engine, mine: Fields, field: str, rule: Rule) -> str:
    """Return the id of the rule that a proposal replaces with ``rule``."""
    pairs = [(mine[name].get(field), mine[base].get(field)) for name, base in engine.beside.items()]
    return next((_id(theirs) for own, theirs in pairs if own == rule and theirs != rule), "")


def _id(rule: object) -> str:
    return str(getattr(rule, "rule", ""))


def spelled(flag: Flag) -> str:
    """Return the server's long spelling of an option, else its name in cachesim."""
    return next((spelling for spelling in flag.spellings if spelling.startswith("--")), flag.name)


def _flags(engine: Engine, rule: str) -> tuple[tuple[str, str], ...]:
    """Return spelling and help of the options that govern a rule."""
    names = engine.rule_flags.get(rule.split(".")[0], ())
    flags = filter(None, map(engine.manual.flag, names))
    return tuple((spelled(flag), flag.help) for flag in flags)


def rule_data(rule_id: str, rule: Callable[..., Any], every: Tables) -> dict[str, Any]:
    """Return a rule as data: description, source in the real engine, code, profiles that use it, rules in its place
    elsewhere, flags that govern it, evidence for its outcomes, scenarios that show it. ``every``: from ``tables()``."""
    known, lived = about(rule), life(rule, every)
    return {
        "rule": rule_id, "role": str(known.role), "decides": words_of(rule), "source": known.cited,
        "link": known.source.link, "since": known.since, "until": known.until, "code": _body(rule),
        "profiles": list(lived.profiles),
        "builds": _builds(rule),
        "in_force": {"since": lived.since, "until": lived.until, "inferred": list(lived.inferred)},
        "instead": {"before": lived.before, "after": lived.after,
                    "proposed": [{"profile": name, "rule": instead} for name, instead in lived.proposed]},
        "flags": [{"flag": name, "help": text} for name, text in lived.flags],
        "grades": [{"case": case, "grade": grade} for case, grade in grades_of_rule(lived.engine, rule_id).items()],
        "shown_in": list(shown_in().get(rule_id, ())),
        "file": f"{file_with(rule) or rule.__module__.replace('.', '/') + '.py'}:{inspect.getsourcelines(rule)[1]}",
    }  # fmt: skip


def _builds(rule: Rule) -> list[str]:
    """Return since and until when the main branches have a rule, by its own dates."""
    found = (main_branch(engine).life_of(rule) for engine in map(registry.engine_named, _engines_with(rule)))
    return list(dict.fromkeys(text for fields in found for periods in fields.values() for text in periods if text))


def _engines_with(rule: Rule) -> Iterator[str]:
    """Yield the engine with a main branch whose package defines a rule."""
    for name in registry.ENGINES:
        if f".{name}." in rule.__module__ and registry.ENGINES[name].when.own:
            yield name


def words_of(rule: Rule) -> str:
    """Return the description of a rule in a line."""
    return " ".join(inspect.cleandoc(rule_text(rule)).split())


def _body(rule: Callable[..., Any]) -> str:
    """Return the code of a rule without its docstring."""
    code = inspect.getsource(rule)
    head, quotes, rest = code.partition('    """')
    return head + rest.partition('"""\n')[2] if quotes else code


def rule_report(data: Mapping[str, Any]) -> RenderableType:
    """Return the report of a rule."""
    columns = Column(style="dim", no_wrap=True), Column(overflow="fold")
    table = WholeTable(*columns, show_header=False)
    for name, text in _rows(data):
        table.add_row(name, Text(text))
    return Group(
        Text.assemble((data["rule"], "bold"), f"  ({data['role']})"), Text(data["decides"]), table,
        Syntax(data["code"], "python", background_color="default", word_wrap=True),
    )


def _rows(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the facts about a rule as (name, text)."""
    force, instead = data["in_force"], data["instead"]
    inferred = f" (inferred in {', '.join(force['inferred'])})" if force["inferred"] else ""
    if data["profiles"]:
        yield "used by", ", ".join(data["profiles"]) + inferred
    if data["builds"]:
        yield "builds", "; ".join(data["builds"])
    if instead["before"]:
        yield "before", instead["before"] + (f", until {force['since']}" if force["since"] else "")
    if instead["after"]:
        yield "after", f"{instead['after']}, since {force['until']}"
    if instead["proposed"]:
        yield "proposed", ", ".join(f"{entry['rule']} ({entry['profile']})" for entry in instead["proposed"])
    for flag in data["flags"]:
        yield "flag", f"{flag['flag']}: {flag['help']}" if flag["help"] else flag["flag"]
    if data["grades"]:
        yield "evidence", ", ".join(f"{entry['case']}: {entry['grade']}" for entry in data["grades"])
    if data["shown_in"]:
        yield "shown in", ", ".join(data["shown_in"])
    yield "source", data["source"]
    if data["link"]:
        yield "link", data["link"]
    yield "code", data["file"]


def family_report(found: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return a list of rules with the first sentence of each description."""
    table = WholeTable(Column("rule", no_wrap=True), "decides")
    for data in found:
        table.add_row(Text(data["rule"], "bold"), Text(first_sentence(data["decides"])))
    return table


def first_sentence(text: str) -> str:
    """Return the first sentence of a text."""
    head, dot, _ = text.partition(". ")
    return head + dot.strip()


def list_report(
    profiles: Mapping[str, Any], latest: Mapping[str, str], notes: Mapping[str, str],
    spans: Mapping[str, tuple[str, ...]],
) -> RenderableType:
    """Return a table of all profiles, ``@latest`` names first. ``notes`` are added to the sources; ``spans``: builds
    and dates during which each profile was in force."""
    columns = [Column(name, no_wrap=name != "source", overflow="fold") for name in ("profile", "in force", "source")]
    table = WholeTable(*columns)
    for name, profile in latest.items():
        table.add_row(Text(name, "cyan"), profiles[profile].build, f"= {profile}, the newest recorded; the default")
    for name, rules in profiles.items():
        note = f" [{notes[name]}]" if name in notes else ""
        when = "\n".join(spans[name]) or f"({rules.build})"
        table.add_row(Text(name, "cyan"), when, Text(rules.source + note))
    return Group(table, Text("+: or later. In brackets: the build that a proposal is based on.", "dim"))


def differences_report(a: str, b: str, fields: Iterable[tuple[str, Any, Any]]) -> RenderableType:
    """Return a table of the fields that differ between two profiles. ``fields``: (field, value in a, value in b)."""
    rows = [row for field in fields for row in _different_values(*field)]
    if not rows:
        return Text("no differences")
    table = WholeTable(Column("field", no_wrap=True), f"{a} -> {b}")
    for name, before, after in rows:
        table.add_row(Text(name), Text(f"{before} -> {after}"))
    return table


def _different_values(name: str, a: Any, b: Any) -> Iterator[tuple[str, str, str]]:
    """Yield a row for a value that differs, or for each such entry of a mapping."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in sorted(a.keys() | b.keys()):
            yield from _different_values(f"{name}.{key}", a.get(key), b.get(key))
    elif a != b:
        yield name, _value_text(a), _value_text(b)


def _value_text(value: Any) -> str:
    """Return the text of a rule's id, a number, a list or a record of them."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return ", ".join(f"{name} {_value_text(part)}" for name, part in value._asdict().items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_value_text, value)) or "-"
    return "-" if value in (None, "") else str(value)
