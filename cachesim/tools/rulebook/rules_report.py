"""What does a rule say, and which rules make up a profile? From the rules' own text."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.table import Column, Table
from rich.text import Text

from cachesim.engines import registry
from cachesim.engines.capabilities import Flag
from cachesim.engines.contract import Engine
from cachesim.engines.rule import about, rule_text
from cachesim.engines.rule_files import file_with
from cachesim.judging.evidence import grades_of_rule
from cachesim.scenarios.corpus import shown_in

# In which rule sets is a rule in force, what takes its place in others, and which options govern it?

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
        engine.name, tuple(users), since=line[first][0] if held and first else "",
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


def rule_data(rule_id: str, rule: Callable[..., Any], every: Tables) -> dict[str, Any]:
    """A rule: its words, its source in the real engine, its code, the profiles that use it, what other rule sets have
    in its place, the flags that govern it, how its outcomes are known, scenarios in which it is asked. ``every``: the
    tables of all rule sets."""
    known, lived = about(rule), life(rule, every)
    return {
        "rule": rule_id, "role": str(known.role), "decides": words_of(rule), "source": known.cited,
        "link": known.source.link, "since": known.since, "until": known.until, "code": _body(rule),
        "profiles": list(lived.profiles),
        "in_force": {"since": lived.since, "until": lived.until, "inferred": list(lived.inferred)},
        "instead": {"before": lived.before, "after": lived.after,
                    "proposed": [{"profile": name, "rule": one} for name, one in lived.proposed]},
        "flags": [{"flag": name, "help": text} for name, text in lived.flags],
        "grades": [{"case": case, "grade": grade} for case, grade in grades_of_rule(lived.engine, rule_id).items()],
        "shown_in": shown_in().get(rule_id, []),
        "file": f"{file_with(rule) or rule.__module__.replace('.', '/') + '.py'}:{inspect.getsourcelines(rule)[1]}",
    }  # fmt: skip


def words_of(rule: Rule) -> str:
    """What a rule says of itself, in one line."""
    return " ".join(inspect.cleandoc(rule_text(rule)).split())


def _body(rule: Callable[..., Any]) -> str:
    """The rule's code without its docstring, which is shown as text."""
    code = inspect.getsource(rule)
    head, quotes, rest = code.partition('    """')
    return head + rest.partition('"""\n')[2] if quotes else code


def rule_report(data: Mapping[str, Any]) -> RenderableType:
    """One rule on the screen."""
    columns = Column(style="dim", no_wrap=True), Column(overflow="fold")
    table = Table(*columns, box=None, padding=(0, 1), show_header=False)
    for name, text in _rows(data):
        table.add_row(name, Text(text))
    return Group(
        Text.assemble((data["rule"], "bold"), f"  ({data['role']})"), Text(data["decides"]), table,
        Syntax(data["code"], "python", background_color="default", word_wrap=True),
    )


def _rows(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is known of a rule besides what it decides, by name."""
    force, instead = data["in_force"], data["instead"]
    inferred = f" (inferred in {', '.join(force['inferred'])})" if force["inferred"] else ""
    if data["profiles"]:
        yield "used by", ", ".join(data["profiles"]) + inferred
    if instead["before"]:
        yield "before", instead["before"] + (f", until {force['since']}" if force["since"] else "")
    if instead["after"]:
        yield "after", f"{instead['after']}, since {force['until']}"
    if instead["proposed"]:
        yield "proposed", ", ".join(f"{one['rule']} ({one['profile']})" for one in instead["proposed"])
    for one in data["flags"]:
        yield "flag", f"{one['flag']}: {one['help']}" if one["help"] else one["flag"]
    if data["grades"]:
        yield "evidence", ", ".join(f"{one['case']}: {one['grade']}" for one in data["grades"])
    if data["shown_in"]:
        yield "shown in", ", ".join(data["shown_in"])
    yield "source", data["source"]
    if data["link"]:
        yield "link", data["link"]
    yield "code", data["file"]


def family_report(found: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Several rules in a list: what each decides, in its first sentence, and the newest rule set that has it."""
    table = Table(Column("rule", no_wrap=True), "decides", box=None, padding=(0, 1), header_style="dim")
    for data in found:
        table.add_row(Text(data["rule"], "bold"), Text(first_sentence(data["decides"])))
    return table


def first_sentence(text: str) -> str:
    """The first sentence of a docstring."""
    head, dot, _ = text.partition(". ")
    return head + dot.strip()


def list_report(
    profiles: Mapping[str, Any], latest: Mapping[str, str], notes: Mapping[str, str],
    spans: Mapping[str, tuple[str, ...]],
) -> RenderableType:
    """All profiles, the names that stand for the newest of them first; ``notes`` are added to their sources.
    ``spans``: from when to when each was in force, in builds and dates."""
    columns = [Column(name, no_wrap=name != "source", overflow="fold") for name in ("profile", "in force", "source")]
    table = Table(*columns, box=None, padding=(0, 1), header_style="dim")
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
    table = Table("field", a, b, box=None, padding=(0, 1), header_style="dim")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
