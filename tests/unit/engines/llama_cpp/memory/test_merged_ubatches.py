"""Micro-batches evaluated in a single pass have the effects of separate evaluation; so have cells found without a
trial."""

from __future__ import annotations

import pytest

from cachesim.base.errors import Crash
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch, Ubatch, split_simple
from cachesim.engines.llama_cpp.memory.ubatch_view import merge_ubatches
from cachesim.model import TokenRun
from cachesim.model.hash_mixing import Rng
from tests.unit.engines.llama_cpp.memory.helpers import KINDS, World


def decode(world, rng, n_seq):
    """Decode a batch of one or two sequences that continue where they end; return the output after each token."""
    batch, seqs = DecodeBatch(), sorted({rng.below(n_seq), rng.below(n_seq)} if rng.chance(30) else {rng.below(n_seq)})
    for seq in seqs:
        start = world.memory.pos_max(seq) + 1
        for pos in range(start, start + 1 + rng.below(14)):
            batch.add(1000 * seq + pos + rng.below(3), pos, seq, True)
    code = world.context.decode(batch)
    world.memory.check()
    return code, {at: said.digest for at, said in sorted(world.context.spoken.items())}


def left(world):
    """Return the whole contents of a world."""
    memory = world.memory
    tables = [(c.pos.tolist(), c.seqs.tolist(), c.used, c.head) for p in memory.parts.values() for c in p.streams]
    kept = [held for part in memory.parts.values() for held in part.rows]
    rows = [(layer, one.digest.tolist()) for held in kept for layer, one in held.items()]
    recr = memory.recr
    states = [] if recr is None else [
        (cell.pos, cell.src, sorted(cell.seqs), {k: (s.conv.tolist(), s.hash) for k, s in row.items() if s is not None})
        for cell, row in zip(recr.meta.cells, recr.rows, strict=True)
    ]
    places = None if recr is None else (recr.meta.head, recr.meta.used, recr.meta.tail)
    return tables, rows, states, places, world.events


def story(model, unified, seed, exact):
    """Return outputs and contents of a memory after some batches and removals."""
    rng, world, out = Rng(seed, "merged"), World(model, n_seq=2, unified=unified, exact=exact), []
    for _ in range(10):
        out.append(decode(world, rng, 2))
        if rng.chance(30):
            seq = rng.below(2)
            cut = max(0, world.memory.pos_max(seq) - rng.below(4))
            out.append(world.memory.seq_rm(seq, rng.one((0, cut)), POS_INF))
    return out, left(world)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("unified", [False, True])
@pytest.mark.parametrize("model", KINDS)
def test_a_single_pass_equals_several_passes(model, unified, seed):
    """Exact mode evaluates each micro-batch separately."""
    assert story(model, unified, seed, exact=False) == story(model, unified, seed, exact=True)


def cuts(world, n, n_ubatch=3):
    """Return a batch of n tokens of sequence 0, split and placed."""
    batch, start = DecodeBatch(), world.memory.pos_max(0) + 1
    batch.extend(list(range(n)), start, 0)
    found = world.memory.parts["base"].prepare(split_simple(batch, n_ubatch))
    return [(ubatch, {"base": cells}) for ubatch, cells in zip(split_simple(batch, n_ubatch), found, strict=True)]


def test_ubatches_after_all_used_cells_are_merged():
    world = World("A")
    world.go(n=5)
    [run], at, n = (whole := merge_ubatches(cuts(world, 8), world.memory.parts, None))[0]
    assert (run.seq, run.pos0, list(run.tokens), at, n) == (0, 5, list(range(8)), (0,), 8)
    assert whole[1] == {"base": [range(5, 13)]}


def test_ubatches_of_two_sequences_are_not_merged():
    world = World("A", n_seq=2, unified=True)
    one, two, three = cuts(world, 9)
    other = two[0]._replace(runs=(two[0].runs[0]._replace(seq=1),))
    several = three[0]._replace(runs=three[0].runs * 2)
    assert merge_ubatches([one, two, three], world.memory.parts, None) is not None
    for found in ([one, (other, two[1]), three], [one, two, (several, three[1])]):
        assert merge_ubatches(found, world.memory.parts, None) is None


def test_ubatches_in_a_hole_are_not_merged():
    world = World("A", n_seq=2, unified=True)
    world.go(0, n=5)
    world.go(1, n=5)
    world.memory.seq_rm(0, 2, POS_INF)
    found = cuts(world, 6)
    assert [list(cells["base"][0]) for _, cells in found] == [[2, 3, 4], [10, 11, 12]]
    assert merge_ubatches(found, world.memory.parts, None) is None


@pytest.mark.parametrize(("n", "planes", "shared", "merged"), [
    (0, 0, False, True), (5, 0, False, True), (5, 2, False, False), (5, 0, True, False), (1, 0, True, False),
])  # fmt: skip
def test_ubatches_of_a_hybrid_are_merged_if_their_state_has_a_cell_of_its_own(n, planes, shared, merged):
    world = World("H", n_seq=2, unified=True)
    if n:
        world.go(n=n)
    if shared:
        world.memory.seq_cp(0, 1)
    recr = world.memory.recr
    recr.n_rs_seq = planes
    whole = merge_ubatches(cuts(world, 8), world.memory.parts, recr)
    assert (whole is not None) is merged


def test_ubatches_that_do_not_follow_each_other_are_not_merged():
    world = World("A")
    first, second, third = cuts(world, 8)
    assert merge_ubatches([first, third], world.memory.parts, None) is None
    assert merge_ubatches([second, third], world.memory.parts, None)[0].runs[0].pos0 == 3
    four = cuts(world, 11)
    assert merge_ubatches([four[0], four[1], four[3]], world.memory.parts, None) is None


@pytest.mark.parametrize("hole", [False, True])
def test_the_cells_of_a_run_are_searched_once_for_all_layers(hole):
    world = World("A", n_seq=2, unified=True)
    world.go(0, n=5)
    world.go(1, n=5)
    if hole:
        world.memory.seq_rm(0, 2, 4)
    batch = DecodeBatch()
    batch.extend([7, 8], 5, 0)
    [placed] = world.memory.init_batch(batch, 4)
    world.memory.apply(placed)
    store = world.memory.store(placed)
    known = store.positions("base", 0)
    assert known.tolist() == ([0, 1, 4, 5, 6] if hole else [*range(7)])
    assert store.positions("base", 0) is known


def test_a_piece_of_a_run_has_its_tokens_and_cells():
    world, batch = World("A"), DecodeBatch()
    world.go(n=3)
    batch.extend([7, 8, 9, 10], 3, 0)
    [placed] = world.memory.init_batch(batch, 4)
    world.memory.apply(placed)
    piece = world.memory.store(placed).piece(0, 1, 3)
    assert piece.ubatch == Ubatch((TokenRun(0, 4, [8, 9]),), (0,), 2) and piece.found == {"base": [range(4, 6)]}


def test_a_layer_whose_rows_no_part_keeps_is_a_fault_of_the_simulator():
    world = World("H")
    batch = DecodeBatch()
    batch.extend([7, 8], 0, 0)
    [placed] = world.memory.init_batch(batch, 4)
    world.memory.apply(placed)
    store = world.memory.store(placed)
    with pytest.raises(Crash, match="layer 0 keeps no rows"):
        store.get_rows(0, 0)
