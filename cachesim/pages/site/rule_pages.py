"""A page per rule, and the list of all rules."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import RULES
from cachesim.pages.site.paths import flag_path, release_path, rule_path, scenario_path
from cachesim.pages.site.source_page import (
    SearchEntry,
    SourcePage,
    code,
    facts,
    fenced,
    first_sentence,
    link,
    plain,
    prose,
    table,
)
from cachesim.tools.rulebook.rules_report import rule_data, tables

INDEX = "rules/index"


def rule_pages(scenarios: Mapping[str, str]) -> Iterator[SourcePage]:
    """Yield a page per rule of every engine, and their list. ``scenarios``: titles by id."""
    every = tables()
    used = {engine: _rules_of(fields) for engine, fields in every.items()}
    for engine, names in used.items():
        for name in names:
            data = rule_data(name, RULES[name], {engine: every[engine]})
            yield _rule_page(engine, data, scenarios)
    yield SourcePage(INDEX, _index(used), is_listed=True)


def _rules_of(fields: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the ids of the rules of an engine's rule sets, in alphabetical order."""
    found = {str(getattr(rule, "rule", "")) for rules in fields.values() for rule in rules.values()}
    return sorted(name for name in found if name in RULES)


def _rule_page(engine: str, data: Mapping[str, Any], scenarios: Mapping[str, str]) -> SourcePage:
    """Return the page of a rule. ``data``: as ``explain --json`` prints it."""
    here = rule_path(data["rule"])
    parts = [
        f"# {data['rule']}\n",
        f"{prose(data['decides'])}\n",
        facts(_facts(engine, here, data, scenarios)),
        "## In the simulator\n",
        f"{code(data['file'])}\n",
        fenced(data["code"], "python"),
        f"In a terminal: {code('cachesim explain ' + data['rule'])}\n",
    ]
    entry = SearchEntry(kind="rule", title=data["rule"], says=first_sentence(data["decides"]), names=(data["rule"],))
    return SourcePage(path=here, text="\n".join(parts), entry=entry)


def _facts(engine: str, here: str, data: Mapping[str, Any], scenarios: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the table of a rule."""
    force = data["in_force"]
    instead = data["instead"]
    yield "role", plain(data["role"])
    yield "engine", link(code(engine), here, f"engines/{engine}")
    if force["inferred"]:
        yield "never observed in", ", ".join(map(code, force["inferred"]))
    if data["builds"]:
        yield "builds", plain("; ".join(data["builds"]))
    if instead["before"]:
        yield "before it", link(code(instead["before"]), here, rule_path(instead["before"]))
    if instead["after"]:
        yield "after it", link(code(instead["after"]), here, rule_path(instead["after"]))
    for proposed in instead["proposed"]:
        named = link(code(proposed["rule"]), here, rule_path(proposed["rule"]))
        yield "proposed", f"{named} in {link(code(proposed['profile']), here, release_path(proposed['profile']))}"
    for flag in data["flags"]:
        known = next(one.name for one in ENGINES[engine].manual.flags if flag["flag"] in (*one.spellings, one.name))
        yield "flag", f"{link(code(flag['flag']), here, flag_path(engine, known))}: {prose(flag['help'])}"
    if data["grades"]:
        yield "evidence", ", ".join(f"{plain(one['grade'])} ({plain(str(one['case']))})" for one in data["grades"])
    shown = [name for name in data["shown_in"] if name in scenarios]
    if shown:
        yield "shown in", ", ".join(link(plain(scenarios[name]), here, scenario_path(name)) for name in shown)
    source = prose(data["source"])
    yield "source", f"[{source}]({data['link']})" if data["link"] else source
    if data["profiles"]:
        yield "rule sets", ", ".join(link(code(name), here, release_path(name)) for name in data["profiles"])


def _index(used: Mapping[str, Sequence[str]]) -> str:
    """Return the list of all rules, by engine."""
    parts = [
        "# Rules\n",
        "A rule is a decision of a server as a pure function. Its id stands in every report. A rule whose evidence is",
        '"recorded" or "compared" was seen on the real server; one that is only read can be wrong.\n',
    ]
    for engine, names in used.items():
        rows = [(link(code(name), INDEX, rule_path(name)), prose(first_sentence(_decides(name)))) for name in names]
        parts += [f"## {engine}\n", table(["rule", "decides"], rows)]
    return "\n".join(parts)


def _decides(name: str) -> str:
    """Return what a rule decides."""
    from cachesim.tools.rulebook.rules_report import words_of

    return words_of(RULES[name])
