"""Deferred tokens of a context: their cells, the conditions, and the outputs that they have when they are evaluated."""

from __future__ import annotations

import pytest

from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.recurrent_cells import as_index
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch
from cachesim.events import MicroBatch
from tests.unit.engines.llama_cpp.memory.helpers import KINDS, World, held


def token(pos, seq=0):
    return DecodeBatch([100 + pos], [pos], [seq], [True])


def decoded(world, first, n):
    """Return the outputs of tokens that are decoded one at a time."""
    out = []
    for pos in range(first, first + n):
        assert world.context.decode(token(pos)) == 0
        out.append(world.context.spoken[0].digest)
    return out


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_deferred_tokens_have_the_outputs_of_decoded_ones(kind):
    plain, mine = World(kind), World(kind)
    plain.go(n=4), mine.go(n=4)
    assert [mine.context.defer_token(token(pos)) for pos in (4, 5, 6)] == [True] * 3
    assert (mine.context.n_deferred, mine.context.spoken, mine.memory.pos_max(0)) == (3, {}, 6)
    assert mine.events[-3:] == [MicroBatch("target", ((0, pos, 1),)) for pos in (4, 5, 6)]
    said = mine.context.flush_deferred()
    assert [one.digest for one in said] == decoded(plain, 4, 3) and mine.context.n_deferred == 0
    assert [*mine.context.spoken.values()] == said and mine.context.flush_deferred() == []
    assert decoded(mine, 7, 2) == decoded(plain, 7, 2) and mine.range() == plain.range()


def test_a_token_of_an_empty_memory_is_deferred_at_any_position_after_none():
    world = World("A")
    assert world.context.defer_token(token(0)) and not world.context.defer_token(token(2))
    assert world.context.defer_token(token(1)) and world.context.n_deferred == 2


@pytest.mark.parametrize("kind, batch", [
    ("A", token(5)), ("A", token(3)), ("A", token(0, seq=1)), ("A", DecodeBatch([1, 2], [4, 5], [0, 0], [False, True])),
    ("A", DecodeBatch()), ("R", token(0, seq=1)),
])  # fmt: skip
def test_what_does_not_continue_the_deferred_tokens_is_not_deferred(kind, batch):
    world = World(kind, n_seq=2, unified=True)
    world.go(n=3)
    assert world.context.defer_token(token(3))
    before = len(world.events)
    assert not world.context.defer_token(batch)
    assert (world.context.n_deferred, len(world.events), world.memory.pos_max(0)) == (1, before, 3)


def test_a_shared_state_is_not_deferred_and_a_pending_copy_neither():
    shared = World("R", n_seq=2)
    shared.go(n=3)
    shared.memory.seq_cp(0, 1)
    assert not shared.context.defer_token(token(3))
    copied = World("A", n_seq=2)
    copied.go(n=3)
    copied.memory.seq_cp(0, 1)
    assert not copied.context.defer_token(token(3, seq=1))
    copied.memory.init_update()
    assert copied.context.defer_token(token(3, seq=1))


def test_a_moved_sequence_is_not_deferred():
    world = World("A")
    world.go(n=6)
    world.memory.seq_rm(0, 0, 2)
    world.memory.seq_add(0, 2, POS_INF, -2)
    assert not world.context.defer_token(token(4))
    world.memory.init_update()
    assert world.context.defer_token(token(4))


def test_a_full_cache_defers_nothing():
    world = World("A", n_ctx_seq=16)
    world.go(n=15)
    assert [world.context.defer_token(token(pos)) for pos in (15, 16)] == [True, False]
    assert held(world.memory.parts["base"]) == [*range(16)]


def test_a_row_that_a_deferred_token_reads_is_not_overwritten():
    """A ring of 12 cells, a window of 8. Position 9 reads 2 to 9: the cells of 0 and 1 are free for 12 and 13, that of
    2 is not free for 14 before 9 is evaluated."""
    world, plain = (World("W", n_ctx_seq=16, window_pad=4) for _ in range(2))
    world.go(n=9), plain.go(n=9)
    assert [world.context.defer_token(token(pos)) for pos in range(9, 15)] == [True] * 5 + [False]
    said = world.context.flush_deferred()
    assert world.context.defer_token(token(14)) and held(world.memory.parts["swa"]) == [*range(3, 15)]
    said += world.context.flush_deferred()
    assert [one.digest for one in said] == decoded(plain, 9, 6)


def test_as_many_tokens_are_deferred_at_once_as_find_empty_cells():
    """A ring of 12 cells, a window of 8: cells 10 and 11 are empty, and the token after them takes cell 0."""
    world, plain = (World("W", n_ctx_seq=16, window_pad=4) for _ in range(2))
    world.go(n=9), plain.go(n=9)
    assert world.context.deferrable(9, 0) == 0 and world.context.defer_token(token(9))
    assert [world.context.deferrable(pos, 0) for pos in (9, 10, 11)] == [0, 2, 0]
    world.context.defer_more([110, 111])
    assert held(world.memory.parts["swa"]) == [*range(12)] and world.context.deferrable(12, 0) == 0
    assert [one.digest for one in world.context.flush_deferred()] == decoded(plain, 9, 3)


def test_nothing_is_deferred_in_exact_mode():
    world = World("A")
    world.go(n=3)
    world.context.model = type("Exact", (), {"exact": True})()
    assert not world.context.defer_token(token(3))
    world.context.model = None
    assert world.context.defer_token(token(3)) and world.context.flush_deferred() == []


@pytest.mark.parametrize("kind, own, state", [("A", True, False), ("H", True, True), ("qwen35", False, True)])
def test_positions_of_the_server_are_used_unless_they_are_2d(kind, own, state):
    world = World(kind)
    position = lambda seq, index: index  # noqa: E731
    world.context.use_positions(position)
    assert world.context.position is (position if own else as_index)
    assert (world.memory.recr is not None) is state and (not state or world.memory.recr.position is position)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_hidden_states_are_those_of_the_last_batch_in_its_order(kind):
    world = World(kind, n_ubatch=3)
    assert world.context.hidden is None
    world.go(n=7)
    whole = world.context.hidden.digest.tolist()
    again, parts = World(kind), []
    for n in (2, 5):
        again.go(n=n)
        parts += again.context.hidden.digest.tolist()
    assert len(whole) == 7 and whole == parts


def test_a_token_is_deferred_right_after_the_last_cell_of_the_arrays():
    """The arrays of the window cache end after 256 cells, all of them used."""
    world, batch = World("W8 A", n_ctx_seq=512, n_ubatch=256), DecodeBatch()
    world.go(n=256)
    swa = world.memory.parts["swa"].streams[0]
    assert (swa.end, len(swa.pos), swa.size) == (256, 256, 512)
    batch.add(9, 256, 0, False)
    assert world.context.defer_token(batch) is True and world.memory.pos_max(0) == 256
