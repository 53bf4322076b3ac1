"""What an inspection of a server finds: rows up to the first hole, sizes, sequences, the memory of a drafter."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.snapshot import contiguous_rows, keep_all
from cachesim.engines.point_kinds import running_key
from tests.unit.engines.llama_cpp.talk import Talk, word

A = word("A", 30)


@pytest.mark.parametrize(("gone", "rows"), [
    ((), 30), ((0, 3), 0), ((0, 1), 0), ((5, 8), 5), ((29, 30), 29), ((1, 2), 1), ((0, POS_INF), 0),
])  # fmt: skip
def test_rows_count_up_to_the_first_hole(gone, rows):
    talk = Talk("A")
    talk.ask(A)
    base = talk.server.core.memory.parts["base"]
    if gone:
        base.seq_rm(0, *gone)
    assert contiguous_rows(base, 0) == rows


@pytest.mark.parametrize(("kind", "parts", "later"), [
    ("A", [(1, 22)], [(1, 12)]), ("GA", [(1, 22)], [(1, 12)]), ("W", [(1, 22), (1, 22)], [(1, 12), (1, 22)]),
    ("W8 D4.8.3", [(1, 22), (1, 22), (4, 5)], [(1, 12), (1, 22), (4, 5)]),
])  # fmt: skip
def test_a_running_slot_is_shown_with_all_its_rows_or_those_from_a_position_on(kind, parts, later):
    """Only rows of full attention can be left out; a compressed row stands for 4 tokens."""
    talk = Talk(kind, "b11549")
    talk.ask(A[:21], 2)
    inspection, key = talk.server.inspection, running_key(0)
    for found, wanted in (
        (inspection.live(0), parts), (inspection.stored(key), parts), (inspection.content(key), parts),
        (inspection.stored(key, 10), later), (inspection.content(key, 10), later),
    ):  # fmt: skip
        assert [(part.every, len(part.pos)) for part in found.rows] == wanted


def test_the_second_slot_is_shown_with_its_own_rows():
    talk = Talk("A", "b11549", parallel=2)
    talk.ask(A[:9], id_slot=0), talk.ask(A, id_slot=1)
    inspection, key = talk.server.inspection, running_key(1)
    shown = inspection.live(1), inspection.stored(key), inspection.content(key), inspection.content(key, 4)
    assert [len(found.rows[0].pos) for found in shown] == [30, 30, 30, 26]
    assert inspection.content(running_key(0)).rows[0].pos.tolist() == [*range(9)]


@pytest.mark.parametrize(("start", "first"), [(0, 5), (3, 5), (5, 5), (9, 9)])
def test_rows_from_a_position_on_begin_with_the_first_that_there_is(start, first):
    talk = Talk("A", "b11549")
    talk.ask(A)
    talk.server.core.memory.parts["base"].seq_rm(0, 0, 5)
    assert talk.server.inspection.content(running_key(0), start).rows[0].pos.tolist() == [*range(first, 30)]


@pytest.mark.parametrize(("flags", "entries"), [({}, [("entry", -1, 30, 19456, 0, 5684, "")]), ({"cache_ram": 0}, [])])
def test_what_a_server_stores_with_and_without_a_prompt_cache(flags, entries):
    talk = Talk("GA", "b11549", slot_prompt_similarity=0.0, **flags)
    talk.ask(A), talk.ask(word("B", 20))
    assert [*map(tuple, talk.server.sizes.stored_sizes())] == [("checkpoint", 0, 16, 5684, 0, 0, ""), *entries]


def test_a_complete_copy_keeps_every_cell():
    assert keep_all(np.array([3, 1, 9]), 9, 2).tolist() == [True] * 3


@pytest.mark.parametrize(("kind", "flags", "replays"), [
    ("A", {"spec_type": "ngram-simple"}, [False, False, False, False]),
    ("GA", {"spec_type": "ngram-simple"}, [True, True, True, True]),
    ("GA+M", {"spec_type": "draft-mtp", "spec_draft_n_max": 2, "ubatch_size": 16}, [False, False, True, True]),
])  # fmt: skip
def test_a_rejection_is_replayed_beyond_the_planes_of_a_recurrent_memory(kind, flags, replays):
    sequences = Talk(kind, "b11549", **flags).server.sequences
    assert [sequences.reevaluates_draft(wrong) for wrong in (1, 2, 3, 4)] == replays


@pytest.mark.parametrize(("flags", "memory"), [
    ({"spec_type": "draft-simple", "model_draft": "AA"}, (30, 0, 29, -1, 8112)),
    ({"spec_type": "draft-simple", "model_draft": "SS"}, (0, 29, 29, 29, 37444)),
    ({"spec_type": "draft-simple", "model_draft": "GA"}, (30, 29, 29, 29, 9924)),
    ({"spec_type": "none"}, None),
])  # fmt: skip
def test_the_memory_of_a_drafter(flags, memory):
    talk = Talk("A", "b11549", **flags)
    talk.ask(A)
    found = talk.server.sequences.draft_memory(0)
    assert (found and tuple(found)) == memory


@pytest.mark.parametrize(("kind", "held"), [("A", [*range(30)]), ("W", [*range(30), *range(30)]), ("R", [])])
def test_the_positions_of_a_sequence(kind, held):
    talk = Talk(kind)
    talk.ask(A)
    assert talk.server.sequences.held(0).tolist() == held


def test_sizes_of_checkpoints_and_entries():
    talk = Talk("R", "b11549", checkpoint_min_step=0, slot_prompt_similarity=0.0)
    talk.ask(A)
    live = talk.server.sizes.stored_sizes()
    assert [tuple(one)[:3] for one in live] == [("checkpoint", 0, 26)]
    size = live[0][3]
    talk.ask(word("B", 9))
    entry = next(one for one in talk.server.sizes.stored_sizes() if one[0] == "entry")
    assert tuple(entry)[:6] == ("entry", -1, 30, entry[3], 0, size) and entry[3] > size


def test_a_checkpoint_resumes_where_its_build_says():
    talk = Talk("W", "b10587", ctx_size=1024, checkpoint_min_step=0)
    talk.ask(word("A", 300))
    key = next(key for key in talk.server.inspection.kept() if key[0] == "checkpoint")
    stored = talk.server.inspection.stored(key)
    assert (len(stored.tokens), stored.resume) == (296, 295), "a window continues at its last token"
    state = Talk("R", "b10587", checkpoint_min_step=0)
    state.ask(A)
    stored = state.server.inspection.stored(state.server.inspection.kept()[0])
    assert (len(stored.tokens), stored.resume) == (26, 26)


@pytest.mark.parametrize(("id_slot", "slot"), [(0, 0), (1, 1), (2, 0), (5, 1), (-1, 0), (-3, 0)])
def test_the_slot_of_an_id(id_slot, slot):
    assert Talk("A", parallel=2).server.inspection.slot_with_id(id_slot) == slot
    assert Talk("A", "b6160", parallel=2).server.inspection.slot_with_id(id_slot) == (id_slot if id_slot == 1 else 0)


def test_the_memory_ends_at_the_last_token_or_not():
    talk = Talk("A")
    talk.ask(A)
    assert talk.server.inspection.memory_matches(0)
    talk.server.core.memory.seq_rm(0, 29)
    assert not talk.server.inspection.memory_matches(0)


@pytest.mark.parametrize(("similarity", "unlogged"), [(0.0, True), (0.1, False), (1.0, False)])
def test_an_arrival_at_busy_slots_is_logged_if_similarities_are(similarity, unlogged):
    assert Talk("A", slot_prompt_similarity=similarity).server.tasks.arrival_is_unlogged is unlogged
