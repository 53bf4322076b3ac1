"""Tests of the inspection, the sizes and the sequences of a server with checkpoints and a prompt cache."""

from types import SimpleNamespace

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.engines.inspection import StoredBytes
from cachesim.engines.shared.checkpoint_inspection import CheckpointInspection, CheckpointSequences, CheckpointSizes


def checkpoint(n, size=10):
    return SimpleNamespace(facts=SimpleNamespace(n_tokens=n, size=size, pos_min=n - 4, pos_max=n - 1))


class Memory:
    """Positions of a sequence; a removal is refused at position 1."""

    def __init__(self):
        self.positions = [0, 1, 2, 3]
        self.is_broken = False

    def seq_rm(self, seq, p0, p1):
        if p0 == 1:
            return False
        self.positions = [pos for pos in self.positions if not p0 <= pos < p1]
        return True

    def check(self):
        if self.is_broken:
            raise Crash("broken")


class Inspection(CheckpointInspection):
    def stored(self, key, start=0):
        raise AssertionError("not asked")


class Sequences(CheckpointSequences):
    def held(self, seq):
        return np.array(self.core.memory.positions)


@pytest.fixture
def core():
    slots = [SimpleNamespace(checkpoints=[checkpoint(8), checkpoint(20)]), SimpleNamespace(checkpoints=[checkpoint(6)])]
    cache = SimpleNamespace(entries=[SimpleNamespace(size=300), SimpleNamespace(size=200)])
    settings = SimpleNamespace(max_checkpoints=2, limit_size=500, n_ctx_slot=64)
    return SimpleNamespace(slots=slots, cache=cache, settings=settings, memory=Memory(),
                           points=SimpleNamespace(kept=lambda: [("entry", -1, 3)]))  # fmt: skip


def test_checkpoints_are_listed_oldest_first(core):
    assert Inspection(core).checkpoints(0) == [8, 20]
    assert Sequences(core).checkpoint_spans(0) == [(4, 7), (16, 19)]
    assert Inspection(core).kept() == [("entry", -1, 3)]


def test_limits_are_exceeded_by_one_checkpoint_or_one_byte(core):
    inspection = Inspection(core)
    assert inspection.exceeded_limits() == []
    core.settings.max_checkpoints = 1
    assert [(one.held, one.most) for one in inspection.exceeded_limits()] == [(2, 1)]
    core.settings.max_checkpoints = 2
    core.settings.limit_size = 499
    assert [(one.held, one.most) for one in inspection.exceeded_limits()] == [(500, 499)]


def test_the_check_is_that_of_the_memory(core):
    Inspection(core).check()
    core.memory.is_broken = True
    with pytest.raises(Crash, match="broken"):
        Inspection(core).check()


def test_bytes_of_checkpoints_and_of_entries_are_sums(core):
    assert CheckpointSizes(core).stored_bytes() == StoredBytes(30, 500)
    assert CheckpointSizes(core).n_ctx_slot == 64
    core.cache = None
    assert CheckpointSizes(core).stored_bytes() == StoredBytes(30, 0)


def test_an_observer_gets_every_removal_with_its_result(core):
    sequences, removals = Sequences(core), []
    sequences.observe_removals(removals.append)
    assert core.memory.seq_rm(0, 1, 4) is False and core.memory.seq_rm(0, 2, 4) is True
    assert [(one.ok, one.before.tolist(), one.after.tolist()) for one in removals] == [
        (False, [0, 1, 2, 3], [0, 1, 2, 3]), (True, [0, 1, 2, 3], [0, 1]),
    ]  # fmt: skip
