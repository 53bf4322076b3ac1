"""llama_decode: refused batches, and the state after a refusal."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.llama_cpp.memory.context import BAD_BATCH, NO_ROOM, OK, Context, removal_refused
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory
from cachesim.engines.llama_cpp.memory.ubatch import BuildTraits, DecodeBatch
from cachesim.model import HiddenOutput, TokenRun, make_model
from tests.unit.engines.llama_cpp.memory.helpers import KINDS, World, held
from tests.unit.model.plain_store import PlainStore

INCONSISTENT = [
    "init: the tokens of sequence 0 in the input batch have inconsistent sequence positions:",
    "decode: failed to initialize batch",
]


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("pos0", [3, 4, 6, 7])
def test_a_batch_must_continue_the_memory(kind, pos0):
    world = World(kind)
    world.go(n=5)
    assert world.go(pos0=pos0) == BAD_BATCH
    assert world.logged() == INCONSISTENT
    assert world.memory.pos_max(0) == 4
    assert world.go(pos0=5) == OK


@pytest.mark.parametrize(("pos0", "code"), [(0, BAD_BATCH), (1, OK), (2, BAD_BATCH), (5, BAD_BATCH)])
def test_a_batch_must_also_continue_a_single_token(pos0, code):
    world = World("A")
    world.go(n=1)
    assert world.go(pos0=pos0) == code


@pytest.mark.parametrize(("last", "code"), [(1, BAD_BATCH), (2, OK), (3, BAD_BATCH)])
def test_a_sequence_continues_after_tokens_of_another_in_its_batch(last, code):
    world, batch = World("A", n_seq=2, unified=True), DecodeBatch()
    for seq, pos in ((0, 0), (0, 1), (1, 0), (0, last)):
        batch.add(9, pos, seq, False)
    assert world.context.decode(batch) == code


@pytest.mark.parametrize(("p1", "told"), [(2**31 - 1, -1), (9, 9)])
def test_a_refused_removal_names_its_sequence_and_its_range(p1, told):
    end = removal_refused(3, 5, p1)
    assert (str(end), end.kind) == (f"failed to remove sequence 3 with p0=5, p1={told}", "removal-refused")
    assert end.numbers == {"seq": 3, "p0": 5, "p1": told}


def test_an_absent_sequence_may_begin_anywhere():
    assert World("A").go(pos0=7) == OK


def test_a_gap_inside_a_batch_is_refused():
    world = World("A")
    batch = DecodeBatch()
    for pos in (0, 1, 3):
        batch.add(9, pos, 0, False)
    assert world.context.decode(batch) == BAD_BATCH
    assert world.memory.pos_max(0) == -1


@pytest.mark.parametrize("pos0, code", [(4, BAD_BATCH), (5, OK), (8, OK)])
def test_with_two_dimensional_positions_a_gap_is_let_through_but_no_overlap(pos0, code):
    world = World("qwen35")
    world.go(n=5)
    assert world.go(pos0=pos0) == code


def test_a_gap_makes_a_recurrent_memory_warn_twice():
    world = World("qwen35")
    world.go(n=5)
    world.go(pos0=8, n=2)
    warned = "find_slot: non-consecutive token position 9 after 4 for sequence 0 with 2 new tokens"
    assert world.logged() == [warned, warned]


@pytest.mark.parametrize("kind, said", [
    ("A", []), ("W", []), ("H", ["init_batch: failed to prepare attention ubatches"]),
    ("HW", ["init_batch: failed to prepare attention base ubatches"]),
])
def test_no_room_changes_nothing(kind, said):
    world = World(kind, n_ctx_seq=16)
    world.go(n=10)
    assert world.go(n=7) == NO_ROOM
    assert world.logged() == [*said, "decode: failed to find a memory slot for batch of size 7"]
    assert held(world.memory.parts["base"]) == list(range(10))
    assert world.memory.pos_max(0) == 9
    assert world.go(n=6) == OK


def test_a_recurrent_memory_is_never_full():
    world = World("R", n_ctx_seq=16)
    assert [world.go(n=10) for _ in range(4)] == [OK] * 4


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_outputs_are_those_requested(kind):
    world = World(kind)
    batch = DecodeBatch()
    for pos in range(9):
        batch.add(100 + pos, pos, 0, pos in (2, 8))
    world.context.decode(batch)
    assert sorted(world.context.spoken) == [2, 8]
    assert len({said.digest for said in world.context.spoken.values()}) == 2


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_outputs_do_not_depend_on_the_split(kind):
    said = set()
    for n_ubatch in (1, 3, 16):
        world = World(kind, n_ubatch=n_ubatch)
        batch = DecodeBatch()
        for pos in range(16):
            batch.add(100 + pos, pos, 0, pos == 15)
        world.context.decode(batch)
        said.add(world.context.spoken[15].digest)
    assert len(said) == 1


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("unified", [True, False])
def test_a_second_sequence_in_the_batch_changes_nothing_for_the_first(kind, unified):
    alone, both = World(kind), World(kind, n_seq=2, unified=unified)
    for world, seqs in ((alone, (0,)), (both, (0, 1))):
        batch = DecodeBatch()
        for seq in seqs:
            for pos in range(7):
                batch.add(100 + pos + 50 * seq, pos, seq, pos == 6)
        assert world.context.decode(batch) == OK
        world.memory.check()
    assert alone.context.spoken[6].digest == both.context.spoken[6].digest != both.context.spoken[13].digest


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("n_ubatch", [1, 3, 16])
def test_hidden_states_are_in_the_order_of_the_batch(kind, n_ubatch):
    """Micro-batches with tokens of two sequences come in another order than the batch."""
    world = World(kind, n_seq=2, n_ubatch=n_ubatch)
    assert world.context.hidden is None
    batch = DecodeBatch()
    for seq, n in ((0, 5), (1, 7)):
        for pos in range(n):
            batch.add(100 + pos + 50 * seq, pos, seq, True)
    world.context.decode(batch)
    hidden = world.context.hidden
    assert len(hidden.digest) == 12
    alone = World(kind, n_seq=2, n_ubatch=16)
    for seq, n, start in ((0, 5, 0), (1, 7, 5)):
        alone.go(seq, n=n, base=100 + 50 * seq)
        assert alone.context.hidden.digest.tolist() == hidden.digest[start : start + n].tolist()


def test_every_micro_batch_is_told():
    world = World("A")
    world.go(n=6)
    told = [event.runs for event in world.events if event.ev == "micro_batch"]
    assert told == [((0, 0, 4),), ((0, 4, 2),)]


@pytest.mark.parametrize("n_ubatch", [1, 3, 16])
def test_an_mtp_head_reads_the_hidden_states_before_the_tokens_of_each_sequence(n_ubatch):
    """Tokens of two sequences, whose micro-batches come in another order than the batch."""
    world = World("A", n_seq=2, n_ubatch=n_ubatch)
    world.context.model = head = make_model("A", exact=False, seed=5)
    batch, before = DecodeBatch(), HiddenOutput(np.arange(900, 912, dtype=np.uint64), None)
    for seq, n in ((0, 5), (1, 7)):
        for pos in range(n):
            batch.add(100 + pos + 50 * seq, pos, seq, True)
    assert world.context.decode(batch, before) == OK
    store, digests = PlainStore(), world.context.hidden.digest.tolist()
    for seq, start, stop in ((0, 0, 5), (1, 5, 12)):
        store.begin(runs := [TokenRun(seq, 0, batch.tokens[start:stop])])
        [want] = head.forward(runs, store, [before.part(start, stop)])
        assert digests[start:stop] == want.digest.tolist()
        base = world.memory.parts["base"]
        assert base.rows[seq][0].digest[: stop - start].tolist() == store.rows_of(0, seq).digest.tolist()
    assert [said.digest for _, said in sorted(world.context.spoken.items())] == digests


def after(n, n_rs_seq=0, n_ubatch=8):
    """Return the recurrent memory after n tokens."""
    world = World("H", n_ubatch=n_ubatch)
    sizes = world.memory.sizes._replace(n_rs_seq=n_rs_seq)
    memory = Memory(world.kind, sizes, world.context.model, world.memory.keep, lambda *of: False, world.events.append)
    batch = DecodeBatch()
    batch.extend([*range(100, 100 + n)], 0, 0)
    assert not n or Context(memory, world.context.model, 64, n_ubatch, world.events.append).decode(batch) == OK
    return memory.recr


def hashes(row):
    return {layer: state.hash for layer, state in row.items()}


@pytest.mark.parametrize("n_rs_seq", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_the_states_before_the_last_token_are_kept_in_planes(n, n_rs_seq):
    recr = after(n, n_rs_seq)
    assert hashes(recr.row(0)) == hashes(after(n).row(0)) != {}
    kept = {back: hashes(row) for back, row in recr.planes[0].items()}
    assert kept == {back: hashes(after(n - 1 - back).row(0)) for back in range(min(n - 1, n_rs_seq))}


def test_planes_are_those_of_the_last_micro_batch():
    """A micro-batch of a single token writes none: those of the one before are left."""
    for n, ends in ((7, (6, 5)), (5, (3, 2))):
        planes = after(n, n_rs_seq=2, n_ubatch=4).planes[0]
        assert [hashes(planes[back]) for back in (0, 1)] == [hashes(after(end).row(0)) for end in ends]


def test_an_unchecked_context_evaluates_a_batch_that_does_not_continue_it():
    world = World("A")
    world.go(n=5)
    world.memory.traits = BuildTraits(unchecked=True)
    assert world.go(pos0=9) == OK and world.logged() == []
    assert held(world.memory.parts["base"]) == [0, 1, 2, 3, 4, 9]


def test_a_build_logs_its_own_lines_for_a_batch_that_does_not_continue_the_memory():
    world = World("A")
    world.context.bad_batch_lines = ("first", "second")
    assert world.go(pos0=0, n=2) == OK and world.go(pos0=5) == BAD_BATCH
    assert world.logged() == [INCONSISTENT[0], "first", "second"]


def test_a_context_names_its_micro_batches():
    world = World("A")
    world.context.name = "draft"
    world.go(n=2)
    assert [event.model for event in world.events if event.ev == "micro_batch"] == ["draft"]
