"""Which lessons are there? Markdown files in the folder ``lessons`` of the corpus, in the order of their numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.scenarios.corpus import corpus_root
from cachesim.tools.lessons.blocks import Block, blocks

INTRODUCTION, QUIZ = "README.md", "quiz.md"


class Lesson(NamedTuple):
    """``number``: 0 for the introduction, -1 for the quiz."""

    number: int
    title: str
    file: Path
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        """Its name on a page."""
        return "quiz" if self.number < 0 else f"lesson-{self.number}"

    @property
    def parts(self) -> list[list[Block]]:
        """What is shown at once: up to the next heading, or to an answer, which stands alone."""
        found: list[list[Block]] = [[]]
        for block in self.blocks:
            new = block.kind == "answer" or (block.kind == "heading" and block.level == 2)
            after_answer = bool(found[-1]) and found[-1][-1].kind == "answer"
            if found[-1] and (new or after_answer):
                found.append([])
            found[-1].append(block)
        return found


def folder() -> Path:
    """Where lessons and their pictures lie."""
    return corpus_root() / "lessons"


def lessons() -> list[Lesson]:
    """The introduction and the lessons."""
    files = sorted(file for file in folder().glob("*.md") if re.match(r"\d-", file.name))
    return [_read(0, folder() / INTRODUCTION), *(_read(int(file.name[0]), file) for file in files)]


def quiz() -> Lesson:
    """The questions."""
    return _read(-1, folder() / QUIZ)


def lesson(number: str) -> Lesson:
    """The lesson of a number. Raises BadInput."""
    known = {str(one.number): one for one in lessons()}
    if number not in known:
        raise BadInput(f"there is no lesson {quoted(number)}",
                       hint=f"0 is the introduction, 1 to {len(known) - 1} are lessons")  # fmt: skip
    return known[number]


def _read(number: int, file: Path) -> Lesson:
    found = blocks(file.read_text("utf-8"))
    return Lesson(number, found[0].text, file, found)
