"""Several slots: selection, deferred tasks, idle slots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.tokens import POS_INF
from cachesim.engines.base import Answer, Request
from cachesim.engines.build_names import resolve_name
from cachesim.engines.llama_cpp.flags import Options
from cachesim.engines.llama_cpp.memory.model_layout import model_kind
from cachesim.engines.llama_cpp.profiles import PROFILES
from cachesim.engines.llama_cpp.server_flags import settings
from cachesim.engines.llama_cpp.slot import Slot, SpecCkpt, State, Task
from cachesim.engines.registry import profiles, rules_of
from cachesim.engines.shared.flags import options_of
from cachesim.events import Aborted
from tests.unit.engines.llama_cpp.talk import Talk, reuse, word

PLAIN = {"cache_idle_slots": False}


def test_a_fresh_server_uses_its_slots_from_the_highest_id_down():
    talk = Talk("A", parallel=3)
    assert [talk.ask(word(w, 20)).id_slot for w in "abc"] == [2, 1, 0]


def test_then_the_least_recently_used():
    talk = Talk("A", parallel=3)
    for w in "abc":
        talk.ask(word(w, 20))
    talk.ask(word("c", 20) + word("more", 3))
    assert [talk.ask(word(w, 20)).id_slot for w in "xyz"] == [2, 1, 0]


def test_the_lowest_id_of_equally_similar_slots_is_selected():
    talk = Talk("A", parallel=2, **PLAIN)
    shared = word("S", 20)
    talk.ask(shared + word("one", 4), id_slot=1)
    talk.ask(shared + word("two", 4), id_slot=0)
    answer = talk.ask(shared + word("three", 4))
    assert (answer.id_slot, answer.cache_n) == (0, 20)
    assert [e["f_sim"] for e in talk.events(answer, "slot_sim")] == [0.833, 0.833]


@pytest.mark.parametrize("asked, got", [(0, 0), (1, 1), (2, 0), (5, 1), (-2, 1)])
def test_a_slot_id_counts_modulo_the_slots(asked, got):
    """Also with three slots: -2 is 2 ** 64 - 2, an even number with remainder 2."""
    assert Talk("A", parallel=3 if asked < 0 else 2).ask(word("a", 9), id_slot=asked).id_slot == got + (asked < 0)


def test_an_id_that_wraps_around_always_searches_the_prompt_cache():
    talk = Talk("A", parallel=2, **PLAIN)
    talk.ask(word("a", 20), id_slot=1)
    own = talk.ask(word("a", 20) + word("b", 3), id_slot=1)
    other = talk.ask(word("a", 20) + word("b", 3), id_slot=3)
    looked = ("slot_by_id", "slot_sim", "pc_begin")
    assert (talk.kinds(own, *looked), talk.kinds(other, *looked)) == (list(looked[:2]), ["slot_by_id", "pc_begin"])


def test_without_a_number_of_slots_there_are_four_with_one_cache():
    for given in ({}, {"kv_unified": False}):
        server = Talk("A", parallel=-1, **given).server
        assert (len(server.core.slots), server.core.settings.unified) == (4, True)
    assert len(Talk("A", "b6685", parallel=-1).server.core.slots) == 1


def test_a_request_for_a_busy_slot_waits_until_it_is_free():
    talk = Talk("A", parallel=2, **PLAIN)
    first = talk.send(word("a", 20), 4, id_slot=0)
    second = talk.send(word("b", 20), 2, id_slot=0)
    talk.work()
    assert (first.id_slot, second.id_slot, first.predicted_n, second.predicted_n) == (0, 0, 4, 2)
    assert talk.held() == [21, 0]
    assert [talk.right(a) for a in (first, second)] == [True, True]


def test_with_every_slot_busy_requests_wait_in_their_order():
    talk = Talk("A", parallel=1)
    answers = [talk.send(word(w, 10), 2) for w in "abc"]
    talk.work()
    releases = [e.task for e in talk.log.events if e.ev == "release"]
    assert len(releases) == 3 and releases == sorted(releases)
    assert [a.prompt_n for a in answers] == [10, 10, 10]


def test_d2_a_stored_conversation_is_loaded_over_a_running_one():
    talk = Talk("A", parallel=1)
    talk.ask(word("B", 30))
    running = talk.send(word("A", 20), 6, id_slot=0)
    talk.server.iterate()
    talk.send(word("B", 30), 1, id_slot=0)
    talk.work()
    assert talk.right(running) is not True


@pytest.mark.parametrize(("shared", "died"), [(0, False), (1, True), (7, True), (20, True)])
def test_a_slot_without_rows_ends_the_server_if_any_token_is_shared(shared, died):
    """The slot has tokens without rows, as after a first batch for which there were too few free cells."""
    talk = Talk("A")
    talk.ask(word("a", 20))
    talk.server.core.memory.seq_rm(0, 0, POS_INF)
    answer = talk.ask((*word("a", shared), *word("b", 9)))
    assert answer.died is died
    assert [event.text[:13] for event in talk.log.events if isinstance(event, Aborted)] == ["pos_min == -1"] * died
    told = f"n_past = {shared}, slot.prompt.tokens.size() = 20, seq_id = 0, pos_min = -1"
    assert [event["text"] for event in talk.events(answer, "error")] == [told] * died


def test_a_prompt_longer_than_the_context_leaves_the_slot_as_it_was():
    talk = Talk("H", ctx_size=256)
    first = talk.ask(word("a", 40), 3)
    was = (talk.held(), talk.lengths(), talk.server.core.memory.pos_max(0), talk.server.core.slots[0].t_last)
    refused = talk.ask(word("a", 256), 3)
    text = "error: request (256 tokens) exceeds the available context size (256 tokens), try increasing it"
    assert (refused.status, talk.events(refused, "error")) == (400, [{"ev": "error", "text": text}])
    assert (talk.held(), talk.lengths(), talk.server.core.memory.pos_max(0)) == was[:3]
    assert talk.server.core.slots[0].t_last > was[3]
    assert talk.ask(first.slot_tokens + word("x", 3)).cache_n == 42


def test_the_longest_prompt_that_fits_yields_one_token():
    talk = Talk("A", ctx_size=256)
    answer = talk.ask(word("a", 255), 9)
    assert (answer.status, answer.predicted_n, answer.truncated, answer.stop_type) == (200, 1, True, "limit")


def test_idle_slots_are_saved_and_with_a_unified_cache_cleared():
    for unified, held in ((True, [0, 20]), (False, [20, 20])):
        talk = Talk("A", parallel=2, kv_unified=unified)
        talk.ask(word("a", 20), id_slot=0)
        second = talk.ask(word("b", 20), id_slot=1)
        assert talk.held() == held
        assert talk.entries() == [20]
        assert talk.kinds(second, "idle_save", "slot_clear") == ["idle_save", "slot_clear"][: 2 if unified else 1]


@pytest.mark.parametrize(("profile", "listed"), [("b9518", ["pc_state"]), ("b9765", [])])
def test_an_idle_slot_that_is_stored_already_updates_the_prompt_cache_until_b9574(profile, listed):
    talk = Talk("A", profile=profile, parallel=2, kv_unified=True)
    talk.ask(word("a", 20), id_slot=0)
    talk.ask(word("b", 20), id_slot=1)
    talk.ask(word("a", 20), id_slot=0)
    last = talk.ask(word("b", 20), id_slot=1)
    assert talk.kinds(last, "pc_already") == ["pc_already"] and talk.kinds(last, "pc_state") == listed


def test_d13_an_idle_slot_too_big_to_store_is_still_cleared():
    talk = Talk("llama", parallel=2, kv_unified=True, cache_ram=1, ctx_size=2048)
    talk.ask(word("big", 1200), id_slot=0)
    second = talk.ask(word("b", 20), id_slot=1)
    assert talk.kinds(second, "pc_too_big", "slot_clear") == ["pc_too_big", "slot_clear"]
    assert (talk.held(), talk.entries()) == ([0, 20], [])
    assert talk.ask(word("big", 1200), id_slot=0).cache_n == 0


def test_d3_an_empty_named_slot_never_searches_the_prompt_cache():
    talk = Talk("A", parallel=2, kv_unified=True)
    talk.ask(word("x", 20), id_slot=0)
    talk.ask(word("y", 20), id_slot=1)
    again = talk.ask(word("x", 20), id_slot=0)
    assert (again.cache_n, talk.entries()) == (0, [20, 20])
    assert talk.kinds(again, "pc_begin") == []


def test_two_requests_at_once_share_a_batch_lower_ids_first():
    talk = Talk("A", parallel=2, batch_size=64, **PLAIN)
    one, two = talk.send(word("a", 50), 2, id_slot=0), talk.send(word("b", 50), 2, id_slot=1)
    talk.work()
    starts = [(e.slot, e.n_tokens) for e in talk.log.events if e.ev == "batch"]
    assert starts == [(0, 0), (1, 0), (1, 14)]
    assert [talk.right(a) for a in (one, two)] == [True, True]


@pytest.mark.parametrize("kind", ["A", "W", "R", "H", "HW"])
@pytest.mark.parametrize("unified", [True, False])
def test_two_requests_at_once_do_not_disturb_each_other(kind, unified):
    talk = Talk(kind, parallel=2, kv_unified=unified, **PLAIN)
    answers = [talk.send(word("a", 37), 5), talk.send(word("b", 22), 9)]
    talk.work()
    assert [talk.right(a) for a in answers] == [True, True]
    assert reuse(*answers) == [(0, 37), (0, 22)]


def test_before_24755_a_named_slot_stores_nothing():
    for profile, stored in (("b10587", [20]), ("b9518", [])):
        talk = Talk("A", profile, parallel=1)
        talk.ask(word("a", 20))
        talk.ask(word("b", 20), id_slot=0)
        assert talk.entries() == stored


def loaded_over(n_asked, n_stored, beside=0):
    """Return a server that has evaluated 16 of ``n_asked`` tokens when a longer conversation is loaded over them (D2),
    while another slot generates ``beside`` tokens."""
    talk = Talk("A", parallel=2, batch_size=17, ubatch_size=17, **PLAIN)
    talk.ask(word("B", n_stored), 1, id_slot=0)
    talk.ask(word("C", 5), 1, id_slot=0)                    # B goes to the prompt cache
    if beside:
        talk.send(word("D", 9), beside, id_slot=1)
        talk.server.iterate()
    running = talk.send(word("A", n_asked), 1, id_slot=0)
    talk.server.iterate()
    waiting = talk.send(word("B", n_stored), 1, id_slot=0)
    return talk, running, waiting


def test_a_prompt_over_which_a_longer_conversation_was_loaded_never_ends():
    """Every batch is empty until another conversation is loaded over the slot."""
    talk, running, waiting = loaded_over(20, 30)
    while talk.server.working:
        talk.server.iterate()
    assert (running.done, waiting.done, running.died, talk.held()[0]) == (False, False, False, 30)
    assert [e.n_tokens for e in talk.log.events if e.ev == "batch"][-3:] == [0, 30, 30]        # two rounds without work
    for _ in range(5):
        talk.server.iterate()
    assert [e.n_tokens for e in talk.log.events if e.ev == "batch"][-5:] == [30] * 5
    talk.send(word("C", 5), 1, id_slot=0)
    talk.work()
    assert running.done and waiting.done


def test_a_conversation_of_the_same_length_ends_the_process_unless_others_are_in_the_batch():
    talk, running, waiting = loaded_over(20, 20)
    talk.work()
    assert (running.died, running.error) == (True, "GGML_ASSERT(batch.size() > 0) failed")
    talk, running, waiting = loaded_over(20, 20, beside=9)
    talk.work()
    assert (running.done, running.died, running.predicted_n, waiting.done) == (True, False, 1, True)
    assert talk.right(running) is False                     # its output follows the other slot's token


@pytest.mark.parametrize("build, server, slots", [
    ("b6924", {"parallel": 1}, 1),
    ("b6925", {"parallel": 1}, 4),
    ("b7376", {"parallel": 1}, 4),
    ("b7376", {"parallel": -1}, 4),
    ("b7376", {"parallel": 2}, 2),
    ("b7376", {"parallel": 1, "kv_unified": True}, 1),
    ("b7376", {"parallel": 1, "model_draft": "A"}, 1),
    ("b7432", {"parallel": 1}, 4),
    ("b7433", {"parallel": 1}, 1),
    ("b11549", {"parallel": 1}, 1),
])  # fmt: skip
def test_a_single_slot_was_four_unless_the_cache_is_unified(build, server, slots):
    """Run: b7376 (xllamacpp 0.2.7) starts four unified slots with -np 1, and one with -np 1 -kvu."""
    name = f"llama_cpp@{build}"
    rules = rules_of(name if name in profiles() else resolve_name(name).profile)
    started = settings(options_of(Options, {**server, "ctx_size": 512}), model_kind("A"), rules)
    assert started.n_slots == slots and started.unified == (slots == 4 or server.get("kv_unified", False))


def test_a_busy_slot_has_no_common_prefix():
    """Neither its tokens nor its checkpoints are compared."""
    asked = []
    select = PROFILES["llama_cpp@b10587"].slot_select

    def spy(facts, *more):
        asked.append(list(facts))
        return select(facts, *more)

    talk = Talk("A", parallel=2, rules={"slot_select": spy}, **PLAIN)
    first = talk.send(word("a", 40), 9, id_slot=0)
    talk.server.iterate()
    assert not first.done
    talk.send(word("a", 40), 1)
    talk.server.iterate()
    busy, free = asked[-1]
    assert (busy.busy, busy.held > 0, busy.lcp, busy.usable) == (True, True, 0, -1)
    assert (free.busy, free.held, free.lcp) == (False, 0, 0)
    talk.work()
    talk.ask(word("a", 30), 1)
    assert [(fact.busy, fact.lcp) for fact in asked[-1]] == [(False, 30), (False, 30)]


@pytest.mark.parametrize(("kind", "server", "usable"), [
    ("A", {}, [1, 30, 35, 38, 41]), ("H", {"checkpoint_min_step": 0}, [0, 0, 0, 36, 41]),
    ("H", {"ctx_checkpoints": 0}, [0, 0, 0, 0, 41]), ("W", {"ctx_size": 512}, [1, 30, 35, 38, 41]),
])  # fmt: skip
def test_a_common_prefix_is_usable_as_far_as_the_memory_or_a_checkpoint_goes(kind, server, usable):
    """A slot of 41 tokens, with a checkpoint of 36 if it has states, and prompts that share 1, 30, 35, 38 and
    all of them."""
    asked = []
    select = PROFILES["llama_cpp@b10587"].slot_select

    def spy(facts, *more):
        asked.append(facts[0].usable)
        return select(facts, *more)

    for shared in (1, 30, 35, 38, 41):
        talk = Talk(kind, rules={"slot_select": spy}, **server)
        held = (*word("a", 40), *talk.ask(word("a", 40), 2).tokens)[:41]
        talk.ask((*held[:shared], *word("b", 5)))
    assert asked[1::2] == usable


def test_the_choice_of_a_slot_is_logged_slot_by_slot():
    """The first is busy, the second has a conversation, and the third has none."""
    talk = Talk("A", "b11549", parallel=3, **PLAIN)
    talk.ask(word("b", 20), 1, id_slot=1)
    talk.send(word("a", 40), 9, id_slot=0)
    talk.server.iterate()
    first = len(talk.log.events)
    talk.send(word("c", 9), 1)
    talk.server.take_tasks()
    choice = [event for event in talk.log.events[first:] if event.ev.startswith("slot_")]
    assert [event.ev for event in choice][:3] == ["slot_skip_busy", "slot_sim", "slot_skip_empty"]
    talk.work()


def used_slot():
    """A slot whose fields have the values of a running request."""
    return Slot(3, State.GENERATING, [1, 2], [], None, 9, 4, 2, 7, 5, 6, True, 1, (2, 5), True, "entry", [8], True,
                SpecCkpt(2, 0, 1), (0.5,), 4, 1, 3, True, [2])  # fmt: skip


def test_a_task_begins_in_a_slot_without_the_drafts_and_counts_of_the_one_before():
    slot, task = used_slot(), Task(11, Request((1,)), Answer(0))
    slot.begin(task, State.STARTED)
    want = replace(used_slot(), task=task, state=State.STARTED, last_task=11, n_gen=0, truncated=False, i_batch=-1,
                   has_begun=False, draft=[], replay=False, spec_ckpt=None)  # fmt: skip
    assert slot == want and slot.id_task == 11


def test_a_released_slot_keeps_its_tokens_and_nothing_of_its_task():
    talk = Talk("A", parallel=2)
    answer = talk.ask(word("a", 20), 3, id_slot=0)
    [slot, other] = talk.server.core.slots
    assert (slot.state, slot.task, slot.i_batch, slot.child, slot.children, slot.alora_start) == (
        State.IDLE, None, -1, False, [], -1)  # fmt: skip
    assert (slot.id_task, slot.busy, other.t_last, slot.t_last >= 0) == (None, False, -1, True)
    assert tuple(slot.tokens) == answer.slot_tokens and answer.tokens_cached == 22 and answer.done
