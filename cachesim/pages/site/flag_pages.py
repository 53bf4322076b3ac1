"""A page per server flag that the simulator knows, lists of all other arguments by their effect, and the list of each
engine."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from cachesim.engines.contract import Engine
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared import command_table as effects
from cachesim.engines.shared.command_table import Argument
from cachesim.pages.site.paths import flag_path
from cachesim.pages.site.source_page import (
    SearchEntry,
    SourcePage,
    code,
    facts,
    first_sentence,
    link,
    plain,
    prose,
    table,
)
from cachesim.tools.rulebook.options_report import options_data

INDEX = "flags/index"
OTHERS: Mapping[str, str] = {
    effects.NO_EFFECT: "Arguments that do not change the cache",
    effects.SIZE: "Arguments that change the size of the pool",
    effects.LIMIT: "Arguments that are not simulated, and assumed not to matter",
    effects.OPEN: "Arguments that are not simulated and may change what is reused",
    effects.OPTION: "Arguments that cachesim turns into other settings",
    effects.MODEL: "Arguments that name the model",
}
"""Titles of the lists of arguments without a page of their own, by effect."""


def flag_pages(families: Mapping[str, str]) -> Iterator[SourcePage]:
    """Yield a page per flag of every engine, and their list. ``families``: a page for each family of rules."""
    parts = [
        "# Server flags\n",
        "Flags of the real servers that change what their caches keep, find or remove. The simulator takes them as on",
        "the server's own command line.\n",
    ]
    last: list[SourcePage] = []           # the search finds a flag's own page first
    for name, engine in ENGINES.items():
        engine.load_rules()
        data = options_data(engine, None, engine.manual.flags)
        rows = []
        for flag in data["flags"]:
            yield _flag_page(engine, flag, families)
            rows.append((link(code(_spelling(flag)), INDEX, flag_path(name, flag["name"])), prose(flag["help"])))
        parts += [f"## {name}\n", table(["flag", "effect"], rows)]
        others = [*_other_pages(engine)]
        named = ", ".join(link(plain(page.text.partition("\n")[0].lstrip("# ")), INDEX, page.path) for page in others)
        parts.append(f"Further arguments: {named}.\n")
        last += others
    yield from last
    yield SourcePage(INDEX, "\n".join(parts), is_listed=True)


def _spelling(flag: Mapping[str, Any]) -> str:
    """Return the longest spelling of a flag on its server's command line, else its setting in cachesim."""
    return max(flag["spellings"], key=len, default=f"--set {flag['name']}=")


def _flag_page(engine: Engine, flag: Mapping[str, Any], families: Mapping[str, str]) -> SourcePage:
    """Return the page of a flag. ``flag``: as ``options --json`` prints it."""
    here = flag_path(engine.name, flag["name"])
    title = f"{_spelling(flag)} ({engine.name})"
    ruled = [family for family, flags in engine.rule_flags.items() if flag["name"] in flags and family in families]
    parts = [
        f"# {plain(title)}\n",
        f"{prose(flag['help'])}\n",
        facts(_facts(engine.name, here, flag)),
    ]
    if ruled:
        rules = ", ".join(link(code(family), here, families[family]) for family in ruled)
        parts.append(f"It governs the rules {rules}.\n")
    shown = f"cachesim options {engine.name} {flag['name']}"
    parts.append(f"In a terminal: {code(shown)}\n")
    names = (*flag["spellings"], *flag["off"], flag["name"], *_variables(engine, flag))
    entry = SearchEntry(kind="flag", title=title, says=first_sentence(flag["help"]), names=names)
    return SourcePage(path=here, text="\n".join(parts), entry=entry)


def _variables(engine: Engine, flag: Mapping[str, Any]) -> list[str]:
    """Return the environment variables that mean a flag."""
    found = (row.variable for row in engine.command_table.arguments if {*row.spellings} & {*flag["spellings"]})
    return [*dict.fromkeys(filter(None, found))]


def _other_pages(engine: Engine) -> Iterator[SourcePage]:
    """Yield the lists of the arguments that have no page of their own."""
    own = {spelling for flag in engine.manual.flags for spelling in (*flag.spellings, *flag.off)}
    for effect, title in OTHERS.items():
        rows = [row for row in engine.command_table.arguments if row.effect == effect and not own & {*row.spellings}]
        if rows:
            yield _other_page(engine.name, effect, f"{title} ({engine.name})", rows)


def _other_page(engine: str, effect: str, title: str, rows: Iterable[Argument]) -> SourcePage:
    """Return the list of the arguments with an effect."""
    names = tuple(dict.fromkeys(name for row in rows for name in (*row.spellings, row.variable) if name))
    listed = ((", ".join(map(code, row.spellings)), code(row.variable) if row.variable else "", _period(row))
              for row in rows)  # fmt: skip
    text = f"# {plain(title)}\n\n{table(['argument', 'variable', 'releases'], listed)}"
    entry = SearchEntry(kind="flag", title=title, says=f"{len(names)} names", names=names)
    return SourcePage(path=flag_path(engine, f"other {effect}"), text=text, entry=entry)


def _period(row: Argument) -> str:
    """Return the releases that have an argument."""
    since, until = (name.partition("@")[2] for name in (row.since, row.until))
    return f"{since} to {until}" if since and until else f"from {since}" if since else f"to {until}" if until else "all"


def _facts(engine: str, here: str, flag: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the table of a flag."""
    yield "server", link(code(engine), here, f"engines/{engine}")
    if flag["spellings"]:
        yield "spellings", ", ".join(map(code, flag["spellings"]))
    if flag["off"]:
        yield "switched off by", ", ".join(map(code, flag["off"]))
    yield "in cachesim", code(f"--set {flag['name']}={flag['default']}")
    yield "type", plain(flag["type"])
    yield "default", code(str(flag["default"])) if flag["default"] != "" else "none"
    if flag["choices"]:
        yield "values", ", ".join(code(str(one)) if one != "" else "none" for one in flag["choices"])
    if flag["least"] is not None:
        other = f", or {flag['open']}" if flag["open"] is not None else ""
        yield "at least", f"{flag['least']}{other}"
    if flag["most"] is not None:
        yield "at most", str(flag["most"])
