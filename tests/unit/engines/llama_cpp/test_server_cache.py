"""Prompt cache in a server: entries stored, loaded and evicted, with their checkpoints and sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.engines.build_names import resolve_name
from cachesim.engines.registry import profiles, rules_of
from cachesim.events import Gained, Lost, Release
from tests.unit.engines.llama_cpp.talk import Talk, reuse, word
from tests.unit.engines.restore_points import Reported


def composed(name):
    """Return the rules of a build, which may lie between two recorded ones."""
    found = resolve_name(name)
    return rules_of(name if found is None else found.profile)


LOOSE = {"slot_prompt_similarity": 0.0, "cache_idle_slots": False}


def test_a_slot_with_f_keep_of_a_half_is_not_stored():
    for kept, stored in ((10, []), (9, [20])):
        talk = Talk("A")
        talk.ask(word("a", 20))
        talk.ask(word("a", kept) + word("b", 5))
        assert talk.entries() == stored


def test_a_conversation_already_stored_is_not_stored_twice():
    talk = Talk("A", **LOOSE)
    for w in "ab":
        talk.ask(word(w, 20))
    again = talk.ask(word("a", 8))
    assert talk.kinds(again, "pc_load") == ["pc_load"]
    last = talk.ask(word("c", 20))
    assert talk.kinds(last, "pc_already", "pc_obsolete") == []
    kept = Talk("A", "pr24143-on-b10587", **LOOSE)
    for w in ("a", "b", "a", "c"):
        last = kept.ask(word(w, 20))
    assert kept.kinds(last, "pc_already") == ["pc_already"]
    assert kept.entries() == [20, 20]


def test_a_longer_conversation_replaces_its_own_beginning():
    talk = Talk("A", "pr24143-on-b10587", **LOOSE)
    first = talk.ask(word("a", 20))
    talk.ask(word("b", 20))
    talk.ask(first.slot_tokens + word("a2", 10))
    last = talk.ask(word("c", 20))
    assert talk.events(last, "pc_obsolete") == [{"ev": "pc_obsolete", "n_tokens": 20}]
    assert talk.entries() == [20, 30]


def test_the_oldest_is_evicted_first_and_a_hit_does_not_refresh():
    talk = Talk("mamba2", "pr24143-on-b10587", cache_ram=1, ctx_checkpoints=0, **LOOSE)
    for i in range(14):
        talk.ask(word(f"w{i}", 10))
    hit = talk.ask(word("w0", 8) + word("x", 3))            # now 14 states of 74,876 bytes fill the MiB
    assert (talk.kinds(hit, "pc_load", "pc_evict"), talk.entries()) == (["pc_load"], [10] * 14)
    last = talk.ask(word("y", 10))
    assert talk.kinds(last, "pc_evict") == ["pc_evict"]
    want = [word(f"w{i}", 10) for i in range(1, 14)] + [hit.slot_tokens]
    assert [tuple(entry.tokens) for entry in talk.server.core.cache.entries] == want


@pytest.mark.parametrize("kind", ["A", "W", "R", "H", "HW"])
def test_a_stored_conversation_continues_where_it_stopped(kind):
    talk = Talk(kind, **LOOSE)
    first = talk.ask(word("a", 30), 4)
    talk.ask(word("b", 30), 2)
    again = talk.ask(first.slot_tokens + word("more", 5), 3)
    assert reuse(again) == [(0, 38)] if kind == "HW" else [(33, 5)]
    assert talk.right(again) is True


@pytest.mark.parametrize("kind", ["W", "R", "H"])
def test_checkpoints_travel_with_the_conversation(kind):
    talk = Talk(kind, **LOOSE)
    talk.ask(word("a", 30), 2)
    mine = talk.lengths()
    talk.ask(word("b", 30), 2)
    assert mine and [c.facts.n_tokens for c in talk.server.core.cache.entries[0].checkpoints] == mine
    again = talk.ask(word("a", 28) + word("x", 4), 2)
    assert again.cache_n >= 22
    assert talk.right(again) is True


def test_a_stored_conversation_counts_its_header_its_state_and_its_checkpoints():
    talk = Talk("mamba2", **LOOSE)
    talk.ask(word("a", 30))
    talk.ask(word("b", 30))
    assert [entry.size for entry in talk.server.core.cache.entries] == [(74868 + 8) * 2]


def test_a_stored_conversation_does_not_change_when_its_copy_continues():
    talk = Talk("H", "pr24143-on-b10587", **LOOSE)
    first = talk.ask(word("a", 30), 2)
    talk.ask(word("b", 30))
    for w in ("x", "y", "z"):
        answer = talk.ask(first.slot_tokens[:28] + word(w, 5), 2)
        assert (answer.cache_n, talk.right(answer)) == (26, True)
    whole = talk.ask(first.slot_tokens + word("d", 5), 2)
    assert (whole.cache_n, talk.right(whole)) == (31, True)


@pytest.mark.parametrize("profile, kept", [("b10587", []), ("b9518", [16])])
def test_before_25649_a_cleared_slot_keeps_its_checkpoints(profile, kept):
    talk = Talk("R", profile, parallel=2, kv_unified=True)
    talk.ask(word("a", 20), id_slot=0)
    talk.ask(word("b", 20), id_slot=1)
    assert (talk.held()[0], talk.lengths(0)) == (0, kept)


@pytest.mark.parametrize(("build", "cells", "checkpoints"), [
    ("b9765", 20, [16]), ("b10010", 20, [16]), ("b10011", 20, []), ("b10229", 20, []), ("b10388", 0, []),
])  # fmt: skip
def test_a_failed_restore_clears_what_the_changes_of_its_build_clear(tmp_path, build, cells, checkpoints):
    found = composed(f"llama_cpp@{build}")
    talk = Talk("R", "b10587", rules={name: getattr(found, name) for name in ("clear", "restore_failed")})
    talk.ask(word("a", 20))
    assert talk.server.slot("restore", 0, tmp_path / "missing")["status"] == 400
    assert (talk.held(), talk.server.core.memory.pos_max(0) + 1, talk.lengths()) == ([0], cells, checkpoints)


def test_without_a_prompt_cache_nothing_is_stored_or_logged():
    talk = Talk("A", cache_ram=0, slot_prompt_similarity=0.0)
    talk.ask(word("a", 20))
    second = talk.ask(word("b", 20))
    assert talk.server.core.cache is None
    assert [kind for kind in talk.kinds(second) if kind.startswith("pc_")] == []


def test_a_fresh_evaluation_still_erases_checkpoints_and_cuts_the_memory():
    talk = Talk("R")
    talk.ask(word("a", 20))
    answer = talk.ask(word("a", 12), cache_prompt=False)
    assert reuse(answer) == [(0, 12)]
    assert (talk.kinds(answer, "ckpt_invalidate"), talk.lengths()) == (["ckpt_invalidate"], [8])
    assert talk.right(answer) is True


def half_loaded(listener=None):
    """The entry of 242 tokens fits into the recurrent cache, but not beside 120 cells of the draft context."""
    talk = Talk("S", parallel=2, kv_unified=True, spec_type="draft-simple", model_draft="A", slot_prompt_similarity=0.0)
    talk.log.listener = listener
    whole = word("a", 240)
    talk.ask(whole, 3)
    talk.ask(whole[:120])
    return talk, whole


def sizes(talk, answer):
    return [entry["mib"] for entry in talk.events(answer, "pc_entry")]


def test_a_load_that_fails_at_the_draft_context_has_lost_the_state():
    talk, whole = half_loaded(told := Reported())
    before = talk.server.core.cache.entries[0].size
    again = talk.ask(whole[:120], 2)
    entry = talk.server.core.cache.entries[0]
    assert talk.kinds(again, "pc_load_failed") == ["pc_load_failed", "pc_load_failed"]
    assert before - entry.size == 18740                 # the state of a layer, with the header of host memory
    assert again.cache_n == 0
    assert len(entry.tokens) == 242
    assert told.spans("entry") == [(242, 1, 0)]
    kept = half_loaded()[0]
    after_hit = profiles()["llama_cpp@pr24143-on-b10587"].pc_after_hit
    kept.server.core.rules = replace(kept.server.core.rules, pc_after_hit=after_hit)
    kept.server.core.cache.rules = kept.server.core.rules
    kept.ask(whole[:120], 2)
    assert kept.server.core.cache.entries[0].size == before  # a copied entry stays


def test_an_empty_state_is_loaded_without_complaint():
    talk, whole = half_loaded()
    talk.ask(whole[:120], 2)
    for slot in (0, 1):
        talk.server.slot("erase", slot, None)
    found = talk.ask((*whole, *word("b", 4)))
    assert [event["text"] for event in talk.events(found, "error")] == [
        "state_seq_set_data: error loading state: unexpectedly reached end of buffer",
        "n_past = 240, slot.prompt.tokens.size() = 242, seq_id = 0, pos_min = -1",
    ]
    assert talk.kinds(found, "pc_load", "pc_load_failed") == ["pc_load"]
    assert (found.died, talk.entries()) == (True, [])


CAUSES = {
    "A": {"consumed"}, "H": {"consumed", "overwritten", "erased", "evicted"},
    "HW": {"consumed", "overwritten", "erased"},
}


@pytest.mark.parametrize("kind", CAUSES)
def test_restore_points_reported_as_lost_are_gone(kind):
    """A restore point is gone when its loss is reported, and all others are still there."""
    talk, kept, causes = Talk(kind, ctx_checkpoints=2, checkpoint_min_step=0, **LOOSE), set(), set()

    def hear(event):
        if isinstance(event, Gained):
            kept.add(event.point.key)
        if isinstance(event, Lost):
            kept.remove(event.key)
            causes.add(event.cause)
            assert event.key not in talk.server.inspection.kept()
        if isinstance(event, Release):
            assert sorted(kept) == sorted(talk.server.inspection.kept())
            held = [*(len(slot.checkpoints) for slot in talk.server.core.slots),
                    *(1 + len(one.checkpoints) for one in talk.server.core.cache.entries)]  # fmt: skip
            assert len(kept) == sum(held)

    talk.log.listener = hear
    for w in "abacb":
        for n in (12, 20, 28):
            talk.ask(word(w, n) + word("x", 3), user_starts=(n,))
    assert causes == CAUSES[kind]


@pytest.mark.parametrize(("flag", "field", "reused"), [(True, True, 20), (True, False, 0), (False, True, 0)])
def test_a_server_or_a_request_may_reuse_nothing(flag, field, reused):
    talk = Talk("A", cache_prompt=flag)
    talk.ask(word("a", 20))
    assert talk.ask(word("a", 30), cache_prompt=field).cache_n == reused


def test_a_slot_whose_tokens_count_as_gone_is_compared_as_an_empty_one():
    """Under the tried rules, for a request with other adapters."""
    talk = Talk("AA", "b11549-lora-tried", "none", lora_scaled="0,0", slot_prompt_similarity=0.0)
    talk.ask(word("a", 30), extra={"lora": "0:1"})
    for scales, f_keep, f_sim in (("0:1", 0.5, 0.5), ("1:1", -1.0, 0.0)):
        answer = talk.ask((*word("a", 15), *word("b", 15)), extra={"lora": scales})
        assert talk.events(answer, "pc_search") == [{"ev": "pc_search", "f_keep": f_keep, "f_sim": f_sim}]


def test_a_task_without_prompt_cache_neither_saves_nor_loads():
    talk = Talk("A", "b11549", "none")
    talk.ask(word("a", 20))
    assert "pc_begin" not in talk.kinds(talk.ask(word("b", 4), kind="embedding")) and talk.entries() == []
    assert "pc_begin" in talk.kinds(talk.ask(word("c", 4)))


def test_an_empty_idle_slot_leaves_the_prompt_cache_alone():
    talk = Talk("A", "b11549", "none", parallel=2)
    assert talk.kinds(talk.ask(word("a", 20), id_slot=0), "pc_save", "pc_state") == []
    assert talk.kinds(talk.ask(word("b", 20), id_slot=1), "pc_save", "pc_state") == ["pc_save", "pc_state"]


class ObservedTalk(Talk):
    is_heard = True


def test_an_entry_that_is_the_beginning_of_a_new_one_is_a_lost_restore_point():
    """Idle slots are saved: the first 20 tokens, later all 40."""
    talk = ObservedTalk("H", "b11549", "none", parallel=2, ctx_size=512, ctx_checkpoints=0)
    for prompt, slot in ((word("a", 20), 0), (word("b", 9), 1), (word("a", 40), 0)):
        talk.ask(prompt, id_slot=slot)
    assert talk.entries() == [20, 9]
    before = len(talk.log.events)
    last = talk.ask(word("c", 9), id_slot=1)
    assert talk.entries() == [9, 40] and talk.kinds(last, "pc_obsolete") == ["pc_obsolete"]
    lost = [event for event in talk.log.events[before:] if isinstance(event, Lost)]
    assert [(event.key[0], event.cause, event.rule) for event in lost] == [("entry", "evicted", "LC-PC-ALLOC.PC6")]
