"""Lessons for a terminal: lines of at most 80 columns, except where quoted output is wider."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Callable, Iterator, Sequence

from markdown_it.tree import SyntaxTreeNode

from cachesim.base.untrusted_files import FILE, kind
from cachesim.tools.lessons.lesson_files import Block, LessonStep, inline_nodes, steps, with_steps

WIDTH = 80
_RULES = {1: "=", 2: "-"}


def lines(
    some: Sequence[Block], folder: Path, width: int = WIDTH,
    shown: Callable[[LessonStep], Sequence[str]] = lambda step: [],
) -> list[str]:
    """Return blocks as lines, separated by empty lines; after a block the events that its steps show. ``folder``: that
    of the pictures. ``shown``: an event as lines."""
    found: list[str] = []
    for block in some:
        texts = [block.text, *(text for row in block.rows for text in row)]
        events = [shown(step) for text in texts for step in steps(text)]
        for each in (_lines(block, folder, width), *filter(None, events)):
            found += ["", *each] if found else each
    return found


def inline(text: str) -> str:
    """Return text without the marks of bold, italics and links; code keeps its backquotes."""
    return "".join(map(_inline, inline_nodes(with_steps(text, lambda step: ""))))


def _inline(node: SyntaxTreeNode) -> str:
    return f"`{node.content}`" if node.type == "code_inline" else "".join(map(_inline, node.children)) or node.content


def _lines(block: Block, folder: Path, width: int) -> list[str]:
    if block.kind == "heading":
        rule = _RULES.get(block.level)
        return [inline(block.text), *([rule * len(inline(block.text))] if rule else [])]
    if block.kind == "code":
        return block.text.splitlines()
    if block.kind == "picture":
        letters = (folder / block.name).with_suffix(".txt")          # text version of the drawing, or its description
        return letters.read_text("utf-8").splitlines() if kind(letters) == FILE else [f"[{inline(block.text)}]"]
    if block.kind == "table":
        return list(_table(block.rows, width))
    if block.kind == "list":
        return [line for mark, text in block.rows for line in _item(mark, text, width)]
    if block.kind == "answer":
        return lines(block.inside, folder, width)
    return textwrap.wrap(inline(block.text), width, break_long_words=False, break_on_hyphens=False)


def _item(mark: str, text: str, width: int) -> list[str]:
    indent = " " * (len(mark) + 1)
    return textwrap.wrap(inline(text), width, initial_indent=f"{mark} ", subsequent_indent=indent,
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def _table(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield the rows of a table; the last column is wrapped if the table is too wide."""
    cells = [[inline(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    widths[-1] = min(widths[-1], max(20, width - sum(widths[:-1]) - 2 * (len(widths) - 1)))
    for number, row in enumerate(cells):
        first, *rest = textwrap.wrap(row[-1], widths[-1], break_on_hyphens=False) or [""]
        yield "  ".join(cell.ljust(size) for cell, size in zip([*row[:-1], first], widths, strict=True)).rstrip()
        for line in rest:
            yield " " * (sum(widths[:-1]) + 2 * (len(widths) - 1)) + line
        if not number:
            yield "  ".join("-" * size for size in widths)
