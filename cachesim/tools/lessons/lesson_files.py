"""Lesson files: Markdown in the corpus folder ``lessons``, ordered by number.

They are parsed into blocks: headings, paragraphs, lists, tables, code, pictures and hidden answers. The parser supports
only what the lessons use: no nested lists, and no HTML except comments (ignored) and ``<details>`` around an answer.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.scenarios.corpus import corpus_root

INTRODUCTION, QUIZ = "README.md", "quiz.md"
COMMENT = re.compile(r"<!--.*?-->\n?", re.S)
_FIELD = re.compile(r"<!--=.+?-->(.*?)<!--/-->", re.S)
_HEADING = re.compile(r"(#{1,3}) (.+)")
_PICTURE = re.compile(r"!\[(.*)\]\((.+)\)")
_ITEM = re.compile(r"(- |\d+\. )(.+)")


class Block(NamedTuple):
    """A block of a lesson. ``kind``: "heading", "text", "list", "table", "code", "picture" or "answer"."""

    kind: str
    text: str = ""                              # of a picture: its description
    name: str = ""                              # language of code, file name of a picture
    level: int = 0                              # of a heading: 1 to 3
    rows: Sequence[Sequence[str]] = ()          # marker and text of list items; cells of a table, heads first
    inside: Sequence[Block] = ()                # blocks of an answer


class Lesson(NamedTuple):
    """A lesson. ``number``: 0 for the introduction, -1 for the quiz."""

    number: int
    title: str
    file: Path
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        """Anchor on a page."""
        return "quiz" if self.number < 0 else f"lesson-{self.number}"

    @property
    def parts(self) -> list[list[Block]]:
        """Parts that are shown at once: each ends at the next heading; an answer is a part of its own."""
        found: list[list[Block]] = [[]]
        for block in self.blocks:
            new = block.kind == "answer" or (block.kind == "heading" and block.level == 2)
            after_answer = bool(found[-1]) and found[-1][-1].kind == "answer"
            if found[-1] and (new or after_answer):
                found.append([])
            found[-1].append(block)
        return found


def folder() -> Path:
    """Return the folder of the lessons and their pictures."""
    return corpus_root() / "lessons"


def lessons() -> list[Lesson]:
    """Return the introduction and the lessons, by number."""
    files = sorted(file for file in folder().glob("*.md") if re.match(r"\d-", file.name))
    return [_lesson(0, folder() / INTRODUCTION), *(_lesson(int(file.name[0]), file) for file in files)]


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
    found = blocks(file.read_text("utf-8"))
    return Lesson(number, found[0].text, file, found)


def blocks(text: str) -> list[Block]:
    """Parse a Markdown text into blocks."""
    plain = COMMENT.sub("", _FIELD.sub(r"\1", text))
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
