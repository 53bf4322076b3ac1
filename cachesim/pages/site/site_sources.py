"""The folder from which Sphinx builds the site: Markdown files, pictures, and the entries of the search box."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Iterable, Iterator, Sequence

from cachesim.base.progress_bar import progress
from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import RULES
from cachesim.pages.site.flag_pages import flag_pages
from cachesim.pages.site.guide_pages import DOCUMENTS, guide_pages, pictures_of
from cachesim.pages.site.lesson_pages import lesson_pages, moving_lessons
from cachesim.pages.site.line_pages import line_pages
from cachesim.pages.site.paths import rule_path, scenario_path
from cachesim.pages.site.release_pages import release_pages
from cachesim.pages.site.report_pages import report_pages
from cachesim.pages.site.repository import copy_file, document
from cachesim.pages.site.rule_pages import rule_pages
from cachesim.pages.site.scenario_pages import drawn_scenarios, known_scenarios, scenario_pages
from cachesim.pages.site.source_page import SearchEntry, SourcePage
from cachesim.pages.site.term_pages import term_pages
from cachesim.scenarios.schema import Scenario

HERE = Path(__file__).parent
OWN = "cachesim/pages/site"
INTERFACE = "guide/interface"


def write_sources(folder: Path, jobs: int) -> int:
    """Write the sources of the site into an empty folder and return the number of pages. ``jobs``: processes that draw
    the scenarios."""
    scenarios = known_scenarios()
    pages = [*site_pages(scenarios)]
    pictures: set[str] = set()
    for page in pages:
        text = page.markdown()
        _write(folder / f"{page.path}.md", text)
        pictures |= pictures_of(text)
    for picture in pictures:
        copy_file(picture, folder / "pictures" / picture)
    copy_file(f"{OWN}/conf.py", folder / "conf.py")
    shutil.copytree(HERE / "static", folder / "static")
    shutil.copytree(HERE / "templates", folder / "templates")
    _write(folder / "static" / "entries.js", entries_script(pages))
    _draw(folder, scenarios, jobs)
    return len(pages)


def site_pages(scenarios: Sequence[Scenario]) -> Iterator[SourcePage]:
    """Yield all pages."""
    for engine in ENGINES.values():
        engine.load_rules()
    titles = {one.id: one.title for one in scenarios}
    families = _families()
    guide = "\n".join(["Start <guide/start>", *[*DOCUMENTS.values()][1:], INTERFACE])
    index = document(f"{OWN}/index.md").replace(":glob:\n\nGUIDE", f"\n{guide}")
    yield SourcePage("index", index, is_listed=True)
    interface = SearchEntry(kind="guide", title="Python interface", says="the public names, from their docstrings")
    yield SourcePage(INTERFACE, document(f"{OWN}/interface.md"), entry=interface, is_listed=True)
    yield from guide_pages()
    yield from lesson_pages()
    yield from term_pages()
    yield from release_pages()
    yield from rule_pages(titles)
    yield from flag_pages(families)
    yield from line_pages(families)
    yield from report_pages(titles, families)
    yield from scenario_pages(scenarios, families)


def _families() -> dict[str, str]:
    """Return a page for each rule, and for each family of rules: that of its first rule."""
    found: dict[str, str] = {}
    for name in sorted(RULES):
        found[name] = rule_path(name)
        found.setdefault(name.partition(".")[0], rule_path(name))
    return found


def entries_script(pages: Iterable[SourcePage]) -> str:
    """Return the entries of the search box, and texts that only one engine's logs have, as JavaScript, which a page
    without a server can load."""
    rows = []
    for page in pages:
        if page.entry is not None:
            says = page.entry.says.replace("`", "")
            row = {"path": page.path, "kind": page.entry.kind, "title": page.entry.title, "says": says}
            rows.append({**row, "names": page.entry.names, "templates": page.entry.templates})
    signs = {name: engine.log().signs for name, engine in ENGINES.items()}
    values = {"CACHESIM_ENTRIES": rows, "CACHESIM_SIGNS": signs}
    return "".join(f"window.{name} = {json.dumps(value, ensure_ascii=True, separators=(',', ':'))};\n"
                   for name, value in values.items())  # fmt: skip


def _draw(folder: Path, scenarios: Sequence[Scenario], jobs: int) -> None:
    """Write the pictures of scenarios, and the pages with moving pictures."""
    for drawn in progress(drawn_scenarios(scenarios, jobs), len(scenarios), "drawing"):
        place = scenario_path(drawn.scenario)
        _write(folder / f"{place}.svg", drawn.svg)
        _write(folder / "extra" / f"{place}-walk.html", drawn.html)
    for lesson in moving_lessons():
        _write(folder / "extra" / lesson.path, lesson.html)


def _write(file: Path, text: str) -> None:
    """Write a file, and the folder that holds it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
