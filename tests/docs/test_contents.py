"""The long documents can be used by their contents: each section is linked from the top, and is at most two screens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, NamedTuple

import pytest

from tests.docs.examples import PAGES, ROOT

LONGEST = 90
"""Lines of 80 columns on two screens."""
WITH_CONTENTS = [
    PAGES / "using.md", PAGES / "reference.md", ROOT / "CONTRIBUTING.md", ROOT / "cachesim/ARCHITECTURE.md",
    ROOT / "tests/README.md",
]  # fmt: skip
each = pytest.mark.parametrize("document", WITH_CONTENTS, ids=lambda path: path.stem)


class Section(NamedTuple):
    """A section of a document, up to the next heading of any level. ``level``: signs of its heading."""

    level: int
    title: str
    text: str

    @property
    def anchor(self) -> str:
        return re.sub(r"[^\w -]", "", self.title).lower().replace(" ", "-")

    @property
    def screen_lines(self) -> int:
        """Lines in 80 columns, without targets of links and comments."""
        shown = re.sub(r"\]\([^)]*\)", "]", re.sub(r"<!--.*?-->", "", self.text))
        return sum(max(1, -(-len(line) // 80)) for line in shown.splitlines())


def sections(text: str) -> Iterator[Section]:
    """Yield the sections of a document; a heading within a block of code belongs to the block."""
    parts: list[tuple[int, str, list[str]]] = [(0, "", [])]
    is_code = False
    for line in text.splitlines():
        is_code ^= line.lstrip().startswith("```")
        if not is_code and (found := re.match(r"(#+) (.+)", line)):
            parts.append((len(found[1]), found[2], []))
        else:
            parts[-1][2].append(line)
    for level, title, lines in parts:
        yield Section(level, title, "\n".join(lines).strip("\n"))


def anchors(path: Path) -> set[str]:
    return {section.anchor for section in sections(path.read_text("utf-8"))}


def test_sections_are_found():
    text = "# A\n\nb\n\n## C d, `e`\n```\n# f\n```\n"
    found = [(one.level, one.anchor, one.screen_lines) for one in sections(text)]
    assert found == [(0, "", 0), (1, "a", 1), (2, "c-d-e", 3)]


@each
def test_a_section_has_two_screens_at_most(document):
    found = {section.title: section.screen_lines for section in sections(document.read_text("utf-8"))}
    assert {title: lines for title, lines in found.items() if lines > LONGEST} == {}


def tasks(document: Path) -> Iterator[Section]:
    """Yield the sections of level 2 with a text, and those of level 3 below a heading without a text."""
    is_parted = False
    for section in sections(document.read_text("utf-8")):
        if section.level == 2:
            is_parted = not section.text
        if (section.level == 2 and section.text) or (section.level == 3 and is_parted):
            yield section


@each
def test_the_contents_link_every_section(document):
    """The contents are the first section with such links, before the first task."""
    linked = [set(re.findall(r"\]\(#([^)]*)\)", section.text)) for section in sections(document.read_text("utf-8"))]
    number = next(number for number, found in enumerate(linked) if found)
    own = list(sections(document.read_text("utf-8")))[number]
    assert number <= 2
    assert [one.title for one in tasks(document) if one.anchor not in linked[number] and one.title != own.title] == []


def test_every_task_of_contributing_names_its_recorded_outputs():
    """Two sections are about no task: how to set up, and the table of all outputs."""
    found = [section.title for section in tasks(ROOT / "CONTRIBUTING.md")]
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    parts = {title: text.partition(f"# {title}\n")[2].partition("\n### ")[0].partition("\n## ")[0] for title in found}
    missing = [title for title, part in parts.items() if "Recorded outputs:" not in part]
    assert missing == ["Set up", "Recorded outputs"]


@each
def test_links_lead_somewhere(document):
    targets = re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", document.read_text("utf-8"))
    files = [(document.parent / target if target else document, anchor) for target, anchor in targets]
    assert [str(file) for file, _ in files if not file.exists()] == []
    assert [(file.name, anchor) for file, anchor in files if anchor and anchor not in anchors(file)] == []
