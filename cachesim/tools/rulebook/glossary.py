"""Entries of the glossary, from ``glossary.md``, which is also a page of the documentation."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_suffix(".md")
ALSO = "Also: "


class Term(NamedTuple):
    """An entry: its name, synonyms, and its text without line ends."""

    name: str
    also: tuple[str, ...]
    text: str

    @property
    def words(self) -> tuple[str, ...]:
        """The name and all synonyms in the form for lookup."""
        return tuple(map(lookup_form, (self.name, *self.also)))


@cache
def terms() -> tuple[Term, ...]:
    """Return all entries, in the order of the file."""
    _, *entries = FILE.read_text("utf-8").split("\n## ")
    return tuple(map(_term, entries))


def _term(entry: str) -> Term:
    name, _, rest = entry.partition("\n")
    first, _, after = rest.strip().partition("\n\n")
    also = tuple(first.removeprefix(ALSO).split(", ")) if first.startswith(ALSO) else ()
    return Term(name, also, " ".join((after if also else rest).split()))


def lookup_form(word: str) -> str:
    """Return a word in the form for lookup: lower case, spaces instead of dashes and underscores."""
    return " ".join(word.lower().replace("_", " ").replace("-", " ").split())


def find(word: str) -> Term | None:
    """Return the entry of a term, by its name, else by a synonym; None if it is unknown. Sentences of reports are
    synonyms: ``n`` stands for their numbers, and their part before a comma or parenthesis is enough."""
    key = lookup_form(word).strip(" .!:;,")
    named = (term for term in terms() if lookup_form(term.name) == key)
    sentence = re.sub(r"\d+", "n", re.split("[,(]", key)[0]).strip()
    keys = (key, sentence) if " " in sentence else (key,)
    return next(named, next((term for key in keys for term in terms() if key in term.words), None))
