"""How does llama_decode cut a batch into micro-batches?

Source: llama.cpp src/llama-batch.cpp, split_simple, split_seq and split_equal (3f545be).
"""

from __future__ import annotations

from itertools import accumulate, takewhile
from typing import Callable, NamedTuple, Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.engines.llama_cpp.memory.cell_ranges import Found
from cachesim.engines.shared.batch import DecodeBatch, Ubatch, make_ubatch, runs_of, split_simple


class Split(NamedTuple):
    """How a memory with recurrent layers cuts a batch. ``alone``: one sequence per ubatch; otherwise equally many
    tokens of several sequences, of consecutive ids only if ``sequential``, with the last ``n_keep_tail`` tokens of a
    sequence in one ubatch."""

    alone: bool
    sequential: bool
    n_keep_tail: int


def split_any(n_rs_seq: int, attention: bool, unified: bool) -> Split:
    """Equal splits that know nothing of rollback planes."""
    return Split(False, not (attention and unified), 0)


# What builds do differently with cells and batches, inside a memory.

class Habits(NamedTuple):
    """What builds do differently with cells. ``together``: a saved state is read into neighbouring cells, and the
    search for free cells goes on at the first of them. ``purge_stays``: when a batch that was tried out is taken back,
    the cells purged beside those it used stay purged. ``fail_undoes``: a hybrid state whose recurrent part cannot be
    read is given up whole. ``copy_waits``: the rows of a copy between streams are copied by the next decode.
    ``full_forgets``: a window cache of full size, too, takes cells outside of the window for new tokens and leaves them
    out of a saved state. ``shift_dies``: the process ends where cells have moved in a cache without layers. ``split``:
    how a memory with recurrent layers cuts a batch, by its rollback planes, whether it has attention layers too, and
    whether all sequences share one buffer."""

    together: bool = False
    purge_stays: bool = False
    fail_undoes: bool = False
    copy_waits: bool = True
    full_forgets: bool = True
    shift_dies: bool = True
    split: Callable[[int, bool, bool], Split] = split_any


def split_seq(batch: DecodeBatch, n_ubatch: int) -> list[Ubatch]:
    """At most n_ubatch tokens of one sequence per ubatch, in batch order."""
    return [
        make_ubatch(batch, [(at, min(at + n_ubatch, stop))])
        for start, stop in runs_of(batch) for at in range(start, stop, n_ubatch)
    ]


def split_equal(batch: DecodeBatch, n_ubatch: int, sequential: bool, n_keep_tail: int = 0) -> list[Ubatch]:
    """Equally many tokens of each chosen sequence per ubatch.

    ``sequential`` admits only consecutive sequence ids beside each other. ``n_keep_tail`` tokens at the
    end of a sequence stay in one ubatch, so that all rollback planes are fresh. Raises Aborted where an ubatch cannot
    hold more than that.
    """
    if n_keep_tail and n_ubatch <= n_keep_tail:
        raise ProcessAborted("GGML_ASSERT(n_ubatch > n_keep_tail) failed", "micro-batch-shorter-than-the-tail")
    todo = [[a, b] for a, b in runs_of(batch)]
    if len(todo) == 1 and not n_keep_tail:
        return split_seq(batch, n_ubatch)                  # one sequence is cut alike, as a rule
    out = []
    while todo:
        chosen = _choose(batch, todo, n_ubatch, sequential)
        n = min(min(b - a for a, b in chosen), max(1, n_ubatch // len(chosen)))
        if n_keep_tail:
            chosen, n = _keep_tails(chosen, n, n_ubatch, n_keep_tail)
        out.append(make_ubatch(batch, [(a, a + n) for a, _ in chosen]))
        for stretch in chosen:
            stretch[0] += n
        todo = [stretch for stretch in todo if stretch[0] < stretch[1]]
    return out


def _choose(batch: DecodeBatch, todo: list[list[int]], n_ubatch: int, sequential: bool) -> list[list[int]]:
    """The sequences of the next ubatch, in batch order, at most one stretch of each. One more than n_ubatch is let in,
    and the ubatch then has one token too many, as in the engine."""
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
        if len(chosen) > n_ubatch:
            break
    return chosen


def _keep_tails(chosen: list[list[int]], n: int, n_ubatch: int, keep: int) -> tuple[list[list[int]], int]:
    """Drop the first sequence whose cut would leave 1 .. keep-1 tokens, and all behind it; if it is the very first,
    move its cut."""

    def short(stretch: list[int]) -> bool:
        return 0 < stretch[1] - stretch[0] - n < keep

    if not short(chosen[0]):
        return list(takewhile(lambda stretch: not short(stretch), chosen)), n
    first = chosen[0]
    left = first[1] - first[0]
    return [first], left if left <= n_ubatch else left - keep


def in_order(seqs: Sequence[int]) -> None:
    """Raise Aborted unless the streams of a ubatch are consecutive: the buffers of all are viewed as one tensor."""
    if list(seqs) != sorted(seqs):
        raise ProcessAborted("GGML_ASSERT(ubatch.seq_id [s*n_tokens][0] == seq_id) failed", "streams-out-of-order")
    if seqs[-1] - seqs[0] >= len(seqs):
        raise ProcessAborted("GGML_ASSERT(ggml_can_mul_mat(k, q)) failed", "streams-with-a-gap")


def by_run(cells: Found, ubatch: Ubatch) -> list[Found]:
    """The cells of each run of a ubatch, one run after the other."""
    if len(ubatch.runs) == 1:
        return [cells]
    stops = accumulate(len(run.tokens) for run in ubatch.runs)
    return [cells[stop - len(run.tokens) : stop] for run, stop in zip(ubatch.runs, stops, strict=True)]


__all__ = ["DecodeBatch", "Habits", "Split", "Ubatch", "by_run", "in_order", "make_ubatch", "runs_of", "split_equal",
           "split_seq", "split_simple"]  # fmt: skip
