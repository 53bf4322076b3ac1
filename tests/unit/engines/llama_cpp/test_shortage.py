"""Lack of room: in the shared cells, in the prompt cache, for a state to be loaded. And aborts of the server."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.prompt_cache import LOST
from cachesim.engines.llama_cpp.rules import checkpoint_restore as use
from tests.unit.engines.llama_cpp.talk import Talk, word

SHARED = {"parallel": 2, "kv_unified": True, "ctx_size": 256, "cache_idle_slots": False}
FULL = "Context size has been exceeded."


def refused(n_batch):
    return [{"ev": "warn", "text": f"decode: failed to find a memory slot for batch of size {n_batch}"}]


@pytest.mark.parametrize("kind", ["A", "H"])
def test_an_idle_slot_is_purged_unsaved_and_the_batch_keeps_its_size(kind):
    talk = Talk(kind, **SHARED)
    talk.ask(word("a", 150), id_slot=0)
    second = talk.ask(word("b", 150), id_slot=1)
    assert (second.status, talk.held(), talk.entries()) == (200, [0, 150], [])
    assert talk.events(second, "slot_purge", "kv_full") == [
        {"ev": "slot_purge", "slot_arg": 0, "n_tokens": 150}, {"ev": "kv_full", "n_batch": 64, "ret": 1},
    ]
    assert talk.right(second) is True


def test_one_slot_is_purged_at_a_time_the_lowest_idle_one():
    talk = Talk("A", **{**SHARED, "parallel": 3})
    for i, w in enumerate("ab"):
        talk.ask(word(w, 90), id_slot=i)
    last = talk.ask(word("c", 120), id_slot=2)
    assert talk.held() == [0, 90, 120]
    assert [e["slot_arg"] for e in talk.events(last, "slot_purge")] == [0]


def test_two_running_conversations_that_do_not_fit_both_fail_and_everything_is_cleared():
    talk = Talk("A", **SHARED)
    both = [talk.send(word(w, 140), 3, id_slot=i) for i, w in enumerate("ab")]
    talk.work()
    assert [(a.status, a.error) for a in both] == [(500, FULL), (500, FULL)]
    assert talk.held() == [0, 0]
    assert [talk.server.core.memory.pos_max(s) for s in (0, 1)] == [-1, -1]
    sizes = [e.n_batch for e in talk.log.events if e.ev == "kv_full"]
    assert sizes[:6] == [32, 16, 8, 4, 2, 1]
    again = talk.ask(word("a", 20))
    assert (again.status, talk.right(again)) == (200, True)


HALVES = [32, 16, 8, 4, 2, 1]


@pytest.mark.parametrize("b, attempts", [
    (126, HALVES),                  # full: a view of two tokens is retried with half the size
    (125, HALVES + HALVES),         # a free cell: the first token fits, the rest starts again with a full view
])  # fmt: skip
def test_halving_starts_from_n_batch_and_starts_over_after_a_success(b, attempts):
    talk = Talk("A", **SHARED)
    answers = [talk.send(word("a", 128), 9, id_slot=0), talk.send(word("b", b), 9, id_slot=1)]
    talk.work()
    assert [e.n_batch for e in talk.log.events if e.ev == "kv_full"] == attempts
    assert [a.status for a in answers] == [500, 500]


def test_the_conversation_that_ended_is_purged_for_the_other():
    talk = Talk("A", **SHARED)
    answers = [talk.send(word("a", 128), 3, id_slot=0), talk.send(word("b", 127), 3, id_slot=1)]
    talk.work()
    assert [e.n_batch for e in talk.log.events if e.ev == "kv_full"] == [64]
    assert ([a.status for a in answers], talk.held()) == ([200, 200], [0, 129])
    assert [a.predicted_n for a in answers] == [3, 3]


def test_without_a_unified_cache_nothing_is_purged():
    talk = Talk("A", parallel=2, ctx_size=512, cache_idle_slots=False)
    talk.ask(word("a", 200), id_slot=0)
    second = talk.ask(word("b", 200), id_slot=1)
    assert (second.status, talk.held(), talk.kinds(second, "slot_purge")) == (200, [200, 200], [])


def test_d22_alternating_conversations_are_found_and_never_loaded():
    talk = Talk("A", parallel=2, kv_unified=True, ctx_size=512)
    a, b = talk.ask(word("a", 300)), talk.ask(word("b", 290))
    for conversation in (a, b):
        again = talk.ask(conversation.slot_tokens + word("more", 4))
        assert (again.cache_n, talk.right(again)) == (0, True)
        assert talk.kinds(again, "pc_load", "error", "pc_load_failed") == [
            "pc_load", "error", "error", "pc_load_failed", "pc_load_failed",
        ]


def failing_load():
    """Slot 1 holds T (30 tokens), slot 0 another 180; the stored P of 120 shares 10 tokens with T."""
    talk = Talk("A", parallel=2, kv_unified=True, ctx_size=256, cache_idle_slots=False)
    shared = word("S", 10)
    first = talk.ask(shared + word("p", 110), id_slot=1)
    talk.ask(shared + word("t", 20), id_slot=1)             # f_keep of P is below 0.5: P is stored
    talk.ask(word("n", 180), id_slot=0)
    return talk, first


def test_a_load_that_finds_no_room_leaves_the_slot_empty_and_the_entry_where_it_was():
    talk, first = failing_load()
    entries = talk.entries()
    answer = talk.ask(first.slot_tokens[:60], id_slot=1)
    assert talk.kinds(answer, "pc_load_failed", "slot_clear") == ["pc_load_failed", "pc_load_failed", "slot_clear"]
    assert talk.events(answer, "slot_clear") == [{"ev": "slot_clear", "slot": 1, "n_tokens": 30}]
    assert (answer.died, answer.cache_n, talk.right(answer)) == (False, 0, True)
    assert not any(entry.blob is LOST for entry in talk.server.core.cache.entries)
    assert talk.entries() == [*entries, 30]


def test_the_two_error_lines_of_a_failed_load():
    talk, first = failing_load()
    answer = talk.ask(first.slot_tokens[:60], id_slot=1)
    assert [e["text"] for e in talk.events(answer, "error")] == [
        "state_read_meta: failed to find 120 available cells in kv cache",
        "state_seq_set_data: error loading state: failed to restore kv cache",
    ]


def test_a_shortage_of_a_hybrid_names_the_part():
    talk = Talk("H", **SHARED)
    talk.ask(word("a", 150), id_slot=0)
    second = talk.ask(word("b", 150), id_slot=1)
    assert [e["text"] for e in talk.events(second, "error", "warn")] == [
        "init_batch: failed to prepare attention ubatches", "decode: failed to find a memory slot for batch of size 64",
    ]


def test_d12_without_a_byte_limit_the_tokens_are_still_limited():
    talk = Talk("A", cache_ram=-1, slot_prompt_similarity=0.0)
    for w in "abcd":
        last = talk.ask(word(w, 100))
    assert talk.entries() == [100, 100]  # 256 tokens at most; d is still in its slot
    assert talk.events(last, "pc_evict_tokens") == [
        {"ev": "pc_evict_tokens", "limit_tokens": 256, "est": 256, "mib": 0.05}
    ]


def never_search(ask):
    return use.need_th4(ask._replace(pos_min=-1))


def test_a_refused_trim_ends_the_process_as_an_event_and_not_as_an_exception():
    talk = Talk("R", rules={"ckpt_need": never_search})
    talk.ask(word("a", 20))
    answer = talk.ask(word("a", 10) + word("b", 5))
    text = "failed to remove sequence 0 with p0=10, p1=-1"
    assert (answer.died, answer.error, talk.right(answer)) == (True, text, False)
    assert [e.text for e in talk.log.of(answer.request) if e.ev == "aborted"] == [text]
    after = talk.ask(word("c", 5))
    assert (after.died, after.predicted_n) == (True, 0)


def test_an_abort_fails_every_waiting_request():
    talk = Talk("R", rules={"ckpt_need": never_search})
    talk.ask(word("a", 20))
    waiting = [talk.send(word("a", 10) + word(w, 5)) for w in "bc"]
    talk.work()
    assert [a.died for a in waiting] == [True, True]


def test_missing_rows_of_a_slot_end_the_process():
    talk = Talk("A")
    talk.ask(word("a", 20))
    talk.server.core.memory.seq_rm(0, 0)
    answer = talk.ask(word("a", 10) + word("b", 5))
    assert answer.died
    assert answer.error == "pos_min == -1, but n_past > 0 - should not happen (slot 0, n_past 10)"
