"""Rows of the drafter, which also depend on the next token: kept as marks.

A mark is a number that stands for all tokens of a text up to a position, and the next one.
"""

from __future__ import annotations

from typing import Callable, Protocol, Sequence

import numpy as np

from cachesim.engines.shared.kv_rows import read_rows, write_rows
from cachesim.engines.vllm.kv_cache_interface import KVCacheGroupSpec
from cachesim.engines.vllm.worker.block_contents import BlockContents
from cachesim.events import Event, frozen
from cachesim.model import KVRows
from cachesim.model.hash_mixing import MASK


@frozen
class DraftRowsWrong(Event, ev="draft_rows_wrong", logged=False):
    """The drafter of a request reads a row that was written before another token: only its drafts suffer."""

    request: int
    group: int
    position: int
    block: int


class DraftingRequest(Protocol):
    """A request as the worker knows it, with the marks of its tokens."""

    req_id: int
    block_ids: list[list[int]]
    cells: list[np.ndarray]
    draft_marks: list[int]

    @property
    def token_ids(self) -> list[int]: ...


class DraftedChunk(Protocol):
    """Tokens of a request in a step, from position ``start`` on."""

    start: int

    @property
    def state(self) -> DraftingRequest: ...
    @property
    def num_accepted_end(self) -> int: ...


class DraftRows:
    """The rows of the drafter in groups. Those of a group are the rows of layer -1 - group."""

    def __init__(self, kv_caches: BlockContents, groups: Sequence[KVCacheGroupSpec],
                 emit: Callable[[Event], None]) -> None:
        self.kv_caches = kv_caches
        self.groups = groups
        self.emit = emit

    def mark(self, chunk: DraftedChunk) -> None:
        """Write the rows of a chunk."""
        state = chunk.state
        stop = min(chunk.num_accepted_end, len(state.token_ids) - 1)
        for group in self.groups:
            marks = prefix_marks(state, chunk.start, stop)
            cells = state.cells[group.group_id][chunk.start : stop]
            write_rows(self.kv_caches.rows, -1 - group.group_id, cells, KVRows(marks, None, None))

    def check(self, chunk: DraftedChunk) -> None:
        """Report the first row of each group that the drafter reads although it was written before another token."""
        state = chunk.state
        start = chunk.start
        for group in self.groups:
            first = group.first_read(start)
            want = prefix_marks(state, first, start)
            cells = state.cells[group.group_id][first:start]
            have = read_rows(self.kv_caches.rows[-1 - group.group_id], cells).digest
            for at in np.flatnonzero(want != have)[:1].tolist():
                block = state.block_ids[group.group_id][(first + at) // group.block_size]
                self.emit(DraftRowsWrong(state.req_id, group.group_id, first + at, block))


def prefix_marks(state: DraftingRequest, start: int, stop: int) -> np.ndarray:
    """Return the marks of positions start .. stop - 1 of a request's text."""
    marks = state.draft_marks
    for token in state.token_ids[len(marks) - 1 : stop + 1]:
        marks.append((marks[-1] * 0x5851F42D4C957F2D + token + 1) & MASK)
    return np.array(marks[start + 2 : stop + 2], np.uint64)
