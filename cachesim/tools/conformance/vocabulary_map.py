"""Which tokens of the implementation's vocabulary do the words of a history stand for?

Two words never share a token, so histories part where their line says so. A word that is an answer stands for what the
implementation said, so that a client can send it back.
"""

from __future__ import annotations

from typing import Sequence

from cachesim.base.tokens import Tokens
from cachesim.scenarios.word_tokens import FIRST, STRIDE

SLOTS = 32                   # words of a history at most: each has every 32nd token of the vocabulary
FEWEST = 64                  # tokens that the kit needs


class Dictionary:
    """The tokens of one history, from a vocabulary of at least ``FEWEST`` tokens."""

    def __init__(self, vocabulary: Sequence[int]) -> None:
        self.vocabulary = vocabulary
        self.size = len(vocabulary) // SLOTS * SLOTS
        self.said: dict[int, int] = {}               # token of an answer's word -> what was generated there

    def real(self, tokens: Tokens) -> Tokens:
        """The implementation's tokens for those of the scenario."""
        return tuple(self.said[one] if one in self.said else self._word(one) for one in tokens)

    def bind(self, answer: Tokens | None, generated: Tokens | None) -> None:
        """From here on the answer's word stands for what was generated; for tokens of its own where nothing was."""
        self.said |= dict(zip(answer or (), generated or (), strict=False))

    def _word(self, token: int) -> int:
        word, index = divmod(token - FIRST, STRIDE)
        return self.vocabulary[(index * SLOTS + word) % self.size]


def fits(tokens: Tokens) -> bool:
    """Are these tokens of at most ``SLOTS`` words, none of them spelled out?"""
    return all(FIRST <= one < FIRST + SLOTS * STRIDE for one in tokens)
