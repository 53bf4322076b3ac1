"""What does a term mean? The entries of ``glossary.md``, which is also a page of the documentation."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_suffix(".md")
ALSO = "Also: "


class Term(NamedTuple):
    """An entry: its name, other words that lead to it, its text without line ends."""

    name: str
    also: tuple[str, ...]
    text: str

    @property
    def words(self) -> tuple[str, ...]:
        """All words that lead to it, as they are looked up."""
        return tuple(map(plain, (self.name, *self.also)))


@cache
def terms() -> tuple[Term, ...]:
    """All entries, in the order of the file."""
    _, *entries = FILE.read_text("utf-8").split("\n## ")
    return tuple(map(_term, entries))


def _term(entry: str) -> Term:
    name, _, rest = entry.partition("\n")
    first, _, after = rest.strip().partition("\n\n")
    also = tuple(first.removeprefix(ALSO).split(", ")) if first.startswith(ALSO) else ()
    return Term(name, also, " ".join((after if also else rest).split()))


def plain(word: str) -> str:
    """A word as it is looked up: case, dashes and underscores do not matter."""
    return " ".join(word.lower().replace("_", " ").replace("-", " ").split())


def find(word: str) -> Term | None:
    """The entry of a term, found by its name, then by another word for it; None where there is none."""
    wanted = plain(word)
    named = (one for one in terms() if plain(one.name) == wanted)
    return next(named, next((one for one in terms() if wanted in one.words), None))
