"""A page per server flag that the simulator knows, and the list of each engine."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from cachesim.engines.contract import Engine
from cachesim.engines.registry import ENGINES
from cachesim.pages.site.paths import flag_path
from cachesim.pages.site.source_page import SearchEntry, SourcePage, code, facts, first_sentence, link, plain, table
from cachesim.tools.rulebook.options_report import options_data

INDEX = "flags/index"


def flag_pages(families: Mapping[str, str]) -> Iterator[SourcePage]:
    """Yield a page per flag of every engine, and their list. ``families``: a page for each family of rules."""
    parts = [
        "# Server flags\n",
        "Flags of the real servers that change what their caches keep, find or remove. The simulator takes them as on",
        "the server's own command line.\n",
    ]
    for name, engine in ENGINES.items():
        engine.load_rules()
        data = options_data(engine, None, engine.manual.flags)
        rows = []
        for flag in data["flags"]:
            yield _flag_page(engine, flag, families)
            rows.append((link(code(_spelling(flag)), INDEX, flag_path(name, flag["name"])), plain(flag["help"])))
        parts += [f"## {name}\n", table(["flag", "effect"], rows)]
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
        f"{plain(flag['help'])}\n",
        facts(_facts(engine.name, here, flag)),
    ]
    if ruled:
        rules = ", ".join(link(code(family), here, families[family]) for family in ruled)
        parts.append(f"It governs the rules {rules}.\n")
    shown = f"cachesim options {engine.name} {flag['name']}"
    parts.append(f"In a terminal: {code(shown)}\n")
    names = (*flag["spellings"], *flag["off"], flag["name"])
    entry = SearchEntry(kind="flag", title=title, says=first_sentence(flag["help"]), names=names)
    return SourcePage(path=here, text="\n".join(parts), entry=entry)


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
        yield "values", ", ".join(code(str(one)) for one in flag["choices"])
    if flag["least"] is not None:
        other = f", or {flag['open']}" if flag["open"] is not None else ""
        yield "at least", f"{flag['least']}{other}"
    if flag["most"] is not None:
        yield "at most", str(flag["most"])
