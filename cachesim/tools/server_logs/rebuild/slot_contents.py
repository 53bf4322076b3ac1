"""Slot contents as words: texts that are cut and continued, their notation, and estimates of common prefixes."""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import Iterable, NamedTuple

from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest

END = 4                      # tokens between the last checkpoint of a prompt and its end, in most engines
BATCHES = (64, 128, 256, 512, 1024, 2048, 4096)    # usual micro-batch sizes
UBATCH = 512                 # default micro-batch [tokens]
MOST = 64                    # values tried for a free variable, at most


def prefixes_by_threshold(logged: LoggedRequest, n_swa: int = 0) -> tuple[int, ...]:
    """Return the common prefixes that fit the threshold after `against`. For a memory with a window, the threshold is
    lower by the window size."""
    return tuple(dict.fromkeys(int(at) + n_swa + more for _, _, at in logged.checked[:1] for more in (0, 1)))


def prefix_by_shares(
    logged: LoggedRequest, contents: SlotText, n_tokens: int, n_swa: int = 0
) -> Iterable[tuple[int, str]]:
    """Return the lengths of the common prefix that print as these shares, most likely first, each with its assumption
    ("" if a single length fits). ``n_swa``: window size, 0 = unknown."""
    held = contents.size
    low, high = 0, min(held, n_tokens)
    known = logged.range_of("lcp")
    if known is not None and known.high is not None:
        low, high = max(low, known.low), min(high, known.high)
    for share, whole in ((logged.f_keep, held), (logged.f_sim, n_tokens)):
        if share is not None:
            low, high = max(low, _least(share, whole)), min(high, _most(share, whole))
    fits = range(low, high + 1)
    if len(fits) <= 1:
        return [(max(0, low), "")]
    likely = (*prefixes_by_threshold(logged, n_swa), logged.cache_n, contents.prompt, held, (low + high) // 2)
    preferred = [length for length in likely if length is not None and length in fits]
    order = dict.fromkeys([*preferred, *fits][:MOST])
    return [(lcp, f"a common prefix of {lcp} tokens ({low} to {high} print the same shares)") for lcp in order]


def _least(share: float, whole: int) -> int:
    """Return the smallest count whose share of ``whole`` prints as ``share`` with three decimals."""
    return max(0, -(-int((share * 1000 - 0.5) * whole) // 1000))


def _most(share: float, whole: int) -> int:
    """Return the largest count whose share of ``whole`` prints as ``share`` with three decimals."""
    return int((share * 1000 + 0.5) * whole) // 1000


def smallest_whole(share: float, part: int) -> int:
    """Return the smallest number of tokens of which ``part`` tokens may print as ``share`` with three decimals."""
    return ceil(part * 1000 / (share * 1000 + 0.5))


class WordRange(NamedTuple):
    """Tokens ``start`` to ``start + take`` of a word of ``full`` tokens."""

    word: str
    take: int
    full: int
    start: int = 0


class SlotText(NamedTuple):
    """Text as ranges of words. ``prompt``: number of its tokens that were the prompt of the request that left it."""

    parts: tuple[WordRange, ...] = ()
    prompt: int = 0

    @property
    def size(self) -> int:
        """Length in tokens."""
        return sum(part.take for part in self.parts)

    def prefix(self, tokens: int) -> SlotText:
        """Return the first ``tokens`` tokens, or all if there are fewer."""
        kept, left = [], tokens
        for part in self.parts:
            if left > 0:
                kept.append(part._replace(take=min(part.take, left)))
            left -= part.take
        return SlotText(tuple(kept), min(self.prompt, tokens))

    def append_piece(self, text: SlotText, start: int, stop: int) -> SlotText:
        """Return this text followed by the tokens ``start`` to ``stop`` of another."""
        parts, at = list(self.parts), 0
        for part in text.parts:
            low, high = max(start - at, 0), min(stop - at, part.take)
            if low < high:
                parts.append(part._replace(take=high - low, start=part.start + low))
            at += part.take
        return self._replace(parts=tuple(parts))

    def append_word(self, word: str, tokens: int) -> SlotText:
        """Return this text followed by a new word."""
        return self._replace(parts=(*self.parts, WordRange(word, tokens, tokens))) if tokens > 0 else self

    def notation(self, new: str = "", marks: Iterable[int] = ()) -> str:
        """Return the notation. The word ``new`` occurs for the first time and is written with its length. User messages
        begin at the tokens ``marks``."""
        cuts = sorted({0, self.size, *(mark for mark in marks if 0 < mark < self.size)})
        pieces = [SlotText().append_piece(self, start, stop) for start, stop in pairwise(cuts)]
        return ".|".join(".".join(f"{part.word}{_length(part, new)}" for part in piece.parts) for piece in pieces)


def _length(part: WordRange, new: str) -> str:
    cut = "" if part.take == part.full else f"[{part.start or ''}:{part.start + part.take}]"
    return f"{part.full}{cut}" if part.word == new else cut
