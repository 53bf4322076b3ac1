"""The Markdown of lessons as blocks: headings, paragraphs, lists, tables, code, pictures, and answers to open.

Only what lessons use is read: no nested lists, no HTML but comments (left out) and ``<details>`` around an answer.
"""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple, Sequence

COMMENT = re.compile(r"<!--.*?-->\n?", re.S)
_FIELD = re.compile(r"<!--=.+?-->(.*?)<!--/-->", re.S)
_HEADING = re.compile(r"(#{1,3}) (.+)")
_PICTURE = re.compile(r"!\[(.*)\]\((.+)\)")
_ITEM = re.compile(r"(- |\d+\. )(.+)")


class Block(NamedTuple):
    """``kind`` "heading" (``level`` 1 to 3), "text", "list" (``rows``: marker and text of each item), "table"
    (``rows`` of cells, the first are the heads), "code" (``text`` as it stands, ``name`` its language), "picture"
    (``text`` in place of it, ``name`` of the file), or "answer" (``inside``)."""

    kind: str
    text: str = ""
    name: str = ""
    level: int = 0
    rows: Sequence[Sequence[str]] = ()
    inside: Sequence[Block] = ()


def blocks(text: str) -> list[Block]:
    """The blocks of a Markdown text, in order."""
    plain = COMMENT.sub("", _FIELD.sub(r"\1", text))
    return list(_read(plain.splitlines()))


def _read(lines: list[str]) -> Iterator[Block]:
    while lines:
        line = lines[0]
        if not line.strip():
            del lines[0]
        elif line.startswith("```"):
            body = _until(lines, "```")
            yield Block("code", "\n".join(body), line[3:].strip())
        elif line.startswith("    "):
            body = _paragraph(lines)
            yield Block("code", "\n".join(one[4:] for one in body))
        elif line.startswith("<details>"):
            yield Block("answer", inside=list(_read(_until(lines, "</details>"))))
        elif found := _HEADING.fullmatch(line) or _PICTURE.fullmatch(line):
            del lines[0]
            level = len(found[1]) if found.re is _HEADING else 0
            yield Block("heading", found[2], level=level) if level else Block("picture", found[1], found[2])
        else:
            yield _block(_paragraph(lines))


def _until(lines: list[str], end: str) -> list[str]:
    """The lines between the first one and ``end``; all of them are taken."""
    stop = next((at for at, line in enumerate(lines[1:], 1) if line.startswith(end)), len(lines))
    body = lines[1:stop]
    del lines[: stop + 1]
    return body


def _paragraph(lines: list[str]) -> list[str]:
    """The lines up to an empty one, or to code; they are taken."""
    stop = next((at for at, line in enumerate(lines) if not line.strip() or line.startswith("```")), len(lines))
    body = lines[:stop]
    del lines[:stop]
    return body


def _block(body: list[str]) -> Block:
    """A table, a list, or text."""
    if body[0].startswith("|"):
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in body]
        return Block("table", rows=[row for at, row in enumerate(rows) if at != 1])
    if _ITEM.fullmatch(body[0]):
        return Block("list", rows=_items(body))
    return Block("text", " ".join(line.strip() for line in body))


def _items(body: Sequence[str]) -> list[list[str]]:
    rows: list[list[str]] = []
    for line in body:
        if found := _ITEM.fullmatch(line):
            rows.append([found[1].strip(), found[2].strip()])
        else:
            rows[-1][1] += f" {line.strip()}"
    return rows
