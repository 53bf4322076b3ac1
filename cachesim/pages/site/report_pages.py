"""A page per reported bug, from the table of ``scenarios/BUGS.md``."""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple

from cachesim.pages.site.guide_pages import with_links
from cachesim.pages.site.paths import report_path, scenario_path
from cachesim.pages.site.repository import document
from cachesim.pages.site.source_page import SearchEntry, SourcePage, code, facts, first_sentence, link, plain

INDEX = "reports/index"
PAGE = "scenarios/BUGS.md"
_ROW = re.compile(
    r"\| (?P<entry>[A-Z]{2}-\d+) \| (?P<saw>.*?) \| (?P<claim>\w+) \| (?P<rule>[\w.-]*) ?\| (?P<shown>.*) \|"
)
_THREAD = re.compile(r"\[(?P<thread>[\w.-]+#\d+)\]\((?P<address>https://github\.com/(?P<owner>[\w.-]+)/[^)]*)\)")
_COMMAND = re.compile(r"`cachesim \w+ (?P<scenario>[a-z0-9-]+)")
CLAIMS = {
    "strict": "a scenario shows it, and the rule alone makes the difference",
    "partly": "a scenario shows a part of it",
    "not": "nothing shows it yet",
    "later": "not simulated yet",
    "out": "not simulated: outside of the caches of these servers",
}


class ReportedBug(NamedTuple):
    """A row of the table. ``saw`` and ``shown``: Markdown."""

    entry: str
    saw: str
    claim: str
    rule: str
    shown: str


def reported_bugs() -> list[ReportedBug]:
    """Return the rows of ``scenarios/BUGS.md``."""
    lines = document(PAGE).splitlines()
    return [ReportedBug(**found.groupdict()) for line in lines if (found := _ROW.fullmatch(line)) is not None]


def report_pages(scenarios: dict[str, str], families: dict[str, str]) -> Iterator[SourcePage]:
    """Yield a page per reported bug, and their list. ``scenarios``: titles by id. ``families``: a page for each family
    of rules."""
    text = with_links(document(PAGE), PAGE, INDEX)
    for bug in reported_bugs():
        page = _report_page(bug, scenarios, families)
        text = text.replace(f"| {bug.entry} |", f"| {link(bug.entry, INDEX, page.path)} |")
        yield page
    yield SourcePage(INDEX, text, is_listed=True)


def _report_page(bug: ReportedBug, scenarios: dict[str, str], families: dict[str, str]) -> SourcePage:
    """Return the page of a reported bug."""
    here = report_path(bug.entry)
    title = re.sub(r" \(\[.*\)$", "", bug.saw)
    rows = [("reported", bug.saw), ("here", plain(CLAIMS[bug.claim]))]
    if bug.rule:
        named = code(bug.rule)
        rows.append(("rule", link(named, here, families[bug.rule]) if bug.rule in families else named))
    command = _COMMAND.search(bug.shown)
    if command is not None and command["scenario"] in scenarios:
        rows.append(("picture", link(plain(scenarios[command["scenario"]]), here, scenario_path(command["scenario"]))))
    rows.append(("command" if command else "reason", bug.shown))
    names = [bug.entry]
    for found in _THREAD.finditer(bug.saw):
        names += [found["thread"], f"{found['owner']}/{found['thread']}", found["address"]]
    head = f"{bug.entry}: {title}"
    entry = SearchEntry(kind="reported bug", title=head, says=first_sentence(title), names=tuple(names))
    return SourcePage(path=here, text=f"# {head}\n\n{facts(rows)}", entry=entry)
