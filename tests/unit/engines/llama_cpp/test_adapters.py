"""Tests of adapters in the server: what a slot forgets, what reaches another adapter, and what the judge says."""

from __future__ import annotations

import pytest

from cachesim.base.keyed_tokens import identity, key_of
from cachesim.base.media_items import image_items
from cachesim.engines.base import Answer, Request
from cachesim.engines.llama_cpp.adapters import key_of_scales, refuse, refuse_ids, stop_at_invocation
from cachesim.engines.llama_cpp.slot import Task
from tests.unit.engines.llama_cpp.talk import Talk, word

P, Q, R, M = word("p", 40), word("q", 40), word("r", 10), word("m", 3)
SCALES = "0,0,0@" + ".".join(map(str, M))
NONE, ZERO, ONE, ACTIVE = {}, {"lora": "0:1"}, {"lora": "1:1"}, {"lora": "2:1"}
OFF = {"lora": "0:0"}


def talk(mode="provenance", **flags):
    return Talk("AA", "b11549", mode, lora_scaled=SCALES, **flags)


def right(server, answer):
    """True if the judge finds an answer right, and the state that it left."""
    request = server.requests[answer.request]
    return server.judge.judge(request, answer, server.server.inspection.live(answer.id_slot)).equal_cold


@pytest.mark.parametrize("mode", ["provenance", "exact"])
@pytest.mark.parametrize(("first", "second", "reused", "holds"), [
    (ZERO, ZERO, 40, True), (ZERO, ONE, 0, True), (ZERO, OFF, 0, True), (NONE, NONE, 40, True), (NONE, OFF, 40, True),
    (ZERO, NONE, 40, False),                     # without a list nothing is compared
])  # fmt: skip
def test_what_a_slot_keeps_for_other_adapters(mode, first, second, reused, holds):
    one = talk(mode)
    assert right(one, one.ask(P, extra=first))
    answer = one.ask(P + R, extra=second)
    assert (answer.cache_n, right(one, answer)) == (reused, holds)


def test_an_entry_of_the_prompt_cache_has_no_adapters():
    one = talk()
    for prompt, extra in ((P, ZERO), (Q, ONE)):
        one.ask(prompt, extra=extra)
    answer = one.ask(P, extra=ONE)
    assert answer.cache_n == 39 and right(one, answer) is False


def test_the_servers_scales_change_under_a_request_without_a_list():
    one = talk()
    one.ask(P)
    assert one.server.set_adapters("0:1") == {"status": 200, "success": True}
    assert [event.ev for event in one.log.of(1)] == ["lora_set"] * 3                # a step of its own
    assert right(one, one.ask(P + R)) is False
    one.server.set_adapters("1:0.5")                     # adapters that the list does not name are off
    assert one.server.core.served == (0.0, 0.5, 0.0)


def test_a_slot_file_has_no_adapters(tmp_path):
    one, file = talk(), tmp_path / "f"
    one.ask(P, extra=ZERO)
    one.server.slot("save", 0, file)
    one.ask(Q, extra=ONE)
    one.server.slot("restore", 0, file)
    answer = one.ask(P, extra=ONE)
    assert answer.cache_n == 39 and right(one, answer) is False


def test_an_alora_begins_a_token_before_its_invocation():
    one = talk()
    answer = one.ask(P + M + R, extra=ACTIVE)
    assert right(one, answer) and [key > 0 for _, key in answer.keys] == [False, True]
    assert [first for first, _ in answer.keys] == [0, len(P) - 1]
    later = one.ask(P + M + R + Q, extra=ACTIVE)
    assert later.cache_n == len(P) - 1 and right(one, later)


def test_an_alora_without_its_invocation_is_off():
    one = talk()
    answer = one.ask(P, extra=ACTIVE)
    assert answer.under == "no adapter" and right(one, answer)
    assert one.events(answer, "alora_absent", "alora_start") == [{"ev": "alora_absent", "id": 2}]


def test_two_aloras_and_tokens_that_no_model_has_are_refused():
    one = Talk("AA", "b11549", lora_scaled="0@1,0@2")
    several = one.ask(P, extra={"lora": "0:1,1:1"})
    assert (several.status, several.error) == (400, "Cannot run multiple aLoRAs in a single request")
    assert (one.ask((*P, -1)).status, one.server.core.slots[0].adapters) == (400, (0.0, 0.0))


def test_slots_with_other_adapters_wait_for_each_other():
    one = talk(parallel=2, kv_unified=True)
    first = one.send(P, 4, extra=ZERO, id_slot=0)
    second = one.send(Q, 1, extra=ONE, id_slot=1)
    while not first.done:
        one.server.iterate()
    assert second.prompt_n == 0
    one.work()
    assert right(one, first) and right(one, second)


@pytest.mark.parametrize(("rules", "reused", "holds"), [("b11549", 50, False), ("b11549-lora-tried", 0, True)])
def test_a_refused_request_without_a_list_leaves_the_scales_of_the_server(rules, reused, holds):
    one = Talk("AA", rules, lora_scaled=SCALES)
    one.ask(P + R, extra=ZERO)
    assert one.ask((*Q, -1), extra=NONE).status == 400
    answer = one.ask(P + R + Q, extra=OFF)
    assert (answer.cache_n, right(one, answer)) == (reused, holds)


@pytest.mark.parametrize(("rules", "start", "reused"), [
    ("b11549", 20, 19), ("b11549", 1, 0), ("b11549-lora-tried", 20, 40), ("b11549-lora-tried", 1, 40),
    ("b11549-lora-tried", 0, 40),
])  # fmt: skip
def test_a_refused_request_leaves_the_start_of_its_invocation(rules, start, reused):
    one = Talk("AA", rules, lora_scaled=SCALES)
    one.ask(P, extra=OFF)
    assert one.ask((*P[:start], *M, -1), extra=ACTIVE).status == 400
    answer = one.ask(P + R, extra=ACTIVE)
    assert (answer.cache_n, right(one, answer)) == (reused, True)


def test_nothing_is_capped_for_a_request_that_reuses_nothing():
    one = talk()
    one.ask(P, extra=OFF)
    assert "alora_cap" in one.kinds(one.ask(P + M, extra=ACTIVE))
    assert "alora_cap" not in one.kinds(one.ask(P + M, extra=ACTIVE, cache_prompt=False))


@pytest.mark.parametrize(("kind", "tail", "kinds"), [
    ("GA", 7, ["alora_pre", "alora_stop", "alora_again"]), ("GA", 0, 2 * ["alora_pre", "alora_again"]),
    ("A", 0, ["alora_pre", "alora_stop", "alora_again"]),
])  # fmt: skip
def test_a_batch_that_ends_before_the_invocation_anyway_is_not_stopped_there(kind, tail, kinds):
    """The batch of a hybrid ends four tokens before the end of the prompt, for a checkpoint."""
    one = Talk(kind, "b11549", lora_scaled=SCALES)
    answer = one.ask(P + M + R[:tail], extra=ACTIVE)
    assert one.kinds(answer, "alora_pre", "alora_stop", "alora_again") == kinds and one.right(answer)


def test_a_refused_request_for_several_completions_starts_none():
    one = Talk("AA", "b11549", lora_scaled="0@1,0@2", parallel=2, kv_unified=True)
    answer = one.ask(P, extra={"lora": "0:1,1:1"}, n_cmpl=2)
    assert (answer.status, answer.done) == (400, True)
    assert [event.text.partition(",")[0] for event in one.log.events if event.ev == "error"] == [
        "error: Cannot run multiple aLoRAs in a single request", "failed to launch slot with child task",
        "failed to launch slot with parent task"]  # fmt: skip
    assert not any(slot.busy or slot.children for slot in one.server.core.slots)
    assert one.ask(P, extra=OFF).status == 200


def test_a_refused_request_leaves_the_next_waiting_one_without_an_answer():
    """A slot that is released takes a single waiting request; a refused one releases none."""
    one = Talk("AA", "b11549", lora_scaled="0@1,0@2")
    first, refused, waiting = one.send(P, 4), one.send(Q, extra={"lora": "0:1,1:1"}), one.send(R)
    one.work()
    assert (first.status, refused.status, waiting.done) == (200, 400, False)
    one.ask(P)
    assert waiting.done and waiting.status == 200


def test_a_start_that_a_refused_request_leaves_is_not_the_start_of_a_request_without_an_alora():
    one = talk()
    assert one.ask((*P, *M, -1), extra=ACTIVE).status == 400
    answer = one.ask(R, extra=ZERO)
    assert len(answer.keys) == 1 and right(one, answer)


def test_the_invocation_in_one_slot_stops_another_slot_before_its_own():
    """The scale of the second slot went to the leader of its batch. It joins the next split batch without adapter."""
    one = Talk("AA", "b11549", lora_scaled="1@" + ".".join(map(str, M)), parallel=2, ctx_size=1024, batch_size=256)
    one.send(P + Q + M, id_slot=0, n=2)
    one.server.iterate()
    one.send(P + M + R, id_slot=1, n=4)
    for _ in range(2):
        one.server.iterate()
    one.send(Q + P + M + R, id_slot=0)
    one.work()
    found = [event for event in one.log.events if event.ev in ("alora_pre", "alora_stop", "batch") and event.slot == 1]
    assert [(event.ev, event.n_tokens) for event in found] == [
        ("batch", 0), ("alora_pre", 0), ("alora_stop", 39), ("batch", 39), ("alora_stop", 39), ("batch", 39),
    ]  # fmt: skip


def test_a_further_completion_knows_which_rows_belong_to_the_adapter():
    """The invocation begins at token 40, and the adapter a token before; its rows serve no request without it."""
    one = Talk("AA", "b11549", lora_scaled=SCALES, parallel=2, kv_unified=True, cache_idle_slots=False)
    answer = one.send((*P, *M, *R), 3, extra=ACTIVE, n_cmpl=2)
    slots = one.server.core.slots
    while not any(slot.task is not None and slot.n_gen for slot in slots):
        one.server.iterate()
    assert [slot.active for slot in slots] == [39, 39]
    one.work()
    assert answer.done and [len(child.tokens) for child in answer.children] == [3]


def test_a_list_that_is_accepted_is_no_decision():
    one = talk()
    assert [refuse_ids(one.server.core, given) for given in ({}, {0: 1.0}, {2: 0.5})] == ["", "", ""]
    assert [event for event in one.log.events if event.ev == "decided" and "IDS" in event.rule] == []


def test_a_refused_task_is_answered_at_once():
    one = talk()
    answer = one.send(P)
    task = one.server.core.queue[0]
    assert refuse(one.server.core, task, "no", "kind-of-error") is False
    assert (answer.status, answer.error, answer.error_kind, answer.done) == (400, "no", "kind-of-error", True)
    assert one.log.events[-1].text == "error: no"


@pytest.mark.parametrize(("before", "reused"), [(0, 13), (1, 0), (2, 1)])
def test_the_rows_of_an_alora_that_begins_with_the_prompt_serve_no_other_adapter(before, reused):
    """It begins a token before its invocation, but not before the prompt. A prompt that begins with the invocation is
    reused."""
    one = talk()
    answer = one.ask(P[:before] + M + R, extra=ACTIVE)
    assert right(one, answer)
    assert one.server.core.slots[0].active == max(0, before - 1)
    assert [first for first, _ in answer.keys] == ([0, 1] if before == 2 else [0])
    again = one.ask(P[:before] + M + R + Q, extra=ACTIVE)
    assert right(one, again) and again.cache_n == reused
    other = one.ask(P[:before] + M + R + Q, extra=OFF)
    assert right(one, other)


@pytest.mark.parametrize(("extra", "before", "n_keep", "active"), [
    (ACTIVE, 20, 4, 4), (ACTIVE, 20, 19, 19), (ACTIVE, 20, 30, 19), (NONE, 20, 4, -1),
])  # fmt: skip
def test_after_a_shift_the_rows_of_an_alora_begin_at_the_cut_at_the_latest(extra, before, n_keep, active):
    one = talk(context_shift=True, ctx_size=256)
    answer = one.ask(word("a", before) + M + word("b", 225), 20, n_keep=n_keep, extra=extra)
    assert len(answer.shifts) == 1
    assert one.server.core.slots[0].active == active


@pytest.mark.parametrize(("between", "start"), [(0, 24), (1, 12), (3, 14)])
def test_no_batch_ends_at_an_invocation_that_follows_an_image(between, start):
    """The rows of the aLoRA begin a token before its invocation; right after an image they begin with the next batch,
    here that of the answer."""
    talk = Talk("AA", "b11549", mmproj="causal", lora_scaled=SCALES, ctx_size=512, batch_size=32)
    answer = talk.ask(P[:6] + image_items("dog", 6, 3) + Q[:between] + M + R[:9], 2, extra=ACTIVE)
    assert [(first, key > 0) for first, key in answer.keys] == [(0, False), (start, True)]
    keys = [key_of(identity(token)) for token in talk.server.core.slots[0].tokens]
    assert keys == [0] * start + [answer.keys[1][1]] * (len(keys) - start) and talk.right(answer) is True


def test_an_image_before_all_text_is_evaluated_under_the_adapters_of_the_batch_before():
    talk = Talk("AA", "b11549", mmproj="causal", lora_scaled="0,0", ctx_size=512)
    answer = talk.ask(image_items("dog", 6, 3) + P[:9], 2, extra=ZERO)
    assert answer.deciding == "LC-MEDIA-LORA" and talk.right(answer) is False
    assert talk.ask(Q[:9], 2, extra=ZERO).deciding != "LC-MEDIA-LORA"


@pytest.mark.parametrize(("rules", "kinds"), [("b11549", ["reuse_result"]), ("b11549-lora-tried", [])])
def test_a_prompt_that_begins_with_an_invocation_moves_no_block_by_the_tried_rules(rules, kinds):
    one = Talk("AA", rules, "none", lora_scaled=SCALES, cache_reuse=4)
    one.ask(P, extra=OFF)
    assert one.kinds(one.ask((*M, *P[10:]), extra=ACTIVE), "reuse_chunk", "reuse_result") == kinds


def test_an_invocation_at_the_second_token_leaves_none_without_the_adapter():
    one = talk()
    starts = [[first for first, _ in one.ask((*P[:before], *M, *R), extra=ACTIVE).keys] for before in (0, 1, 2)]
    assert starts == [[0], [0], [0, 1]]


@pytest.mark.parametrize(("rules", "reused", "moves"), [("b11549", 42, True), ("b11549-lora-tried", 0, False)])
def test_the_tried_rules_reuse_no_row_of_another_alora_not_even_the_first(rules, reused, moves):
    """The whole conversation was computed with the first aLoRA, whose invocation begins it."""
    own = word("n", 3)
    two = "0@" + ".".join(map(str, M)) + ",0@" + ".".join(map(str, own))
    one = Talk("AA", rules, "none", lora_scaled=two, cache_reuse=4)
    one.ask((*M, *P), extra={"lora": "0:1"})
    answer = one.ask((*M, *P, *own), extra={"lora": "1:1"})
    assert answer.cache_n == reused and ("reuse_result" in one.kinds(answer)) is moves


@pytest.mark.parametrize(("before", "capped"), [(0, []), (1, [{"ev": "alora_cap", "n_past": 0, "start": 1}])])
def test_an_invocation_at_the_start_of_a_prompt_caps_nothing(before, capped):
    one = talk()
    assert one.events(one.ask((*P[:before], *M, *P), extra=ACTIVE), "alora_cap") == capped


def test_a_key_of_scales_is_odd_so_that_it_is_never_that_of_tokens_without_adapters():
    keys = [key_of_scales((0.0, scale)) for scale in (0.25, 0.5, 1.0, 2.0, 3.0, -1.0)]
    assert len({*keys}) == 6 and all(key % 2 == 1 and 0 < key < 1 << 62 for key in keys)
    assert key_of_scales(()) == key_of_scales((0.0, 0.0)) == 0 != key_of_scales((1.0, 0.0)) != keys[2]


@pytest.mark.parametrize(("start", "stop", "end"), [
    (5, 9, 9), (5, 10, 9), (5, 20, 9), (9, 20, 9), (10, 20, 20), (15, 20, 20),
])  # fmt: skip
def test_a_split_batch_also_stops_before_the_invocation_of_another_slot(start, stop, end):
    """The invocation of this slot begins at token 10."""
    one = talk()
    one.send(P)
    one.server.iterate()
    core, slot = one.server.core, one.server.core.slots[0]
    core.put_back, slot.alora_start = (slot, 1.0), 10
    assert stop_at_invocation(core, slot, slot.task or Task(1, Request(P), Answer(1)), start, stop, None) == end


@pytest.mark.parametrize(("rules", "moved"), [("b11549", 40), ("b11549-lora-tried", 0)])
def test_the_tried_rules_move_no_block_whose_rows_an_alora_computed_from_the_first_on(rules, moved):
    """The second prompt lacks the invocation, so that its aLoRA is off."""
    one = Talk("AA", rules, "none", lora_scaled=SCALES, cache_reuse=4)
    one.ask((*M, *P), extra=ACTIVE)
    assert one.ask((*P, *R), extra=ACTIVE).cache_n == moved


def test_an_embedding_has_no_rows_of_an_adapter_before_it():
    one = Talk("AA", "b11549", lora_scaled=SCALES, ctx_size=512, batch_size=64)
    one.ask(P[:9] + M + R, 2, extra=ACTIVE)
    [slot] = one.server.core.slots
    assert slot.active == 8
    assert one.ask(P[:3], kind="embedding").status == 200 and slot.active == -1
