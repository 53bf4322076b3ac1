"""Inspection of an ik_llama.cpp server, and the restore points that it reports."""

from __future__ import annotations

import pytest

from cachesim.base.media_items import image_items
from cachesim.base.tokens import POS_INF
from cachesim.engines.base import Request
from cachesim.engines.ik_llama import start
from cachesim.engines.ik_llama.rules.checkpoint_restore import Ckpt
from cachesim.engines.ik_llama.slot import Checkpoint
from cachesim.events import Log
from tests.unit.engines.restore_points import Reported, differences

P = tuple(range(1000, 1080))


def listened(model, profile="ik_llama@main", **flags):
    """A server and the restore points that it reports."""
    base = {"ctx_size": 512, "batch_size": 64, "ubatch_size": 16, "context_shift": False, "parallel": 1}
    one, told = start(profile, model, {**base, **flags}, "provenance", Log()), Reported()
    one.log.listener = told
    return one, told


@pytest.mark.parametrize("model, spans", [("A", [(1, 82)]), ("W8 A", [(1, 82)]), ("GA", [(82, 82)])])
def test_a_slot_is_usable_where_its_rows_and_states_are(model, spans):
    one, told = listened(model)
    one.complete(Request(P, 3))
    assert [(point.lo, point.hi) for point in told.points.values() if point.key[0] == "slot"] == spans
    assert differences(told, one) == []


def test_a_live_slot_has_its_rows_from_a_position_on():
    one, _ = listened("A")
    one.complete(Request(P, 3))
    for given, positions in ((), [*range(82)]), ((5,), [*range(5, 82)]), ((82,), []):
        stored = one.inspection.stored(("slot", 0, 0), *given)
        assert [part.pos.tolist() for part in stored.rows] == [positions]
        assert (stored.tokens, stored.resume, stored.start) == ((), 82, sum(given))
        whole = one.inspection.stored(("slot", 0, 0)).rows[0].rows[0].digest
        assert stored.rows[0].rows[0].digest.tolist() == whole.tolist()[sum(given) :]


def test_a_cache_of_recurrent_rows_only_has_no_restore_points():
    one, told = listened("S")
    one.complete(Request(P, 3))
    assert told.spans("slot") == [(len(one.core.slots[0].tokens), 1, 0)]
    stored = one.inspection.stored(("slot", 0, 0))
    assert stored.rows == () and stored.state.pos == one.core.memory.state_pos[0]


def test_a_checkpoint_is_usable_where_its_states_end():
    one, told = listened("GA", ctx_checkpoints_interval=16)
    one.complete(Request(P, 3))
    ends = [(point.facts.n_tokens, point.facts.pos_max + 1) for point in one.core.slots[0].checkpoints]
    assert len(ends) > 2 and told.spans("checkpoint") == [(n, end, end) for n, end in ends]
    for key, (n, end) in zip(one.inspection.kept(), ends, strict=True):
        stored = one.inspection.stored(key)
        assert (stored.kind, stored.owner, stored.resume, stored.rows) == ("checkpoint", 0, end, ())
        assert (stored.tokens, stored.state.pos) == (one.inspection.tokens_of(0)[:n], end - 1)


def test_a_checkpoint_without_states_has_nothing_in_it():
    one, _ = listened("A")
    one.complete(Request(P, 1))
    made = Checkpoint(Ckpt(0, 4, 0, 4, 5, 1), one.core.memory.get(0, partial=True))
    assert one.core.points.owner.of_checkpoint(made) == (5, 1, 0)


@pytest.mark.parametrize("gone, last", [((20, 23), 20), ((0, 3), 0), ((70, POS_INF), 70)])
def test_a_slot_is_usable_up_to_the_first_row_that_is_missing(gone, last):
    one, told = listened("A")
    one.complete(Request(P, 1))
    one.core.memory.seq_rm(0, *gone)
    one.core.points.changed(one.core.slots[0], "truncated")
    assert told.spans("slot") == [(len(one.core.slots[0].tokens), 1, last)]
    assert one.inspection.stored(("slot", 0, 0), 21).rows[0].pos.tolist() == [
        pos for pos in range(21, 80) if not gone[0] <= pos < gone[1]
    ]  # fmt: skip


def test_a_row_stands_for_the_position_that_it_was_computed_for():
    """A restore after a wrong draft relabels a cell."""
    one, told = listened("A")
    one.complete(Request(P, 1))
    one.core.memory.cells.relabel(3, 200)
    one.core.points.changed(one.core.slots[0], "truncated")
    assert [span[1:] for span in told.spans("slot")] == [(1, 80)]


def test_stored_conversations_come_with_their_checkpoints():
    one, told = listened("GA", ctx_checkpoints_interval=16, cache_ram=64)
    for first in (1000, 3000):
        one.complete(Request(tuple(range(first, first + 80)), 3))
    assert told.spans("entry") == [(82, 82, 82)] and told.spans("entry checkpoint")
    assert differences(told, one) == []
    for key in one.inspection.kept():
        assert one.inspection.stored(key).tokens == told.tokens[key]


@pytest.mark.parametrize(("model", "parts"), [("A", 1), ("GA", 1), ("W8 A", 2)])
def test_a_stored_conversation_has_the_rows_of_its_slot(model, parts):
    one, told = listened(model, cache_ram=64)
    one.complete(Request(P, 3))
    slot = one.inspection.stored(("slot", 0, 0))
    one.complete(Request(P[::-1], 3))
    [stored] = [one.inspection.stored(key) for key in told.points if key[0] == "entry"]
    assert [part.pos.tolist() for part in stored.rows] == [[*range(82)]] * parts
    digests = [[part.rows[layer].digest.tolist() for layer in part.rows] for part in stored.rows]
    assert digests == [[part.rows[layer].digest.tolist() for layer in part.rows] for part in slot.rows]


def test_sizes_and_sequences_of_slots_and_of_stored_conversations():
    """A checkpoint has the states, and an entry rows and checkpoints; the rows of a token have 264 bytes."""
    one, _ = listened("GGGA+M", spec_type="mtp", spec_draft_n_max=3, cache_ram=64, ctx_checkpoints=3)
    empty = one.sequences.draft_memory(0)
    assert empty[:4] == (0, -1, -1, -1)
    one.complete(Request(P, 3))
    first, last = one.sizes.stored_sizes()
    assert [(size.kind, size.owner, size.tokens) for size in (first, last)] == [
        ("checkpoint", 0, 75), ("checkpoint", 0, 82)]
    assert one.sizes.stored_bytes() == (first.bytes + last.bytes, 0)
    assert one.sequences.checkpoint_spans(0) == [(74, 74), (81, 81)]
    assert one.sequences.held(0).tolist() == [*range(82)]
    assert one.sequences.draft_memory(0) == (80, 0, 79, 79, empty.bytes + 80 * 264)
    assert one.inspection.memory_matches(0) and one.inspection.tokens_of(0)[:80] == P
    one.complete(Request(P[::-1][:40], 3))
    entry = one.sizes.stored_sizes()[0]
    assert (entry.kind, entry.owner, entry.tokens, entry.draft_bytes) == ("entry", -1, 82, 0)
    assert entry.checkpoint_bytes == first.bytes + last.bytes and one.sizes.stored_bytes().cache == entry.bytes
    assert one.sequences.draft_memory(0) == (40, 0, 39, 39, empty.bytes + 40 * 264)
    one.core.slots[0].tokens.append(1)
    assert not one.inspection.memory_matches(0)


def test_a_server_without_a_head_has_no_draft_memory_and_tokens_follow_the_system_prompt():
    one, _ = listened("A")
    assert one.sequences.draft_memory(0) is None and one.sizes.stored_sizes() == []
    assert one.inspection.memory_matches(0), "an empty slot"
    one.complete(Request(P[:20], 1, extra={"system_tokens": 4}))
    assert (one.core.system, len(one.core.slots[0].tokens)) == ([*P[:4]], 16)
    assert one.inspection.tokens_of(0) == P[:20] and one.inspection.memory_matches(0)


def test_a_checkpoint_after_an_image_with_fewer_positions_is_measured_in_tokens():
    """An image of 12 tokens and one position: position 201 is that of token 212."""
    one, told = listened("qwen35d64", mmproj="causal", ctx_checkpoints_interval=16)
    text, image = tuple(range(1000, 1250)), image_items("wide", 12, 4)
    one.complete(Request((*P[:9], *image, *text), 2))
    places = [(kept.facts.n_tokens, kept.facts.pos_max) for kept in one.core.slots[0].checkpoints]
    assert places == [(85, 73), (149, 137), (213, 201), (266, 254), (272, 260)]
    assert [one.inspection.stored(key).resume for key in one.inspection.kept()] == [n for n, _ in places]
    answer = one.complete(Request((*P[:9], *image, *text[:200], *range(3000, 3012)), 2))
    assert (answer.reused, answer.prompt_n, answer.deciding[:12]) == ({"checkpoint": 213}, 20, "IK-CKPT-PICK")
    [restored] = [event for event in one.log.events if event.ev == "ckpt_restore"]
    assert (restored.pos_max, restored.n_tokens, restored.n_past) == (201, 213, 213)
    assert differences(told, one) == []
