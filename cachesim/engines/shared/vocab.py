"""The 320-token vocabulary of the recorded tiny models, and samplers that force or choose tokens.

0..94 printable ASCII from the space on, 95 newline, 96 end of text, 97 and 98 message start and end, 99 and 100 think
tags, 101..200 a consonant and a vowel, 201..319 a consonant, a vowel and a third letter. Source: tokenizer.ggml.tokens
of the recorded models; cachesim/replay/FORMAT.md.
"""

from __future__ import annotations

import zlib
from array import array
from typing import Callable, Iterable, Sequence

from cachesim.engines.base import Request
from cachesim.events import Log

Sampler = Callable[[Sequence[int], Request, int], int]
SAMPLED = 1 << 40        # first number of sampled tokens, above all tokens of prompts
WRONG = 1 << 41          # first number of rejected drafted tokens


REMEMBERED = 1 << 20     # tokens of the last list that a GrowingHash keeps, at most


class GrowingHash:
    """CRC-32 of lists of tokens, each token as 64 bits. It reads only the tokens after those of the last call if a list
    begins with them: a list grows by a token from call to call."""

    def __init__(self) -> None:
        self._last: tuple[Sequence[int], int] = [], 0      # tokens of the last call, and their CRC

    def __call__(self, tokens: Sequence[int]) -> int:
        """Return the CRC of these tokens."""
        known, crc = self._last
        if tokens[: len(known)] != known:
            known, crc = [], 0
        crc = zlib.crc32(array("q", tokens[len(known) :]).tobytes(), crc)
        if len(tokens) <= REMEMBERED:
            self._last = tokens[:], crc
        return crc


hash_of = GrowingHash()


def forced_or_hashed(held: Sequence[int], request: Request, n_gen: int) -> int:
    """Return the request's forced token number ``n_gen``. Without a forced token, return a token derived from a CRC of
    all tokens held, so that equal conversations continue equally."""
    if request.forced is not None and n_gen < len(request.forced):
        return request.forced[n_gen]
    return SAMPLED + hash_of(held)


class CountingSampler:
    """A sampler whose unforced choices are counted in the log."""

    def __init__(self, sampler: Sampler, log: Log) -> None:
        self.sampler, self.log = sampler, log

    def __call__(self, held: Sequence[int], request: Request, n_gen: int) -> int:
        """Return the token of the sampler. Raise BadInput if a run has too many."""
        if n_gen >= len(request.forced or ()):
            self.log.sample()
        return self.sampler(held, request, n_gen)

    def given_tokens(self, request: Request, n_gen: int) -> Sequence[int]:
        """Return the forced tokens of the request from number ``n_gen`` on; () for a sampler that may choose others."""
        if request.forced is None or self.sampler is not forced_or_hashed:
            return ()
        return request.forced[n_gen:]


def forced_draft(sampler: Sampler, held: Sequence[int], request: Request, n_gen: int, right: int,
                 drafted: int) -> list[int]:
    """Return a draft after ``held`` (which includes the sampled token): the first ``right`` tokens are those that the
    sampler will choose, the others are wrong."""
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
"""Tokens whose text may contain the start of a think tag."""


def recorded_piece(token: int) -> str:
    """Return the text of a token; a token outside the vocabulary gets a unique text that begins with a NUL."""
    return PIECES[token] if token < len(PIECES) else unique_piece(token)


def plain_text(tokens: Iterable[int]) -> str:
    """Return the text of tokens as an answer shows it: special tokens are omitted."""
    return "".join("" if token in SPECIAL else recorded_piece(token) for token in tokens)


def unique_piece(token: int) -> str:
    """Return a text that is not a prefix of any other token's text."""
    return f"\0{token}\0"
