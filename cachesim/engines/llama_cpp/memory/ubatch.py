"""Micro-batches of llama_decode: the ways to split a batch.

Source: llama.cpp src/llama-batch.cpp, split_simple, split_seq and split_equal (3f545be).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Callable, NamedTuple, Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.engines.llama_cpp.memory.cell_ranges import Found
from cachesim.engines.shared.batch import DecodeBatch, Ubatch, make_ubatch, runs_of, split_simple


class BatchSplit(NamedTuple):
    """Split of a batch for a memory with recurrent layers. ``alone``: a single sequence per ubatch. Otherwise each
    ubatch has equally many tokens of several sequences, with consecutive ids only if ``sequential``, and the last
    ``n_keep_tail`` tokens of a sequence stay in the same ubatch."""

    alone: bool
    sequential: bool
    n_keep_tail: int
    lost: bool = False           # a batch of several ubatches is lost


def split_any(n_rs_seq: int, attention: bool, unified: bool) -> BatchSplit:
    """Return equal splits that ignore rollback planes."""
    return BatchSplit(False, not (attention and unified), 0)


# Differences between builds in cells and batches.

@dataclass(frozen=True)
class BuildTraits:
    """Behaviour of cells and batches that differs between builds."""

    together: bool = False       # state_read uses adjacent cells; ``head`` is set to the first of them
    purge_stays: bool = False    # undoing a trial restores only its own cells; other cells that it purged stay purged
    fail_undoes: bool = False    # a hybrid state whose recurrent part cannot be read is removed as a whole
    copy_waits: bool = True      # the next decode copies the rows of a copy between streams
    full_forgets: bool = True    # a full-size window cache reuses cells outside the window and does not save them
    shift_dies: bool = True      # the process aborts if cells have moved in a cache without layers
    shared_stays: bool = True    # a cell that several sequences use is not reused, though none of them can see it
    turn_first: bool = False     # a K-shift turns only the first stream, by the shifts of the last
    mask_model: bool = False     # the full-attention cache also reuses cells outside the model's window
    pos_set: bool = False        # positions of a sequence are a set: see Cells.tracks_set
    index_spoilt: bool = True    # a K-shift spoils index keys that are stored behind a rotation of the whole head (dsa)
    index_dies: bool = False     # a K-shift of index keys ends the process (dsa)
    pools_cut: bool = False      # what a token reads of pooled rows depends on their cells
    rows_emptied: bool = False   # reading a state empties the compressed rows of all sequences
    shift_ends: bool = False     # a K-shift of quantized rows ends the process
    unchecked: bool = False      # a batch need not continue the contents of the memory
    mrope: str = "fixed"         # 2-D positions: "fixed" in their places, "moves", or "ends" the process if moved
    no_cells_line: str = "failed to find {n} available cells in kv cache"     # a state of ``n`` cells finds no room
    tail_stays: bool = False     # a removed recurrent state leaves its sequence pointing to the emptied cell
    # Split for (rollback planes, attention layers present, a common buffer for all sequences):
    split: Callable[[int, bool, bool], BatchSplit] = split_any
    # Plane of a state, for (tokens back, planes of a pending rollback, tokens after the planes, planes); 0 = none:
    plane: Callable[[int, int, int, int], int] = lambda back, pending, since, written: back
    # Plane that a saved state is read from, for the planes of a pending rollback; -1 = the process ends:
    saved_plane: Callable[[int], int] = lambda pending: pending


def split_seq(batch: DecodeBatch, n_ubatch: int) -> list[Ubatch]:
    """Split into ubatches of at most n_ubatch tokens of a sequence, in batch order."""
    return [
        make_ubatch(batch, [(at, min(at + n_ubatch, stop))])
        for start, stop in runs_of(batch) for at in range(start, stop, n_ubatch)
    ]


def split_equal(batch: DecodeBatch, n_ubatch: int, sequential: bool, n_keep_tail: int = 0) -> list[Ubatch]:
    """Split into ubatches with equally many tokens of each chosen sequence.

    ``sequential``: a ubatch contains only consecutive sequence ids. ``n_keep_tail``: that many tokens at the end of a
    sequence stay in the same ubatch, so that it writes all rollback planes. Raise ProcessAborted if a ubatch cannot
    hold more than these.
    """
    if n_keep_tail and n_ubatch <= n_keep_tail:
        raise ProcessAborted("GGML_ASSERT(n_ubatch > n_keep_tail) failed", "micro-batch-shorter-than-the-tail")
    todo = [[a, b] for a, b in runs_of(batch)]
    if len(todo) == 1 and not n_keep_tail:
        return split_seq(batch, n_ubatch)                  # equal for a single sequence
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
    """Return the sequences of the next ubatch in batch order, at most a stretch of each. As in the engine, n_ubatch +
    1 sequences are accepted; the ubatch then has a token too many."""
    chosen: list[list[int]] = []
    seen: set[int] = set()
    for stretch in todo:
        seq = batch.seq[stretch[0]]
        if seq in seen or (sequential and chosen and seq != batch.seq[chosen[-1][0]] + 1):
            continue
        chosen.append(stretch)
        seen.add(seq)
        if len(chosen) > n_ubatch:
            break
    return chosen


def _keep_tails(chosen: list[list[int]], n: int, n_ubatch: int, keep: int) -> tuple[list[list[int]], int]:
    """Drop the first sequence whose cut would leave 1 .. keep-1 tokens, and all after it. If it is the first sequence
    of the ubatch, move its cut instead. Return the sequences and the tokens of each."""

    def short(stretch: list[int]) -> bool:
        return 0 < stretch[1] - stretch[0] - n < keep

    if not short(chosen[0]):
        return list(takewhile(lambda stretch: not short(stretch), chosen)), n
    first = chosen[0]
    left = first[1] - first[0]
    return [first], left if left <= n_ubatch else left - keep


def check_stream_order(seqs: Sequence[int]) -> None:
    """Raise ProcessAborted unless the streams of a ubatch are consecutive: the engine views their buffers as a
    tensor."""
    if list(seqs) != sorted(seqs):
        raise ProcessAborted("GGML_ASSERT(ubatch.seq_id [s*n_tokens][0] == seq_id) failed", "streams-out-of-order")
    if seqs[-1] - seqs[0] >= len(seqs):
        raise ProcessAborted("GGML_ASSERT(ggml_can_mul_mat(k, q)) failed", "streams-with-a-gap")


def split_by_run(cells: Found, ubatch: Ubatch) -> list[Found]:
    """Split the cells of a ubatch by run."""
    if len(ubatch.runs) == 1:
        return [cells]
    stops = accumulate(len(run.tokens) for run in ubatch.runs)
    return [cells[stop - len(run.tokens) : stop] for run, stop in zip(ubatch.runs, stops, strict=True)]


__all__ = [
    "BatchSplit",
    "BuildTraits",
    "DecodeBatch",
    "Ubatch",
    "check_stream_order",
    "make_ubatch",
    "runs_of",
    "split_by_run",
    "split_equal",
    "split_seq",
    "split_simple",
]  # fmt: skip
