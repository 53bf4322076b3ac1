"""Invariants of a server for any requests: consistent structures, inspection without effects, wrong answers with a
cause.

Caches have a multiple of 8 cells instead of 256, so a few dozen tokens wrap the rings and fill the contexts.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from cachesim.engines.rule import Decision
from tests.properties.histories import KINDS, PROFILE_NAMES, SMALL, flags, histories, keen, requests, short_histories
from tests.unit.engines.llama_cpp.talk import Talk

pytestmark = pytest.mark.long
ERASES_ALL_STALE = ("24035-v1", "24035-v3")
OLD = ("b9518", "b9473", "pr24143-on-b9518", "24035-v1")


UNDO_ALL = {"kv_undo": lambda: Decision(False, {}, "TEST-KV-UNDO")}
"""A trial that is undone completely, unlike LC-KV-UNDO.USED (scenario llama-undone-batch-loses-window)."""


def play(kind, profile, options, history, swa_full=False, rules=None):
    """Yield (talk, answer) after every request."""
    talk = Talk(kind, profile, swa_full=swa_full, rules={**SMALL, **(rules or {})}, **options)
    for prompt, more in requests(history):
        yield talk, talk.ask(prompt, **more)


def snapshot(talk):
    """Return everything that inspection might disturb."""
    memory = talk.server.core.memory
    tables = [
        (t.pos.tolist(), t.seqs.tolist(), t.head, t.used) for part in memory.parts.values() for t in part.streams
    ]
    meta = memory.recr.meta.copy() if memory.recr is not None else None
    slots = [(s.state, list(s.tokens), s.facts, s.t_last) for s in talk.server.core.slots]
    entries = [id(e) for e in talk.server.core.cache.entries] if talk.server.core.cache else []
    return tables, meta, slots, entries, len(talk.log.events)


@settings(max_examples=40)
@given(st.sampled_from(KINDS), st.sampled_from(PROFILE_NAMES), flags, histories, st.booleans())
def test_memory_slots_and_sizes_agree_after_every_request(kind, profile, options, history, swa_full):
    for talk, answer in play(kind, profile, options, history, swa_full):
        memory, server = talk.server.core.memory, talk.server
        assert not answer.died
        assert [memory.pos_max(slot.id) for slot in server.core.slots] == [n - 1 for n in talk.held()]
        assert all(len(slot.checkpoints) <= server.core.settings.max_checkpoints for slot in server.core.slots)
        for slot in server.core.slots:
            assert all(c.facts.size == c.blob.size + 8 for c in slot.checkpoints)
        if server.core.cache is None:
            continue
        entries = server.core.cache.entries
        assert all(e.size == e.blob.size + 8 + sum(c.facts.size for c in e.checkpoints) for e in entries)
        if server.core.settings.limit_size and profile not in OLD:
            assert sum(e.size for e in entries) <= server.core.settings.limit_size


@settings(max_examples=25)
@given(st.sampled_from(KINDS), st.sampled_from(PROFILE_NAMES), flags, histories)
def test_looking_changes_nothing(kind, profile, options, history):
    for talk, answer in play(kind, profile, options, history):
        before = snapshot(talk)
        for key in talk.server.inspection.kept():
            talk.server.inspection.stored(key)
        for slot in talk.server.core.slots:
            talk.server.inspection.live(slot.id)
            talk.server.inspection.stored(("slot", slot.id, 0), len(slot.tokens) // 2)
            talk.server.inspection.checkpoints(slot.id)
            for partial in (False, True):
                assert talk.server.core.memory.state_write(slot.id, partial).size == talk.server.core.memory.state_size(
                    slot.id, partial
                )
        for part in talk.server.core.memory.parts.values():
            for table in part.streams:
                table.find(5, part.masked)
        assert answer.id_slot < 0 or talk.server.inspection.memory_matches(answer.id_slot) in (True, False)
        assert snapshot(talk) == before


@settings(max_examples=25)
@given(st.sampled_from(PROFILE_NAMES), flags, histories)
def test_pure_attention_is_always_equal_to_cold(profile, options, history):
    for talk, answer in play("A", profile, options, history):
        assert talk.right(answer) is True


@settings(max_examples=100)
@given(st.sampled_from("RH"), st.sampled_from(ERASES_ALL_STALE), keen | flags, histories | short_histories)
def test_24035_makes_recurrent_memories_always_equal_to_cold(kind, profile, options, history):
    for talk, answer in play(kind, profile, options, history):
        assert talk.right(answer) is True


def wrong_objects(talk):
    """Return stored objects and slots that differ from what the server records about them."""
    live = [talk.server.inspection.live(slot.id) for slot in talk.server.core.slots]
    kept = [talk.server.inspection.stored(key) for key in talk.server.inspection.kept()]
    return [s for s in [*kept, *live] if talk.judge.stored(s).equal_cold is False]


@settings(max_examples=60)
@given(st.sampled_from("RH"), st.sampled_from(PROFILE_NAMES), keen | flags, histories | short_histories)
def test_a_recurrent_memory_answers_wrongly_only_from_a_stored_state_that_was_wrong_before(
    kind, profile, options, history
):
    wrong = []
    for talk, answer in play(kind, profile, options, history):
        if talk.right(answer) is not True:
            event("broken")
            assert wrong
        wrong = wrong_objects(talk)


@settings(max_examples=40)
@given(
    st.sampled_from(["W", "HW"]),
    st.sampled_from([p for p in PROFILE_NAMES if p not in OLD]),
    keen | flags,
    histories | short_histories,
)
def test_so_does_a_window_since_24411_unless_it_is_kept_full_or_purged_while_tried(kind, profile, options, history):
    """A window is also wrong if a token is removed after a restored window: then it misses its first row
    (llama-window-checkpoint-erosion.toml)."""
    wrong = []
    for talk, answer in play(kind, profile, options, history, rules=UNDO_ALL):
        if talk.right(answer) is not True:
            event("broken")
            assert wrong or {"ckpt_restore", "need_one"} <= {one["ev"] for one in talk.events(answer)}
        wrong = wrong_objects(talk)


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_without_a_model_decides_the_same(kind):
    """Without a model and with provenance: equal answers and events."""
    @settings(max_examples=6)
    @given(st.sampled_from(PROFILE_NAMES), flags, histories)
    def holds(profile, options, history):
        talks = [Talk(kind, profile, mode=mode, rules=SMALL, **options) for mode in ("none", "provenance")]
        for prompt, more in requests(history):
            a, b = (talk.ask(prompt, **more) for talk in talks)
            assert talks[0].events(a) == talks[1].events(b)
            assert (a.cache_n, a.tokens, a.status) == (b.cache_n, b.tokens, b.status)

    holds()


def test_the_arrays_of_a_saved_state_are_its_own():
    talk = Talk("H", "pr24143-on-b10587", rules=SMALL, slot_prompt_similarity=0.0, ctx_size=80)
    talk.ask(range(30), 2)
    blob = talk.server.core.memory.state_write(0, partial=False)
    rows = talk.server.core.memory.parts["base"].rows[0]
    assert all(not np.shares_memory(blob.base.rows[layer].digest, rows[layer].digest) for layer in rows)
