"""Prompts as text: which tokens are which piece of text, the answers of a server included."""

from __future__ import annotations

import re
from typing import Protocol, Sequence

from cachesim.base.tokens import Tokens

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
