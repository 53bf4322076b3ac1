"""Lesson files: Markdown in the corpus folder ``lessons``, ordered by number.

They are read as blocks: headings, paragraphs, lists, tables, code, pictures and hidden answers. The lessons have no
nested lists, and no HTML except comments and ``<details>`` around an answer. Comments are ignored, except those of
pictures and steps:

    <!-- picture attention, recurrent = CASE PROFILE PROFILE -->    the runs of the picture on the next line
    <!-- step attention 1: n_past = 9 -->                           an event of request 1, by its sentence
"""

from __future__ import annotations

import re
from itertools import repeat, takewhile
from pathlib import Path
from typing import Callable, Iterator, Mapping, NamedTuple, Sequence

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from cachesim.base.errors import BadInput, quoted
from cachesim.scenarios.corpus import corpus_root

MARKDOWN = MarkdownIt("commonmark").enable("table")
INTRODUCTION, QUIZ = "README.md", "quiz.md"
COMMENT = re.compile(r"<!--.*?-->\n?", re.S)
PICTURE = re.compile(r"<!-- picture(?: (?P<names>.+?))? = (?P<case>\S+) (?P<profiles>.+?) -->\n"
                     r"!\[[^\]]*\]\((?P<file>[\w-]+\.svg)\)")  # fmt: skip
_STEP = re.compile(r"<!-- step (?P<run>.+?) (?P<request>\d+): (?P<says>.+?) -->")
_FIELD = re.compile(r"<!--=.+?-->(.*?)<!--/-->", re.S)
_PICTURE = re.compile(r"!\[(.*)\]\((.+)\)")


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


def files() -> dict[int, Path]:
    """Return the files of the introduction and the lessons, by number."""
    numbered = {int(found[1]): file for file in folder().glob("*.md") if (found := re.match(r"(\d+)-", file.name))}
    return {0: folder() / INTRODUCTION, **dict(sorted(numbered.items()))}


def lessons() -> list[Lesson]:
    """Return the introduction and the lessons, by number."""
    return [_lesson(number, file) for number, file in files().items()]


def quiz() -> Lesson:
    """Return the quiz."""
    return _lesson(-1, folder() / QUIZ)


def lesson(number: str) -> Lesson:
    """Return the lesson with this number. Raise BadInput for an unknown number."""
    known = {str(number): (number, file) for number, file in files().items()}
    if number not in known:
        raise BadInput(f"unknown lesson: {quoted(number)}",
                       hint=f"0 is the introduction, 1 to {len(known) - 1} are lessons")  # fmt: skip
    return _lesson(*known[number])


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
    return list(_read(SyntaxTreeNode(MARKDOWN.parse(plain)).children))


def _read(nodes: Sequence[SyntaxTreeNode]) -> Iterator[Block]:
    """Yield the blocks of a part of a Markdown text."""
    todo = iter(nodes)
    for node in todo:
        if node.type == "html_block" and node.content.startswith("<details>"):
            yield Block("answer", inside=list(_read([*takewhile(_is_inside, todo)])))
        elif node.type == "heading":
            yield Block("heading", _text(node), level=int(node.tag[1]))
        elif node.type in ("fence", "code_block"):
            yield Block("code", node.content.removesuffix("\n"), node.info)
        elif node.type in ("bullet_list", "ordered_list"):
            yield Block("list", rows=[[item.markup if item.markup == "-" else f"{item.info}{item.markup}", _text(item)]
                                      for item in node.children])  # fmt: skip
        elif node.type == "table":
            yield Block("table", rows=[[_text(cell) for cell in row.children] for row in _table_rows(node)])
        elif found := _PICTURE.fullmatch(_text(node)):
            yield Block("picture", found[1], found[2])
        else:
            yield Block("text", _text(node))


def _is_inside(node: SyntaxTreeNode) -> bool:
    """False for the end of an answer."""
    return not (node.type == "html_block" and node.content.startswith("</details>"))


def _text(node: SyntaxTreeNode) -> str:
    """Return the Markdown text inside a node as a single line."""
    return " ".join(one.content for one in node.walk() if one.type == "inline").replace("\n", " ")


def _table_rows(table: SyntaxTreeNode) -> Iterator[SyntaxTreeNode]:
    """Yield the rows of a table, the heads first."""
    for part in table.children:
        yield from part.children


def inline_nodes(text: str) -> Sequence[SyntaxTreeNode]:
    """Return the parts of a text inside a block: text, code, bold, italics and links."""
    (inline,) = SyntaxTreeNode(MARKDOWN.parseInline(text)).children
    return inline.children
