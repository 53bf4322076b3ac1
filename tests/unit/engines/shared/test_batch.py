"""Tokens of a decode call, their runs, and their division into micro-batches."""

import numpy as np
import pytest

from cachesim.engines.shared.batch import (
    DecodeBatch,
    join_runs,
    make_ubatch,
    micro_batch,
    read_outputs,
    runs_of,
    split_by,
    split_simple,
)
from cachesim.events import MicroBatch
from cachesim.model import HiddenOutput, TokenRun


def batch(*parts):
    """A batch of parts (sequence, first position, tokens); the last token of each needs an output."""
    found = DecodeBatch()
    for seq, pos, n in parts:
        found.extend(range(100 * seq + pos, 100 * seq + pos + n - 1), pos, seq)
        found.add(100 * seq + pos + n - 1, pos + n - 1, seq, True)
    return found


@pytest.mark.parametrize(("parts", "runs"), [
    ((), []), (((0, 0, 3),), [(0, 3)]), (((0, 5, 1),), [(0, 1)]), (((0, 0, 2), (1, 2, 2)), [(0, 2), (2, 4)]),
    (((0, 0, 2), (0, 4, 1)), [(0, 2), (2, 3)]), (((0, 4, 1), (0, 0, 2)), [(0, 1), (1, 3)]),
    (((0, 0, 2), (1, 0, 1), (0, 2, 1)), [(0, 2), (2, 3), (3, 4)]), (((0, 0, 1), (1, 1, 1)), [(0, 1), (1, 2)]),
    (((0, 0, 2), (0, 2, 2)), [(0, 4)]),
])  # fmt: skip
def test_a_run_has_one_sequence_and_consecutive_positions(parts, runs):
    assert runs_of(batch(*parts)) == runs


def test_a_view_is_a_batch_of_its_own():
    whole = batch((0, 0, 3), (1, 7, 2))
    part = whole.view(2, 2)
    assert (part.tokens, part.pos, part.seq, part.out) == ([2, 107], [2, 7], [0, 1], [True, False])
    part.add(9, 9, 9, True)
    assert (len(whole), len(part)) == (5, 3)


def test_a_batch_is_divided_in_order_regardless_of_sequences():
    first, second = split_simple(batch((0, 0, 3), (1, 7, 2)), 4)
    assert (first.runs, first.at, first.n) == ((TokenRun(0, 0, [0, 1, 2]), TokenRun(1, 7, [107])), (0, 3), 4)
    assert (second.runs, second.at, second.n) == ((TokenRun(1, 8, [108]),), (4,), 1)
    assert micro_batch("draft", first) == MicroBatch("draft", ((0, 0, 3), (1, 7, 1)))


def test_a_shorter_micro_batch_is_flagged_and_the_next_begins_after_it():
    def until_another(seqs):
        return next((at for at, seq in enumerate(seqs) if seq != seqs[0]), len(seqs))

    found = [(ubatch.at, ubatch.n, is_short) for ubatch, is_short in split_by(batch((0, 0, 3), (1, 0, 3)), 4,
                                                                             until_another)]  # fmt: skip
    assert found == [((0,), 3, True), ((3,), 3, False)]


class Doubling:
    """A model whose readout doubles the hidden state."""

    def readout(self, x):
        return 2 * x


def test_only_marked_tokens_have_an_output():
    held = batch((0, 0, 3), (1, 7, 1), (2, 0, 1))
    held.out[4] = False
    ubatch = make_ubatch(held, [(0, 3), (3, 4), (4, 5)])
    digests = [HiddenOutput(np.array(run, np.uint64), None) for run in ([1, 2, 3], [4], [5])]
    assert read_outputs(Doubling(), held, ubatch, digests) == {2: (3, None), 3: (4, None)}
    held.out[2], held.out[4] = False, True
    assert read_outputs(Doubling(), held, ubatch, digests) == {3: (4, None), 4: (5, None)}
    held.out[2], held.out[4] = True, False
    held.out[0] = True
    hidden = [part._replace(x=10.0 * part.digest) for part in digests]
    assert read_outputs(Doubling(), held, ubatch, hidden) == {0: (1, 20.0), 2: (3, 60.0), 3: (4, 80.0)}


def test_the_parts_of_a_run_are_joined():
    parts = [HiddenOutput(np.array([1, 2]), np.array([[1.0], [2.0]])), HiddenOutput(np.array([3]), np.array([[3.0]]))]
    joined = join_runs(parts)
    assert (joined.digest.tolist(), joined.x.tolist()) == ([1, 2, 3], [[1.0], [2.0], [3.0]])
    assert join_runs([part._replace(x=None) for part in parts]).x is None
