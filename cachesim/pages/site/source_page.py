"""Pages as Markdown, before Sphinx builds them, and what the search box knows of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from posixpath import dirname, relpath
from typing import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|$~])")
_QUOTED = re.compile(r"(`{1,2})(?!`)(.+?)\1(?!`)")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class SearchEntry:
    """What the search box knows of a page. ``kind``: "rule", "flag", "log line" and so on. ``names``: texts that mean
    exactly this page. ``templates``: templates of log lines. ``says``: one sentence."""

    kind: str
    title: str
    says: str
    names: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourcePage:
    """A page. ``path``: its place in the site, without ending, such as "rules/LC-PC-LOAD.TAKE". ``text``: Markdown with
    the heading. ``is_listed``: it stands in a table of contents; any other page is reached by links."""

    path: str
    text: str
    entry: SearchEntry | None = None
    is_listed: bool = False

    def markdown(self) -> str:
        """Return the content of the file."""
        head = "" if self.is_listed else "---\norphan: true\n---\n\n"
        return f"{head}{self.text.rstrip()}\n"


def plain(text: str) -> str:
    """Return a text whose characters have no meaning in Markdown."""
    return _SPECIAL.sub(r"\\\1", text)


def prose(text: str) -> str:
    """Return a docstring, or a sentence of the glossary or of a scenario, as Markdown: code stands between one or two
    pairs of backticks, and other characters have no meaning."""
    done = 0
    parts: list[str] = []
    for quoted in _QUOTED.finditer(text):
        parts += [plain(text[done:quoted.start()]), code(quoted[2])]
        done = quoted.end()
    return "".join([*parts, plain(text[done:])])


def code(text: str) -> str:
    """Return inline code, and words for an empty text, which Markdown cannot mark as code."""
    if not text:
        return "(empty)"
    fence = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"


def fenced(text: str, language: str = "text") -> str:
    """Return a block of code."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def link(text: str, here: str, there: str) -> str:
    """Return a link from the page ``here`` to the page ``there``, with Markdown as its text."""
    return f"[{text}]({relpath(there, dirname(here) or '.')}.md)"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with cells of Markdown; "" without rows."""
    lines = [_row(row) for row in rows]
    if not lines:
        return ""
    return "\n".join([_row(heads), _row(["---"] * len(heads)), *lines, ""])


def _row(cells: Sequence[str]) -> str:
    """Return a row of a table. A bar in code ends a cell, too, and is escaped; text has its bars escaped already."""
    return f"| {' | '.join(_unescaped_bar.sub(_BAR, ' '.join(cell.split())) for cell in cells)} |"


_unescaped_bar = re.compile(r"(?<!\\)\|")
_BAR = r"\\|"


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Return names and their texts as a list; texts of Markdown."""
    return "\n".join(f":{name}: {' '.join(text.split())}" for name, text in rows) + "\n"


def file_name(text: str) -> str:
    """Return a text as the name of a file."""
    return _UNSAFE.sub("-", text).strip("-")


def first_sentence(text: str) -> str:
    """Return the first sentence of a text."""
    return re.split(r"(?<=[.:;])\s", " ".join(text.split()), maxsplit=1)[0].rstrip(":;")
