"""Lesson files: Markdown in the corpus folder ``lessons``, ordered by number.

They are parsed into blocks: headings, paragraphs, lists, tables, code, pictures and hidden answers. The parser supports
only what the lessons use: no nested lists, and no HTML except comments and ``<details>`` around an answer. Comments are
ignored, except those of pictures and steps:

    <!-- picture attention, recurrent = CASE PROFILE PROFILE -->    the runs of the picture on the next line
    <!-- step attention 1: n_past = 9 -->                           an event of request 1, by its sentence
"""

from __future__ import annotations

import re
from itertools import repeat
from pathlib import Path
from typing import Callable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.scenarios.corpus import corpus_root

INTRODUCTION, QUIZ = "README.md", "quiz.md"
COMMENT = re.compile(r"<!--.*?-->\n?", re.S)
PICTURE = re.compile(r"<!-- picture(?: (?P<names>.+?))? = (?P<case>\S+) (?P<profiles>.+?) -->\n"
                     r"!\[[^\]]*\]\((?P<file>[\w-]+\.svg)\)")  # fmt: skip
_STEP = re.compile(r"<!-- step (?P<run>.+?) (?P<request>\d+): (?P<says>.+?) -->")
_FIELD = re.compile(r"<!--=.+?-->(.*?)<!--/-->", re.S)
_HEADING = re.compile(r"(#{1,3}) (.+)")
_PICTURE = re.compile(r"!\[(.*)\]\((.+)\)")
_ITEM = re.compile(r"(- |\d+\. )(.+)")


OPEN, BETWEEN, CLOSE = "\ue000\ue001\ue002"
"""Marks of a step in the text of a block."""
_MARKED = re.compile(f"{OPEN}(.*?){BETWEEN}(.*?){BETWEEN}(.*?){CLOSE}")


class LessonStep(NamedTuple):
    """A place in a text that shows an event: the first event of a request in a run whose sentence contains ``says``; ""
    = the end of the run."""

    run: str
    request: int = 0
    says: str = ""

    @property
    def marked(self) -> str:
        """The step as it stands in the text of a block."""
        return f"{OPEN}{self.run}{BETWEEN}{self.request}{BETWEEN}{self.says}{CLOSE}"


class RunShown(NamedTuple):
    """A run that a lesson shows: its name, the scenario's id and the rule set."""

    name: str
    case: str
    profile: str


class Block(NamedTuple):
    """A block of a lesson. ``kind``: "heading", "text", "list", "table", "code", "picture" or "answer"."""

    kind: str
    text: str = ""                              # of a picture: its description
    name: str = ""                              # language of code, file name of a picture
    level: int = 0                              # of a heading: 1 to 3
    rows: Sequence[Sequence[str]] = ()          # marker and text of list items; cells of a table, heads first
    inside: Sequence[Block] = ()                # blocks of an answer


class Lesson(NamedTuple):
    """A lesson. ``number``: 0 for the introduction, -1 for the quiz. ``runs``: those of its pictures, by file name."""

    number: int
    title: str
    file: Path
    blocks: Sequence[Block]
    runs: Mapping[str, Sequence[RunShown]] = {}

    @property
    def anchor(self) -> str:
        """Anchor on a page."""
        return "quiz" if self.number < 0 else f"lesson-{self.number}"

    @property
    def parts(self) -> list[list[Block]]:
        """Parts that are shown at once: each ends at the next heading; an answer is a part of its own."""
        found: list[list[Block]] = []
        for block in self.blocks:
            begins = block.kind == "answer" or (block.kind == "heading" and block.level == 2)
            if begins or not found or found[-1][-1].kind == "answer":
                found.append([])
            found[-1].append(block)
        return found


def folder() -> Path:
    """Return the folder of the lessons and their pictures."""
    return corpus_root() / "lessons"


def lessons() -> list[Lesson]:
    """Return the introduction and the lessons, by number."""
    numbered = {int(found[1]): file for file in folder().glob("*.md") if (found := re.match(r"(\d+)-", file.name))}
    return [_lesson(0, folder() / INTRODUCTION), *(_lesson(number, numbered[number]) for number in sorted(numbered))]


def quiz() -> Lesson:
    """Return the quiz."""
    return _lesson(-1, folder() / QUIZ)


def lesson(number: str) -> Lesson:
    """Return the lesson with this number. Raise BadInput for an unknown number."""
    known = {str(one.number): one for one in lessons()}
    if number not in known:
        raise BadInput(f"unknown lesson: {quoted(number)}",
                       hint=f"0 is the introduction, 1 to {len(known) - 1} are lessons")  # fmt: skip
    return known[number]


def _lesson(number: int, file: Path) -> Lesson:
    text = file.read_text("utf-8")
    found = blocks(text)
    return Lesson(number, found[0].text, file, found, runs(text))


def runs(text: str) -> dict[str, list[RunShown]]:
    """Return the runs of each picture of a Markdown text. A run without a name has that of its rule set."""
    shown = {}
    for found in PICTURE.finditer(text):
        profiles = found["profiles"].split()
        names = found["names"].split(", ") if found["names"] else profiles
        shown[found["file"]] = [RunShown(*one) for one in zip(names, repeat(found["case"]), profiles, strict=False)]
    return shown


def steps(text: str) -> list[LessonStep]:
    """Return the steps in the text of a block."""
    return [LessonStep(run, int(request), says) for run, request, says in _MARKED.findall(text)]


def with_steps(text: str, shown: Callable[[LessonStep], str]) -> str:
    """Return a text with another text in place of each step."""
    return _MARKED.sub(lambda found: shown(LessonStep(found[1], int(found[2]), found[3])), text)


def blocks(text: str) -> list[Block]:
    """Parse a Markdown text into blocks."""
    marked = _STEP.sub(lambda found: LessonStep(found["run"], int(found["request"]), found["says"]).marked, text)
    plain = COMMENT.sub("", _FIELD.sub(r"\1", marked))
    return list(_read(plain.splitlines()))


def _read(lines: list[str]) -> Iterator[Block]:
    while lines:
        line = lines[0]
        if not line.strip():
            del lines[0]
        elif line.startswith("```"):
            yield Block("code", "\n".join(_until(lines, "```")), line[3:].strip())
        elif line.startswith("    "):
            yield Block("code", "\n".join(one[4:] for one in _paragraph(lines)))
        elif line.startswith("<details>"):
            yield Block("answer", inside=list(_read(_until(lines, "</details>"))))
        elif found := _HEADING.fullmatch(line):
            del lines[0]
            yield Block("heading", found[2], level=len(found[1]))
        elif found := _PICTURE.fullmatch(line):
            del lines[0]
            yield Block("picture", found[1], found[2])
        else:
            yield _block(_paragraph(lines))


def _until(lines: list[str], end: str) -> list[str]:
    """Remove and return the lines between the first line and the line that begins with ``end``."""
    stop = next((at for at, line in enumerate(lines[1:], 1) if line.startswith(end)), len(lines))
    body = lines[1:stop]
    del lines[: stop + 1]
    return body


def _paragraph(lines: list[str]) -> list[str]:
    """Remove and return the lines up to an empty line or to code."""
    stop = next((at for at, line in enumerate(lines) if not line.strip() or line.startswith("```")), len(lines))
    body = lines[:stop]
    del lines[:stop]
    return body


def _block(body: list[str]) -> Block:
    """Return a table, a list, or text."""
    if body[0].startswith("|"):
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in body]
        return Block("table", rows=[row for at, row in enumerate(rows) if at != 1])
    if _ITEM.fullmatch(body[0]):
        rows = []
        for line in body:
            if found := _ITEM.fullmatch(line):
                rows.append([found[1].strip(), found[2].strip()])
            else:
                rows[-1][1] += f" {line.strip()}"
        return Block("list", rows=rows)
    return Block("text", " ".join(line.strip() for line in body))
