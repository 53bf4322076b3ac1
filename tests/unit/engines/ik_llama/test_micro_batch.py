"""Rules about micro-batches: division of a window, cells that are read, zeroing of rows, retries."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.ik_llama.rules import micro_batch, repaired
from cachesim.engines.shared.batch import DecodeBatch, split_by


@pytest.mark.parametrize(("seqs", "hybrid", "dense"), [
    ([0, 0, 0], 3, 3),                 # a single sequence
    ([0, 1, 2], 3, 3),                 # several, each once
    ([0, 1, 1], 1, 3),                 # several, one of them twice
    ([1], 1, 1),
])  # fmt: skip
def test_only_hybrid_models_cut_a_window_that_mixes_sequences_and_repeats_one(seqs, hybrid, dense):
    assert micro_batch.split_repeated(True, seqs).value == hybrid
    assert micro_batch.split_repeated(False, seqs).value == dense


@pytest.mark.parametrize(("lengths", "expected"), [
    ((16, 50), [16, 16, 16, 16, 2]),
    ((14, 50), [*[1] * 14, 16, 16, 16, 2]),
    ((1, 40), [1, 16, 16, 8]),
])  # fmt: skip
def test_the_window_is_examined_again_after_each_micro_batch(lengths, expected):
    batch = DecodeBatch()
    for seq, n in enumerate(lengths):
        batch.extend(range(n), 0, seq)
    cut = list(split_by(batch, 16, lambda seqs: micro_batch.split_repeated(True, seqs).value))
    assert [ubatch.n for ubatch, _ in cut] == expected
    assert [short for _, short in cut] == [n == 1 for n in expected]
    assert [token for ubatch, _ in cut for run in ubatch.runs for token in run.tokens] == batch.tokens


@pytest.mark.parametrize("sequences", [1, 2, 4])
def test_a_row_is_zeroed_at_position_0_however_many_sequences_there_are(sequences):
    assert micro_batch.zero_at_start(0, sequences).value is True
    assert micro_batch.zero_at_start(5, sequences).value is False


def cells(size, *used):
    pos = np.full(size, -1)
    pos[[i for first, stop in used for i in range(first, stop)]] = 0
    return pos


@pytest.mark.parametrize(("used", "by_ends", "exact"), [
    (((0, 10),), 32, 32),
    (((0, 33),), 64, 64),              # cell 31 is used, 32 is in the block above it
    (((0, 10), (68, 78)), 32, 96),     # the last cells of all blocks are free
    (((0, 10), (57, 67)), 96, 96),     # cell 63 is used
    (((0, 10), (96, 128)), 128, 128),
    (((40, 50),), 32, 64),
    ((), 32, 32),
])  # fmt: skip
def test_used_cells_are_missed_above_blocks_whose_last_cell_is_free(used, by_ends, exact):
    pos = cells(128, *used)
    assert micro_batch.seen_by_block_ends(pos, 128, 32).value == by_ends
    assert micro_batch.seen_exact(pos, 128, 32).value == exact


def last_used(pos, size, pad):
    """Search as in the C source: block ends downwards, then the block above the first used block."""
    full = np.full(size, -1)
    full[: len(pos)] = pos
    last = size
    for i in range(size, 0, -pad):
        if full[i - 1] >= 0:
            above = [j for j in range(last, i, -1) if full[j - 1] >= 0]
            return above[0] if above else i
        last = i
    return 0


def test_the_rule_finds_what_a_search_cell_by_cell_finds():
    rng = np.random.default_rng(11)
    for _ in range(300):
        size, pad = 32 * int(rng.integers(1, 6)), 32
        pos = np.where(rng.random(int(rng.integers(1, size + 1))) < rng.choice([0.02, 0.2, 0.9]), 0, -1)
        last = last_used(pos, size, pad)
        assert micro_batch.seen_by_block_ends(pos, size, pad).value == min(size, max(pad, -(-last // pad) * pad))


def test_a_retry_begins_where_the_failed_attempt_began_or_behind_what_it_evaluated():
    assert micro_batch.next_attempt(5).value == 2 and micro_batch.next_attempt(1).value == 0
    assert micro_batch.again_from_view(32).value == 0
    assert repaired.again_from_rest(32).value == 32
