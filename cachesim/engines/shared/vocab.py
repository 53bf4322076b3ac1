"""The 320-token vocabulary of the recorded tiny models: what text is a token?

0..94 printable ASCII from the space on, 95 newline, 96 end of text, 97 and 98 message start and end, 99 and 100 think
tags, 101..200 a consonant and a vowel, 201..319 the same with a third letter.
Source: tokenizer.ggml.tokens of the recorded models; cachesim/replay/FORMAT.md.
"""

from __future__ import annotations

import zlib
from array import array
from typing import Callable, Iterable, Sequence

from cachesim.engines.base import Request
from cachesim.events import Log

# What does a server sample? The forced token of the request, else one that depends on everything held.

Sampler = Callable[[Sequence[int], Request, int], int]
SAMPLED = 1 << 40        # sampled tokens are numbered from here, so that no prompt word contains one by chance
WRONG = 1 << 41          # drafted tokens that are not the right ones are numbered from here


def forced_or_hashed(held: Sequence[int], request: Request, n_gen: int) -> int:
    """The request's forced token number n_gen; where there is none, a token that depends on everything held:
    the same conversation always goes on in the same way."""
    if request.forced is not None and n_gen < len(request.forced):
        return request.forced[n_gen]
    return SAMPLED + zlib.crc32(array("q", held).tobytes())


class CountingSampler:
    """A sampler whose choices are counted in the log; forced tokens are none."""

    def __init__(self, sampler: Sampler, log: Log) -> None:
        self.sampler, self.log = sampler, log

    def __call__(self, held: Sequence[int], request: Request, n_gen: int) -> int:
        """The token of the sampler. Raises BadInput when a run has too many."""
        if n_gen >= len(request.forced or ()):
            self.log.sample()
        return self.sampler(held, request, n_gen)


def forced_draft(sampler: Sampler, held: Sequence[int], request: Request, n_gen: int, right: int,
                 drafted: int) -> list[int]:
    """A draft behind ``held`` (the sampled token included): the first ``right`` tokens are what the sampler will say,
    the others are not."""
    tokens = list(held)
    for k in range(right):
        tokens.append(sampler(tokens, request, n_gen + k))
    return [*tokens[len(held) :], *(WRONG + k for k in range(drafted - right))]


SPECIAL = {96: "<|endoftext|>", 97: "<|im_start|>", 98: "<|im_end|>", 99: "<think>", 100: "</think>"}
THINK = (99, 100)
_PAIRS = [c + v for c in "BCDFGHJKLMNPQRSTVWXZ" for v in "aeiou"]
PIECES: tuple[str, ...] = (*(chr(32 + i) for i in range(95)), "\n", *SPECIAL.values(), *_PAIRS,
                           *(p + "n" for p in _PAIRS), *(p + "s" for p in _PAIRS[:19]))
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
