"""States that find no room: what each memory keeps; batches that a memory cannot prepare."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import ProcessAborted
from cachesim.engines.llama_cpp.memory.saved_state import LOADING, AttentionState, StateReadError
from cachesim.engines.llama_cpp.memory.ubatch import BatchSplit, BuildTraits, DecodeBatch
from cachesim.engines.llama_cpp.profiles import PROFILES
from cachesim.engines.shared.slot_events import Error
from tests.unit.engines.llama_cpp.memory.helpers import World, held
from tests.unit.engines.llama_cpp.memory.test_newest_memories import NewestWorld

TEXT = "state_read_meta: failed to find 6 available cells in kv cache"


def refused(name, part, traits=None):
    """Return a memory in which ``part`` has no room for the state of six tokens that is read, and the error."""
    world = NewestWorld(name, traits, n_seq=2, unified=True, n_ctx_seq=16)
    world.go(0, n=6)
    blob = world.memory.state_write(0, partial=False)
    world.memory.seq_rm(0, 0)
    world.memory.parts[part].state_read(1, AttentionState(np.arange(12), {}))
    with pytest.raises(StateReadError) as error:
        world.memory.state_read(0, blob)
    return world, error.value


@pytest.mark.parametrize(("name", "part", "left"), [
    ("dsa", "base", {"base": 0, "idx": 0}), ("dsa", "idx", {"base": 6, "idx": 0}),
    ("msa", "idx", {"base": 6, "idx": 0}), ("dsa_iswa", "idx", {"base": 6, "idx": 0, "swa": 0}),
    ("hybrid_idx", "idx", {"base": 0, "idx": 0}),
])  # fmt: skip
def test_parts_that_were_read_are_kept_or_emptied(name, part, left):
    world, error = refused(name, part)
    assert {one: len(held(cache)) for one, cache in world.memory.parts.items()} == left
    assert error.lines == (TEXT, f"{LOADING} failed to restore kv cache")


def test_older_builds_do_not_log_how_many_cells_a_state_needs():
    """As the real b9294; b9538 does."""
    _, error = refused("dsa", "base", BuildTraits(no_cells_line=PROFILES["llama_cpp@b9231"].no_cells_line))
    assert error.lines[0] == "state_read_meta: failed to find available cells in kv cache"


def test_index_rows_that_cannot_be_read_empty_the_rows_of_a_build_that_undoes():
    world, _ = refused("dsa", "idx", BuildTraits(fail_undoes=True))
    assert {one: len(held(cache)) for one, cache in world.memory.parts.items()} == {"base": 0, "idx": 0}


@pytest.mark.parametrize("undoes", [False, True])
def test_a_hybrid_keeps_or_undoes_its_rows_if_the_state_cannot_be_read(undoes):
    world = NewestWorld("GA", BuildTraits(fail_undoes=undoes))
    world.go(n=6)
    blob = world.memory.state_write(0, partial=False)

    def no_room(*of):
        raise StateReadError("failed to find slot for recurrent state")

    world.memory.recr.state_read = no_room
    with pytest.raises(StateReadError, match="failed to find slot for recurrent state"):
        world.memory.state_read(0, blob)
    assert held(world.memory.parts["base"]) == ([] if undoes else [*range(6)])


def tokens(seq, n):
    batch = DecodeBatch()
    batch.extend(list(range(n)), 0, seq)
    return batch


@pytest.mark.parametrize(("kind", "errors"), [
    ("H", [Error("init_batch: failed to prepare recurrent ubatches")]), ("R", []),
])  # fmt: skip
def test_a_sequence_without_a_cell_cannot_be_prepared(kind, errors):
    world = World(kind)
    assert world.memory.init_batch(tokens(3, 2), 4) is None
    assert world.events == errors


@pytest.mark.parametrize(("n", "message"), [(4, "init_batch never ends"),
                                            (5, "Segmentation fault: no micro-batch to evaluate")])  # fmt: skip
def test_a_lost_batch_ends_the_process_or_is_never_answered(n, message):
    world = NewestWorld("SS", BuildTraits(split=lambda *of: BatchSplit(False, False, 0, True)))
    with pytest.raises(ProcessAborted) as end:
        world.memory.init_batch(tokens(0, n), 4)
    assert (str(end.value), end.value.numbers) == (message, {"n": n})


@pytest.mark.parametrize(("traits", "sizes"), [
    (BatchSplit(True, False, 0), [4, 2, 4, 1]), (BatchSplit(False, False, 0), [4, 4, 2, 1]),
])  # fmt: skip
def test_a_recurrent_batch_is_split_as_the_build_says(traits, sizes):
    world = NewestWorld("SS", BuildTraits(split=lambda *of: traits), n_seq=2)
    batch = tokens(0, 6)
    batch.extend(list(range(5)), 0, 1)
    assert [placed.ubatch.n for placed in world.memory.init_batch(batch, 4)] == sizes


def test_a_window_tries_the_simple_split_first():
    world = World("W", n_seq=2, unified=True, n_ctx_seq=64)
    batch = tokens(0, 5)
    batch.extend([0], 0, 1)
    assert [placed.ubatch.n for placed in world.memory.init_batch(batch, 4)] == [4, 2]


def test_operations_reach_every_part():
    world = World("H", n_seq=3)
    for seq in range(3):
        world.go(seq, n=5)
    world.memory.seq_div(0, 0, 9, 2)
    assert (world.memory.parts["base"].cells(0).pos[:5].tolist(), world.memory.recr.pos_max(0)) == ([0, 0, 1, 1, 2], 2)
    world.memory.seq_add(1, 2, 9, 3)
    assert (held(world.memory.parts["base"], 1), world.memory.recr.pos_max(1)) == ([0, 1, 5, 6, 7], 7)
    world.memory.seq_cp(1, 2)
    assert (held(world.memory.parts["base"], 2), world.range(2)) == ([0, 1, 5, 6, 7], (7, 7))
    world.memory.seq_keep(2)
    assert [world.memory.recr.pos_max(seq) for seq in range(3)] == [-1, -1, 7]
    world.memory.clear()
    assert world.range(2) == (-1, -1) and held(world.memory.parts["base"], 2) == []
