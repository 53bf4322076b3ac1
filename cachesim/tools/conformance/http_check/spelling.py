"""Prompts as text: which tokens are which piece of text, the answers of a server included."""

from __future__ import annotations

import re
from typing import Callable, Iterator, Protocol, Sequence

from cachesim.base.tokens import Tokens

# Pieces of text that are one token each, wherever they stand: found by the lengths that a server reports.

FEWEST, ENOUGH = 64, 256     # pieces that are needed, and that are looked for at most
COMMON = (
    "the of and to in is it for on that as with was at be by are this from or have an not you they but his her which "
    "all can will one more has about when who out up them time what would some other into there its over new only so "
    "no my if their your after than then now could made may like well also back way many these our those just first "
    "people any most two very where much through between life being under three state never become high world school "
    "last family group still house study such before another does own part here while right old great home water room "
    "money book eye job word side kind head far black long both little white children begin got walk example ease "
    "paper often always music mark city tree farm hard start might story saw sea draw left late run press close night "
    "real few north open seem together next care second carry took science eat idea began move face car mile foot "
    "food cut sure watch color main plain girl usual young ready above ever red list feel talk bird soon body dog "
    "direct pose leave song door product short class wind question happen complete ship area half rock order fire "
    "south problem piece knew pass since top whole king space heard best hour better true during hundred five step "
    "early hold west ground interest reach fast verb sing listen six table travel less morning ten simple several "
    "against pattern slow center love person serve appear road map rain rule govern pull cold notice voice unit power "
    "town fine fly fall lead cry dark machine note wait plan figure star box noun field rest able pound done beauty "
    "drive stood contain front teach week final gave green quick develop ocean warm free minute strong special mind "
    "behind clear tail produce fact street inch multiply nothing course stay wheel full force blue object decide"
)
WORDS = tuple(COMMON.split())
CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
Length = Callable[[Sequence[str]], int]
"""Tokens of the prompt that these pieces make, one behind the other."""


def find_pieces(length: Length) -> tuple[list[str], int]:
    """Pieces of one token each, as many as are wanted, fewer where there are no more, and the tokens that a prompt has
    beyond its pieces. ``length`` is asked some dozens of times."""
    base = _base(length)
    found: list[str] = []
    for candidates in _candidates():
        for begin in range(0, len(candidates), FEWEST):
            found += _single(length, base, candidates[begin : begin + FEWEST])
            if len(found) >= ENOUGH:
                return found[:ENOUGH], base
        if len(found) >= FEWEST:
            break
    return found, base


def _base(length: Length) -> int:
    """Tokens that are there before the first piece: of a template, a mark of the beginning."""
    one, two = length((" the",)), length((" the", " the"))
    return one - (two - one)


def _candidates() -> Iterator[list[str]]:
    yield [f" {word}" for word in WORDS]
    yield [f" {one}" for one in CHARACTERS]
    yield list(CHARACTERS)


def _single(length: Length, base: int, pieces: Sequence[str]) -> list[str]:
    """Those of the pieces that are one token each: all where together they are so many tokens, else half by half."""
    if not pieces:
        return []
    beyond = length(pieces) - base - len(pieces)
    if not beyond:
        return list(pieces)
    if len(pieces) == 1:
        return []
    half = len(pieces) // 2
    return [*_single(length, base, pieces[:half]), *_single(length, base, pieces[half:])]


OWN = 1 << 20                # pieces from here on are parts of answers


class Spelling(Protocol):
    """How the tokens of a history are sent. ``tokens``: those that there are; ``base``: tokens that a prompt has beyond
    its own."""

    tokens: Sequence[int]
    base: int

    def prompt(self, tokens: Tokens) -> str | list[int]:
        """What is sent."""
        ...

    def heard(self, text: str, n: int) -> Tokens | None:
        """An answer of ``n`` tokens, so that it can be sent back; None where it cannot."""
        ...


class Arrays:
    """Tokens are sent as they are. What was generated is reported as text, and never sent back."""

    base = 0

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tokens

    def prompt(self, tokens: Tokens) -> list[int]:
        """The tokens."""
        return list(tokens)

    def heard(self, text: str, n: int) -> None:
        """Nobody knows its tokens."""


class Pieces:
    """Tokens are numbers of pieces of text."""

    def __init__(self, pieces: Sequence[str], base: int = 0) -> None:
        self.pieces, self.base = list(pieces), base
        self.tokens: Sequence[int] = range(len(self.pieces))
        self.lead = ""                               # what a server takes off the beginning of an answer
        self.own: list[str] = []
        self.numbers: dict[str, int] = {}

    def prompt(self, tokens: Tokens) -> str:
        """The text that these pieces make."""
        return "".join(self.own[one - OWN] if one >= OWN else self.pieces[one] for one in tokens)

    def heard(self, text: str, n: int) -> Tokens:
        """An answer in pieces: word by word where it has as many, else all of it as the first one."""
        text = self.lead + text
        parts = re.findall(r"\s*\S+", text)
        parts = parts if len(parts) == n and "".join(parts) == text else [text] + [""] * (n - 1)
        return tuple(map(self._number, parts))

    def _number(self, text: str) -> int:
        if text not in self.numbers:
            self.numbers[text] = OWN + len(self.own)
            self.own.append(text)
        return self.numbers[text]
