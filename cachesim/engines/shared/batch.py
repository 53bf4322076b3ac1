"""Tokens that wait for a decode call, and their division into micro-batches in batch order.

batch    the tokens of a decode call, of any number of sequences
ubatch   the tokens that are computed at once
run      consecutive tokens of a sequence inside a ubatch

Source: llama.cpp src/llama-batch.cpp split_simple (3f545be); ik_llama.cpp src/llama.cpp llama_decode.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Iterator, NamedTuple, Sequence

import numpy as np

from cachesim.events import MicroBatch
from cachesim.model import HiddenOutput, Model, TokenRun


@dataclass(slots=True)
class DecodeBatch:
    """Tokens that wait for llama_decode, as four lists of equal length. ``out`` marks the tokens that need an
    output."""

    tokens: list[int] = field(default_factory=list)
    pos: list[int] = field(default_factory=list)
    seq: list[int] = field(default_factory=list)
    out: list[bool] = field(default_factory=list)

    def add(self, token: int, pos: int, seq: int, out: bool) -> None:
        """Append a token."""
        self.tokens.append(token)
        self.pos.append(pos)
        self.seq.append(seq)
        self.out.append(out)

    def extend(self, tokens: Sequence[int], pos0: int, seq: int) -> None:
        """Append consecutive tokens of a sequence, without outputs."""
        n = len(tokens)
        self.tokens.extend(tokens)
        self.pos.extend(range(pos0, pos0 + n))
        self.seq.extend([seq] * n)
        self.out.extend([False] * n)

    def __len__(self) -> int:
        return len(self.tokens)

    def view(self, off: int, n: int) -> DecodeBatch:
        """Return tokens off .. off+n-1 as a separate batch."""
        stop = off + n
        return DecodeBatch(self.tokens[off:stop], self.pos[off:stop], self.seq[off:stop], self.out[off:stop])


class Ubatch(NamedTuple):
    """Runs in the order in which their tokens get cells. ``at[k]``: index in the batch of the first token of run k,
    whose tokens are consecutive there; ``n``: number of tokens."""

    runs: tuple[TokenRun, ...]
    at: tuple[int, ...]
    n: int


def micro_batch(model: str, ubatch: Ubatch) -> MicroBatch:
    """Return the event of a ubatch of the "target" or "draft" model."""
    return MicroBatch(model, tuple([(run.seq, run.pos0, len(run.tokens)) for run in ubatch.runs]))


def single_token(model: str, seq: int, pos: int) -> MicroBatch:
    """Return the event of a ubatch of a single token."""
    return MicroBatch(model, ((seq, pos, 1),))


def runs_of(batch: DecodeBatch) -> list[tuple[int, int]]:
    """Return the batch as (start, stop) of maximal runs of a sequence with consecutive positions."""
    seq, pos = batch.seq, batch.pos
    if not seq:
        return []
    if seq.count(seq[0]) == len(seq) and pos[-1] - pos[0] == len(pos) - 1:
        return [(0, len(seq))]
    cuts = [i for i in range(1, len(seq)) if seq[i] != seq[i - 1] or pos[i] != pos[i - 1] + 1]
    return list(zip([0, *cuts], [*cuts, len(seq)], strict=True))


def make_ubatch(batch: DecodeBatch, pieces: Sequence[tuple[int, int]]) -> Ubatch:
    """Return a ubatch of the given ranges of the batch."""
    runs = tuple(TokenRun(batch.seq[a], batch.pos[a], batch.tokens[a:b]) for a, b in pieces)
    return Ubatch(runs, tuple(a for a, _ in pieces), sum(b - a for a, b in pieces))


def split_simple(batch: DecodeBatch, n_ubatch: int) -> list[Ubatch]:
    """Divide the batch into ubatches of at most ``n_ubatch`` tokens in batch order, regardless of sequences."""
    return [ubatch for ubatch, _ in split_by(batch, n_ubatch, len)]


def split_by(batch: DecodeBatch, n_ubatch: int, take: Callable[[Sequence[int]], int]) -> Iterator[tuple[Ubatch, bool]]:
    """Yield micro-batches in batch order, each with a flag for "shorter than its window". A window has ``n_ubatch``
    tokens; ``take`` gets their sequences and returns the number of tokens to use. The next window begins after them."""
    stretches = runs_of(batch)
    start = 0
    n = len(batch)
    while start < n:
        window = min(n_ubatch, n - start)
        stop = start + take(batch.seq[start : start + window])
        pieces = [(max(a, start), min(b, stop)) for a, b in stretches if a < stop and b > start]
        yield make_ubatch(batch, pieces), stop - start < window
        start = stop


class TokenOutput(NamedTuple):
    """Model output after a token of the batch: final provenance, and logits (None without arithmetic)."""

    digest: int
    logits: np.ndarray | None


def read_outputs(
    model: Model, batch: DecodeBatch, ubatch: Ubatch, hidden: Sequence[HiddenOutput]
) -> dict[int, TokenOutput]:
    """Return index in the batch -> output, for the marked tokens of a micro-batch."""
    found: dict[int, TokenOutput] = {}
    for run, at, states in zip(ubatch.runs, ubatch.at, hidden, strict=True):
        marked = batch.out[at : at + len(run.tokens)]
        if True not in marked:
            continue
        wanted = [k for k, out in enumerate(marked) if out]
        logits = model.readout(states.x[wanted]) if states.x is not None else None
        for row, k in enumerate(wanted):
            found[at + k] = TokenOutput(int(states.digest[k]), None if logits is None else logits[row])
    return found


def join_runs(parts: Sequence[HiddenOutput]) -> HiddenOutput:
    """Return the hidden states of a run that was evaluated in several parts."""
    x = None if parts[0].x is None else np.concatenate([part.x for part in parts if part.x is not None])
    return HiddenOutput(np.concatenate([part.digest for part in parts]), x)
