"""The 320-token vocabulary of the recorded tiny models: what text is a token?

0..94 printable ASCII from the space on, 95 newline, 96 end of text, 97 and 98 message start and end, 99 and 100 think
tags, 101..200 a consonant and a vowel, 201..319 the same with a third letter.
Source: tokenizer.ggml.tokens of the recorded models; cachesim/replay/FORMAT.md.
"""

from __future__ import annotations

from typing import Iterable

SPECIAL = {
    96: "<|endoftext|>",
    97: "<|im_start|>",
    98: "<|im_end|>",
    99: "<think>",
    100: "</think>",
}
THINK = (99, 100)
_PAIRS = [c + v for c in "BCDFGHJKLMNPQRSTVWXZ" for v in "aeiou"]
PIECES: tuple[str, ...] = (
    *(chr(32 + i) for i in range(95)), "\n", *SPECIAL.values(), *_PAIRS, *(p + "n" for p in _PAIRS),
    *(p + "s" for p in _PAIRS[:19]),
)
TAGGED = frozenset(token for token, text in enumerate(PIECES) if "<" in text)
"""Tokens in whose text a think tag may begin."""


def recorded_piece(token: int) -> str:
    """The text of a token; one that the vocabulary lacks has a text of its own, which begins with a NUL."""
    return PIECES[token] if token < len(PIECES) else unique_piece(token)


def plain_text(tokens: Iterable[int]) -> str:
    """The text of tokens as an answer shows it: special tokens have none."""
    return "".join("" if token in SPECIAL else recorded_piece(token) for token in tokens)


def unique_piece(token: int) -> str:
    """A text that no other token's begins with."""
    return f"\0{token}\0"
