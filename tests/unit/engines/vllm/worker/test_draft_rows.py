"""Rows of the drafter: those that it reads must have been written before the same next token."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.vllm.kv_cache_interface import KVCacheGroupSpec
from cachesim.engines.vllm.worker.block_contents import BlockContents, cells_of
from cachesim.engines.vllm.worker.draft_rows import DraftRows, DraftRowsWrong
from cachesim.judging.judged_run import run_judged
from cachesim.model import parse
from cachesim.scenarios.from_notation import from_line
from tests.unit.engines.vllm.requests import chunk, worker_request

WRITTEN = [*range(100, 112)]


def rows_of(kind, window):
    """Return the rows of a drafter in blocks of four tokens, and what they report."""
    group, events = KVCacheGroupSpec(0, kind, 4, window, True, (0,)), []
    contents = BlockContents(parse("A"), [group], [group], {})
    return DraftRows(contents, [group], events.append), events


def chunk_of(token_ids, start, stop, blocks=(1, 2, 3)):
    """Return a chunk of a request with these blocks."""
    state = worker_request(5, token_ids)
    state.block_ids, state.cells = [[*blocks]], [cells_of(blocks, 4)]
    return chunk(state, start, stop)


def wrong_rows(kind, window, tokens, start):
    """Write the rows of a text, and read them for another one from ``start`` on."""
    rows, events = rows_of(kind, window)
    rows.mark(chunk_of(WRITTEN, 0, 11))
    rows.check(chunk_of(tokens, start, start + 1))
    return [(event.position, event.block) for event in events]


def test_rows_of_the_same_text_are_right():
    assert wrong_rows("full", 0, WRITTEN, 10) == []


def test_the_first_row_that_was_written_before_another_token_is_reported():
    assert wrong_rows("full", 0, [*WRITTEN[:6], 7, *WRITTEN[7:]], 10) == [(5, 2)]


# The marks of all tokens differ from the first other token on, so a text that differs in its first token alone shows
# which rows are read at all.

@pytest.mark.parametrize("kind, window, start, found", [
    ("full", 0, 9, [(0, 1)]), ("swa", 4, 9, [(6, 2)]), ("chunked", 4, 9, [(8, 3)]), ("chunked", 4, 8, []),
    ("chunked", 8, 9, [(8, 3)]), ("swa", 1, 9, []),
])  # fmt: skip
def test_only_the_rows_that_the_drafter_reads_count(kind, window, start, found):
    assert wrong_rows(kind, window, [7, *WRITTEN[1:]], start) == found


@pytest.mark.parametrize("model, groups", [("K8", ""), ("K8 A", "K8/4e A/4")])
@pytest.mark.parametrize("k", [1, 2])
def test_a_drafter_reads_no_row_before_its_chunk(model, groups, k):
    """Blocks before the chunk of the next token may be gone or belong to others."""
    server = {"block_size": 4, "speculative_method": "mtp", "num_speculative_tokens": k, "kv_groups": groups}
    case = from_line("A9>r12/A.r.B3>s4", model=model, profiles=("vllm@0.33.0",), server=server)
    run = run_judged(case, "vllm@0.33.0")
    assert run.verdict.equal_cold and not [event for event in run.log.events if isinstance(event, DraftRowsWrong)]


def test_the_content_of_the_null_block_is_a_wrong_row():
    rows, events = rows_of("full", 0)
    rows.mark(chunk_of(WRITTEN, 0, 11))
    rows.check(chunk_of(WRITTEN, 8, 9, blocks=(1, 0, 3)))
    assert [(event.position, event.block) for event in events] == [(4, 0)]
    assert not np.any(rows.kv_caches.rows[-1].digest[:4])


def test_the_last_known_token_has_no_row_yet():
    rows, events = rows_of("full", 0)
    rows.mark(chunk_of(WRITTEN, 0, 12))
    assert np.flatnonzero(rows.kv_caches.rows[-1].digest).tolist() == [*range(4, 15)], "cells of blocks 1 to 3"
    rows.check(chunk_of([*WRITTEN, 112], 12, 13))
    assert [(event.position, event.block) for event in events] == [(11, 3)]


def test_a_row_that_was_never_written_is_wrong_for_every_text():
    rows, events = rows_of("full", 0)
    rows.check(chunk_of([0] * 6, 4, 5))
    assert events == [DraftRowsWrong(5, 0, 0, 1)]


def test_each_group_of_the_drafter_has_rows_of_its_own():
    """Block 4 of the second group is zeroed after all rows were right."""
    groups, events = [KVCacheGroupSpec(number, "full", 4, 0, True, (0,)) for number in (0, 1)], []
    contents = BlockContents(parse("A"), groups[:1], groups, {})
    rows, part = DraftRows(contents, groups, events.append), chunk_of(WRITTEN, 0, 8)
    part.state.block_ids, part.state.cells = [[1, 2], [3, 4]], [cells_of([1, 2], 4), cells_of([3, 4], 4)]
    rows.mark(part)
    written = {layer: np.flatnonzero(kept.digest).tolist() for layer, kept in contents.rows.items()}
    assert written == {0: [], -1: [*range(4, 12)], -2: [*range(12, 20)]}
    part.start = 8
    rows.check(part)
    contents.change([4], [])
    rows.check(part)
    assert events == [DraftRowsWrong(5, 1, 4, 4)]
