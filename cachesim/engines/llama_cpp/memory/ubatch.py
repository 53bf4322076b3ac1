"""How does llama_decode cut a batch into micro-batches?

batch    the tokens of one llama_decode call, at most n_batch, of one or several sequences
ubatch   what is computed at once, at most n_ubatch tokens
run      consecutive tokens of one sequence inside a ubatch

Source: llama.cpp src/llama-batch.cpp, split_simple and split_equal (3f545be); spec 2.10.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Sequence

from cachesim.model import Run


@dataclass(slots=True)
class Batch:
    """Tokens waiting for llama_decode, four lists of equal length.

    ``out`` marks the tokens after which the model is asked to speak.
    """

    tokens: list[int] = field(default_factory=list)
    pos: list[int] = field(default_factory=list)
    seq: list[int] = field(default_factory=list)
    out: list[bool] = field(default_factory=list)

    def add(self, token: int, pos: int, seq: int, out: bool) -> None:
        """Append one token."""
        self.tokens.append(token)
        self.pos.append(pos)
        self.seq.append(seq)
        self.out.append(out)

    def extend(self, tokens: Sequence[int], pos0: int, seq: int) -> None:
        """Append consecutive tokens of one sequence, none of which speaks."""
        n = len(tokens)
        self.tokens.extend(tokens)
        self.pos.extend(range(pos0, pos0 + n))
        self.seq.extend([seq] * n)
        self.out.extend([False] * n)

    def __len__(self) -> int:
        return len(self.tokens)

    def view(self, off: int, n: int) -> Batch:
        """Tokens off .. off+n-1 as a batch of their own."""
        stop = off + n
        return Batch(self.tokens[off:stop], self.pos[off:stop], self.seq[off:stop], self.out[off:stop])


class Ubatch(NamedTuple):
    """Runs in the order in which cells are given to their tokens. ``at[k]`` is the place of run k's first
    token in the batch (its tokens are consecutive there); ``n`` is the number of tokens."""

    runs: tuple[Run, ...]
    at: tuple[int, ...]
    n: int


def runs_of(batch: Batch) -> list[tuple[int, int]]:
    """The batch as (start, stop) of maximal stretches of one sequence with consecutive positions."""
    seq, pos = batch.seq, batch.pos
    if not seq:
        return []
    if seq.count(seq[0]) == len(seq) and pos[-1] - pos[0] == len(pos) - 1:
        return [(0, len(seq))]
    cuts = [i for i in range(1, len(seq)) if seq[i] != seq[i - 1] or pos[i] != pos[i - 1] + 1]
    return list(zip([0, *cuts], [*cuts, len(seq)], strict=True))


def make_ubatch(batch: Batch, pieces: Sequence[tuple[int, int]]) -> Ubatch:
    """A ubatch of the given stretches of the batch."""
    runs = tuple(Run(batch.seq[a], batch.pos[a], batch.tokens[a:b]) for a, b in pieces)
    return Ubatch(runs, tuple(a for a, _ in pieces), sum(b - a for a, b in pieces))


def split_simple(batch: Batch, n_ubatch: int) -> list[Ubatch]:
    """The next n_ubatch tokens in batch order, whatever their sequence."""
    out, stretches = [], runs_of(batch)
    for start in range(0, len(batch), n_ubatch):
        stop = min(start + n_ubatch, len(batch))
        pieces = [(max(a, start), min(b, stop)) for a, b in stretches if a < stop and b > start]
        out.append(make_ubatch(batch, pieces))
    return out


def split_equal(batch: Batch, n_ubatch: int, sequential: bool, n_keep_tail: int = 0) -> list[Ubatch]:
    """Equally many tokens of each chosen sequence per ubatch.

    ``sequential`` admits only consecutive sequence ids beside each other. ``n_keep_tail`` tokens at the
    end of a sequence stay in one ubatch, so that all rollback planes are fresh.
    """
    todo = [[a, b] for a, b in runs_of(batch)]
    out = []
    while todo:
        chosen = _choose(batch, todo, n_ubatch, sequential)
        n = min(min(b - a for a, b in chosen), n_ubatch // len(chosen))
        if n_keep_tail:
            chosen, n = _keep_tails(chosen, n, n_ubatch, n_keep_tail)
        out.append(make_ubatch(batch, [(a, a + n) for a, _ in chosen]))
        for stretch in chosen:
            stretch[0] += n
        todo = [stretch for stretch in todo if stretch[0] < stretch[1]]
    return out


def _choose(batch: Batch, todo: list[list[int]], n_ubatch: int, sequential: bool) -> list[list[int]]:
    """The sequences of the next ubatch, in batch order, at most one stretch of each."""
    chosen: list[list[int]] = []
    seen: set[int] = set()
    last = -1
    for stretch in todo:
        seq = batch.seq[stretch[0]]
        if seq in seen or (sequential and chosen and seq != last + 1):
            continue
        chosen.append(stretch)
        seen.add(seq)
        last = seq
        if len(chosen) >= n_ubatch:
            break
    return chosen


def _keep_tails(
    chosen: list[list[int]], n: int, n_ubatch: int, keep: int
) -> tuple[list[list[int]], int]:
    """Drop the sequences whose cut would leave 1 .. keep-1 tokens; if that is the first one, move the cut."""

    def short(stretch: list[int]) -> bool:
        return 0 < stretch[1] - stretch[0] - n < keep

    if not short(chosen[0]):
        return [s for s in chosen if not short(s)], n
    first = chosen[0]
    left = first[1] - first[0]
    return [first], left if left <= n_ubatch else max(1, left - keep)
