"""A page per scenario, with its picture under each rule set, the expected numbers and its file; and a page to walk
through its events."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Mapping, Sequence

from cachesim.base.errors import BadInput, Crash
from cachesim.base.escaping import shell_command
from cachesim.base.pool import KilledItem, finished_in_order
from cachesim.engines.registry import profiles
from cachesim.pages.site.paths import engine_path, release_path, report_path, scenario_path
from cachesim.pages.site.repository import document, web_source
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
from cachesim.scenarios.corpus import corpus_files, corpus_root
from cachesim.scenarios.load import load
from cachesim.scenarios.schema import Expect, Scenario
from cachesim.scenarios.symptoms import SYMPTOMS
from cachesim.tools.picture.picture_options import PictureFiles, picture_texts
from cachesim.tools.picture.shown import PictureOptions
from cachesim.tools.run.pictured_runs import run_pictured

INDEX = "scenarios/index"
SVG = "picture.svg"
HTML = "page.html"


@dataclass(frozen=True)
class Drawn:
    """The pictures of a scenario. ``svg`` and ``html``: their text, "" = they cannot be drawn. ``reason``: why not."""

    scenario: str
    svg: str = ""
    html: str = ""
    reason: str = ""


def known_scenarios() -> list[Scenario]:
    """Return all scenarios that come with cachesim and need no file of rules, in the order of their ids."""
    known = profiles().keys()
    found = [load(file) for _, file in sorted(corpus_files().items())]
    return [one for one in found if all(name in known for name in one.profiles)]


def draw_scenario(file: str) -> Drawn:
    """Return the pictures of a scenario file under all its rule sets."""
    scenario = load(Path(file))
    try:
        runs = [run_pictured(scenario, profile, events=True) for profile in scenario.profiles]
    except BadInput as error:
        return Drawn(scenario=scenario.id, reason=str(error))
    words = ["cachesim", "run", scenario.id]          # not its file, whose place a reader does not have
    for profile in scenario.profiles:
        words += ["-p", profile]
    shown = PictureOptions(command=shell_command(words))
    texts = picture_texts(PictureFiles(html=HTML, svg=SVG), runs, shown)
    return Drawn(scenario=scenario.id, svg=texts[SVG], html=texts[HTML])


def drawn_scenarios(scenarios: Sequence[Scenario], jobs: int) -> Iterator[Drawn]:
    """Yield the pictures of scenarios, in their order. ``jobs``: processes."""
    for done in finished_in_order(draw_scenario, [one.file for one in scenarios], jobs):
        if isinstance(done.result, KilledItem):
            raise Crash(f"{done.share}: {done.result.how}")
        yield done.result


def scenario_pages(scenarios: Sequence[Scenario], families: Mapping[str, str]) -> Iterator[SourcePage]:
    """Yield a page per scenario, and their list by symptom. ``families``: a page for each family of rules."""
    by_symptom: dict[str, list[Scenario]] = {name: [] for name in SYMPTOMS}
    for scenario in scenarios:
        by_symptom.setdefault(scenario.symptom, []).append(scenario)
        yield _scenario_page(scenario, families)
    parts = [
        "# Scenarios\n",
        "Short conversations, each with a fault or a decision that somebody asked about. Each page has the picture of",
        "the cache under the rule sets with the fault and without it, and a page to walk through its events.\n",
    ]
    for name, found in by_symptom.items():
        if found:
            rows = [_listed(one) for one in found]
            says = SYMPTOMS[name].text if name in SYMPTOMS else "nothing is wrong: how the cache works"
            parts += [f"## {plain(name or 'other')}\n", f"{plain(says[:1].upper() + says[1:])}.\n",
                      table(["scenario", "server", "model"], rows)]  # fmt: skip
    yield SourcePage(INDEX, "\n".join(parts), is_listed=True)


def _listed(scenario: Scenario) -> tuple[str, str, str]:
    """Return the row of a scenario in the list."""
    named = link(plain(scenario.title), INDEX, scenario_path(scenario.id))
    return named, code(scenario.engine), code(scenario.model)


def _scenario_page(scenario: Scenario, families: Mapping[str, str]) -> SourcePage:
    """Return the page of a scenario."""
    here = scenario_path(scenario.id)
    drawing = f"![The cache after each request, under each rule set]({scenario.id}.svg)"
    walk = f'<a class="walk" href="{scenario.id}-walk.html">Walk through the events, step by step</a>'
    parts = [
        f"# {plain(scenario.title)}\n",
        f"{prose(' '.join(scenario.why.split()))}\n",
        f"{drawing}\n\n{walk}\n",
        "## About\n",
        facts(_facts(scenario, here, families)),
        "## Requests\n",
        table(["#", "request", "purpose"], _requests(scenario)),
        "## Expected\n",
        _expected(scenario, here),
        "## Try it\n",
        "The box of the playground, in which the requests can be changed, needs the installed package:\n",
        fenced(f"cachesim run {scenario.id}\ncachesim playground", "sh"),
        "## File\n",
        fenced(document(_file_of(scenario)), "toml"),
    ]
    names = (scenario.id, *scenario.source)
    entry = SearchEntry(kind="scenario", title=scenario.title, says=first_sentence(scenario.why), names=names)
    return SourcePage(path=here, text="\n".join(parts), entry=entry)


def _facts(scenario: Scenario, here: str, families: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the rows of the table of a scenario."""
    yield "id", code(scenario.id)
    yield "server", link(code(scenario.engine), here, engine_path(scenario.engine))
    yield "model", code(scenario.model)
    yield "rule sets", ", ".join(link(code(name), here, release_path(name)) for name in scenario.profiles)
    if scenario.symptom in SYMPTOMS:
        yield "symptom", plain(f"{scenario.symptom}: {SYMPTOMS[scenario.symptom].text}")
    yield "source", ", ".join(web_source(one) for one in scenario.source)
    for report in scenario.reports:
        named = link(code(report.entry), here, report_path(report.entry))
        if report.rule in families:
            named = f"{named}, decided by {link(code(report.rule), here, families[report.rule])}"
        yield "reported bug", named
    yield "file", code(_file_of(scenario))


def _file_of(scenario: Scenario) -> str:
    """Return the file of a scenario, from the repository's root."""
    return f"scenarios/{Path(scenario.file).relative_to(corpus_root()).as_posix()}"


def _requests(scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """Yield number, notation and purpose of each step."""
    for number, step in enumerate(scenario.steps):
        yield str(number), code(step.text), prose(step.why)


def _expected(scenario: Scenario, here: str) -> str:
    """Return the expected numbers under each rule set."""
    rows = []
    for name, expect in scenario.expect.items():
        rows.append((link(code(name), here, release_path(name)), _numbers(expect.cache_n), _numbers(expect.prompt_n),
                     _broken(expect)))  # fmt: skip
    return table(["rule set", "reused, by request", "evaluated, by request", "wrong"], rows)


def _numbers(found: Sequence[Sequence[int]] | None) -> str:
    """Return the expected values of all requests; several for one request are joined by "or"."""
    if found is None:
        return ""
    return ", ".join(" or ".join(map(str, allowed)) for allowed in found)


def _broken(expect: Expect) -> str:
    """Return the requests with a wrong answer."""
    if not expect.broken:
        return "none"
    return f"request {', '.join(map(str, expect.broken))}"
