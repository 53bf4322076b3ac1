"""States whose file ends too early: the part and place of the end, and what a memory has afterwards."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.memory.torn_state import StateEnd, read_torn, torn_at
from tests.unit.engines.llama_cpp.memory.helpers import World, held
from tests.unit.engines.llama_cpp.memory.test_newest_memories import NewestWorld

# Bytes of a state of 10 tokens. An attention part: 8 and 12 for each token, then 8 and, by layer, 24 and 256 for each
# token. A recurrent part of one layer G: 12, 24, 8 for the position, 5632. A part has no more than 8 bytes of a header
# before its rows.
POSITIONS, ROWS = 8 + 10 * 12, 8 + 24 + 10 * 256
BASE = POSITIONS + ROWS


@pytest.mark.parametrize(("left", "end"), [
    (-1, StateEnd()), (0, StateEnd("base")), (POSITIONS - 1, StateEnd("base")),
    (POSITIONS, StateEnd("base", rows=True)), (BASE - 1, StateEnd("base", rows=True)),
    (BASE, StateEnd("recr")), (BASE + 11, StateEnd("recr")), (BASE + 12, StateEnd("recr", rows=True)),
    (BASE + 43, StateEnd("recr", rows=True)), (BASE + 44, StateEnd("recr", rows=True, last=True)),
    (BASE + 44 + 5631, StateEnd("recr", rows=True, last=True)), (BASE + 44 + 5632, None), (10**6, None),
])  # fmt: skip
def test_the_place_at_which_a_state_ends(left, end):
    world = World("H")
    world.go(n=10)
    assert torn_at(world.memory, world.memory.state_write(0, partial=False), left) == end


def test_a_state_of_attention_alone_ends_with_its_rows():
    world = World("A")
    world.go(n=10)
    blob = world.memory.state_write(0, partial=False)
    rows = 8 + 2 * (24 + 10 * 256)
    assert [torn_at(world.memory, blob, left) for left in (POSITIONS - 1, POSITIONS, POSITIONS + rows - 1)] == [
        StateEnd("base"), StateEnd("base", True, True), StateEnd("base", True, True)]  # fmt: skip
    assert torn_at(world.memory, blob, POSITIONS + rows) is None


def test_an_empty_recurrent_state_ends_in_its_headers():
    world = World("R")
    blob = world.memory.state_write(0, partial=False)
    assert blob.size == 12 + 2 * 24
    assert [torn_at(world.memory, blob, left) for left in (3, 4, 59, 60)] == [
        StateEnd("recr"), StateEnd("recr", True), StateEnd("recr", True), None]  # fmt: skip


@pytest.mark.parametrize(("torn", "frees", "base", "pos_max"), [
    (StateEnd(), True, range(4), 3), (StateEnd("base"), False, (), -1), (StateEnd("base", True), False, range(10), 3),
    (StateEnd("base", True), True, (), -1), (StateEnd("recr"), False, range(10), -1),
    (StateEnd("recr", True), False, range(10), 9), (StateEnd("recr", True, True), True, range(10), -1),
])  # fmt: skip
def test_parts_are_read_up_to_the_place(torn, frees, base, pos_max):
    world = World("H")
    world.go(n=10)
    blob = world.memory.state_write(0, partial=False)
    world.memory.seq_rm(0, 0)
    world.go(n=4)
    read_torn(world.memory, 0, blob, torn, frees)
    assert held(world.memory.parts["base"]) == [*base] and world.memory.pos_max(0) == pos_max


def test_the_parts_of_a_pair_come_in_order():
    world = World("W")
    world.go(n=10)
    blob = world.memory.state_write(0, partial=False)
    world.memory.seq_rm(0, 0)
    first = 8 + 10 * 12 + 8 + 24 + 10 * 256
    assert torn_at(world.memory, blob, first - 1) == StateEnd("base", rows=True)
    assert torn_at(world.memory, blob, first) == StateEnd("swa")
    read_torn(world.memory, 0, blob, StateEnd("base", rows=True), frees=False)
    assert [held(world.memory.parts[name]) for name in ("base", "swa")] == [[*range(10)], []]


@pytest.mark.parametrize(("name", "order"), [("hybrid_idx", ["base", "recr", "idx"]), ("dsa", ["base", "idx"]),
                                             ("dsa_iswa", ["base", "idx", "swa"])])  # fmt: skip
def test_the_newest_memories_have_their_own_order(name, order):
    world = NewestWorld(name)
    world.go(n=5)
    blob = world.memory.state_write(0, partial=False)
    ends = [torn_at(world.memory, blob, left) for left in range(blob.size)]
    assert [*dict.fromkeys(end.part for end in ends)] == order
    assert {end.part for end in ends if end.last} == {order[-1]}
    assert torn_at(world.memory, blob, blob.size) is None


def test_compressed_rows_are_not_simulated():
    world = NewestWorld("dsv4")
    world.go(n=5)
    with pytest.raises(BadInput, match="a truncated slot file with compressed rows is not simulated"):
        torn_at(world.memory, world.memory.state_write(0, partial=False), 9)


@pytest.mark.parametrize(("part", "base", "swa", "recr"), [("base", 6, 0, -1), ("swa", 6, 6, -1), ("recr", 6, 6, 5)])
def test_no_part_after_the_end_of_a_state_is_read(part, base, swa, recr):
    world = World("HW")
    world.go(n=6)
    memory, blob = world.memory, world.memory.state_write(0, partial=False)
    memory.seq_rm(0, 0)
    read_torn(memory, 0, blob, StateEnd(part, True, False), frees=False)
    assert [cache.n_cells(0) for cache in memory.parts.values()] == [base, swa] and memory.recr.pos_max(0) == recr
