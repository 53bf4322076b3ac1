"""Images in prompts of llama-server: what is evaluated when, and what fails."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.media_items import image_items
from cachesim.engines.base import Request
from cachesim.engines.llama_cpp import ENGINE
from cachesim.engines.llama_cpp.media import purge_idle
from cachesim.events import Log
from tests.unit.engines.llama_cpp.talk import Talk

CAT, DOG = image_items("cat", 16, 16), image_items("dog", 16, 16)
TEXT, MORE = tuple(range(20)), tuple(range(30, 44))
FLAGS = {"ctx_size": 1024, "batch_size": 64, "ubatch_size": 16, "parallel": 1, "mmproj": "causal"}


def start(model="AA", build="b11549", **flags):
    rules = ENGINE.rules(f"llama_cpp@{build}")
    return ENGINE.start(rules, model, {**FLAGS, **flags}, "provenance", Log())


def ask(server, *prompt):
    return server.complete(Request(sum(prompt, ()), n_predict=2))


def kinds(server, *names):
    return [event for event in server.log.events if event.ev in names]


def test_an_image_is_evaluated_before_the_batch_and_reused_as_a_whole():
    server = start()
    assert ask(server, TEXT, CAT, MORE).prompt_n == 50
    assert [event.n_tokens for event in kinds(server, "media_decode")] == [16]
    assert ask(server, TEXT, CAT, MORE, MORE).cache_n == 50
    assert ask(server, TEXT, DOG, MORE).cache_n == 20


def test_an_image_is_evaluated_in_pieces_of_a_batch():
    server = start()
    ask(server, TEXT, image_items("big", 150, 150), MORE)
    assert [(event.n, event.of, event.n_tokens) for event in kinds(server, "media_decode")] == [
        (1, 3, 64), (2, 3, 64), (3, 3, 22)]  # fmt: skip


def test_no_checkpoint_is_created_after_an_image():
    server = start("GGGA")
    ask(server, TEXT, CAT, MORE)
    assert [event.n_tokens for event in kinds(server, "ckpt_create")] == [46]


def test_a_prompt_that_ends_with_an_image_ends_the_process_or_fails():
    server = start()
    ask(server, TEXT, CAT, MORE)
    answer = ask(server, TEXT, CAT)
    assert (answer.status, answer.error) == (500, "got exception: Chunk not found")
    assert ask(server, TEXT, CAT, MORE).cache_n == 49
    assert ask(start(), TEXT, CAT).died


def test_a_token_of_no_model_at_an_image_ends_the_process():
    server = start()
    ask(server, TEXT, CAT, MORE)
    assert ask(server, MORE, (-1,)).error == "Prompt contains invalid tokens"
    server = start()
    ask(server, TEXT, CAT, MORE)
    assert ask(server, TEXT, (-1,)).died


@pytest.mark.parametrize(("between", "last"), [((), "pc_save"), ((MORE,), "pc_search")])
def test_a_token_of_no_model_meets_the_image_of_a_slot_or_of_a_stored_conversation(between, last):
    """Slots are not compared, but the prompt cache compares the slot and its own conversations with the prompt."""
    server = start(slot_prompt_similarity=0.0)
    for prompt in ((*TEXT, *CAT, *MORE), *between):
        ask(server, prompt)
    answer = ask(server, TEXT, (-1,))
    assert (answer.died, answer.error) == (True, "Chunk not found")
    assert [event.ev for event in server.log.events if event.logged and event.ev != "aborted"][-1] == last


def test_a_request_that_follows_a_cancelled_one_can_end_the_process():
    """It is given the slot, and compared with its image, while the cancellation is processed."""
    server = start()
    leaving = server.submit(Request((*TEXT, *CAT, *MORE), n_predict=20, cancel_at=55))
    server.iterate()
    waiting = server.submit(Request((*TEXT, -1), n_predict=2))
    while not leaving.done:
        server.iterate()
    assert leaving.cancelled and not leaving.died
    assert (server.dead, waiting.died, waiting.done, waiting.error) == (True, True, True, "Chunk not found")


def test_an_image_without_causal_mask_must_fit_into_a_micro_batch():
    assert ask(start(mmproj="gemma3", ubatch_size=8), TEXT, CAT, MORE).died
    assert ask(start(mmproj="gemma3"), TEXT, CAT, MORE).status == 200


def test_positions_after_an_image_are_fewer_than_tokens_with_2d_positions():
    server = start("qwen2vl")
    ask(server, TEXT, image_items("wide", 12, 4), MORE)
    ask(server, TEXT, image_items("wide", 12, 4), MORE, MORE)
    assert [(event.n_tokens, event.p0) for event in kinds(server, "batch")] == [(0, 0), (20, 20), (46, 38)]


def test_no_positions_are_moved_with_a_projector():
    server = start(cache_reuse=4)
    ask(server, TEXT)
    server.complete(Request(TEXT[4:] + MORE, n_predict=2, n_cache_reuse=4))
    assert len(kinds(server, "reuse_unsupported")) == 1


def test_images_need_a_projector_and_a_known_build():
    with pytest.raises(BadInput, match="the prompt has an image"):
        ask(start(mmproj=""), TEXT, CAT)
    with pytest.raises(BadInput, match="images are not known of llama_cpp@b9765"):
        ask(start(build="b9765"), TEXT, CAT)


def test_evaluation_continues_after_a_checkpoint_at_the_end_of_an_image():
    server = start("W8 A", checkpoint_min_step=0)
    for prompt in ((*TEXT, *CAT, *MORE), (*TEXT, *CAT, 30), MORE, (*TEXT, *CAT, 30)):
        server.complete(Request(prompt, n_predict=20))
    found = kinds(server, "ckpt_restore")
    assert [(event.pos_max, event.n_tokens, event.n_past) for event in found] == [(35, 36, 36)]


def test_all_images_of_a_slot_file_are_rounded_up_together(tmp_path):
    sizes = []
    for number in range(4):
        server = start()
        ask(server, *((CAT,) * number), MORE)
        text = start()
        ask(text, tuple(range(30, 30 + 16 * number)), MORE)
        sizes.append([one.slot("save", 0, tmp_path / "f")["n_written"] for one in (server, text)])
    assert [images - text for images, text in sizes] == [0, 148, 292, 436]        # 145 bytes each


def test_a_draft_model_without_2d_positions_cannot_follow_an_image():
    for draft in ("S", "A"):
        server = start("qwen2vl", spec_type="draft-simple", model_draft=draft)
        answer = ask(server, TEXT, image_items("wide", 12, 4), MORE)
        assert (answer.status, answer.error) == (500, "decode() failed: failed to process speculative batch")
    assert ask(server, TEXT, MORE).status == 200
    answer = ask(server, TEXT, image_items("wide", 12, 4), CAT, MORE)
    assert (answer.status, answer.error) == (500, "failed to process mtmd chunk")
    assert [event.text for event in kinds(server, "error")][-6:-1] == [
        "decode: failed to initialize batch",
        "failed to decode draft batch, ret = -1", "post-decode callback failed",
        "failed to decode mtmd chunk, idx = 32, res = 1", "failed to process mtmd chunk, res = -1"]  # fmt: skip


def test_a_slot_ends_before_an_image_that_found_no_cells():
    server = start(parallel=2, kv_unified=True, ctx_size=256)
    busy = server.submit(Request(tuple(range(300, 536)), n_predict=12, id_slot=0))
    while len(server.core.slots[0].tokens) < 236:
        server.iterate()
    failed = server.submit(Request((*TEXT[:8], *CAT, *MORE), n_predict=1, id_slot=1))
    while server.working:
        server.iterate()
    assert (failed.status, failed.error, busy.status) == (500, "failed to process mtmd chunk", 200)
    assert [tuple(slot.tokens[:8]) for slot in server.core.slots] == [tuple(range(300, 308)), TEXT[:8]]
    assert [len(slot.tokens) for slot in server.core.slots] == [247, 8]
    assert [event.text for event in kinds(server, "error") if "mtmd" in event.text] == [
        "failed to decode mtmd chunk, idx = 8, res = 1", "failed to process mtmd chunk, res = -1",
        "error: failed to process mtmd chunk"]  # fmt: skip


def test_a_slot_is_logged_until_a_token_of_no_model_meets_its_image():
    server = start(parallel=2, kv_unified=True)
    ask(server, TEXT, CAT, MORE)
    before = len(server.log.events)
    assert ask(server, TEXT, (-1,)).died
    assert [event.ev for event in server.log.events[before:] if event.logged] == ["slot_skip_empty"]


def test_a_request_that_waits_is_tried_before_the_child_of_a_failed_image_is_cancelled():
    server = start(parallel=2, kv_unified=True, ctx_size=256)
    server.complete(Request(tuple(range(100, 250)), n_predict=1, id_slot=0))
    parent = server.submit(Request((*range(300, 394), *CAT, *MORE), n_predict=1, id_slot=1, n_cmpl=2))
    late = server.submit(Request(TEXT, n_predict=1, id_slot=0))
    for _ in range(3):
        server.iterate()
    assert server.tasks.disconnect_is_next
    assert (parent.status, parent.error) == (500, "failed to process mtmd chunk")
    server.tasks.take_queue()
    assert len(server.core.deferred) == 1
    while server.working:
        server.iterate()
    assert late.status == 200 and late.id_slot == 0


@pytest.mark.parametrize(("unified", "cleared"), [(True, [0, 1, None]), (False, [None])])
def test_idle_slots_are_cleared_one_by_one_in_a_common_buffer(unified, cleared):
    server = start(parallel=2, kv_unified=unified, cache_idle_slots=False, cache_ram=0)
    for slot in (0, 1):
        server.complete(Request(TEXT[slot:], 1, id_slot=slot))
    for number in cleared:
        told = len(server.log.events)
        assert purge_idle(server.core) is (number is not None)
        purged = [(event.slot_arg, event.n_tokens) for event in server.log.events[told:] if event.ev == "slot_purge"]
        assert purged == ([] if number is None else [(number, 20 - number)])
    assert [len(slot.tokens) for slot in server.core.slots] == ([0, 0] if unified else [20, 19])


@pytest.mark.parametrize(("build", "cleared"), [("b11549", [1, 2]), ("b11549-repaired", [1, 2, 0])])
def test_a_slot_whose_request_has_not_begun_is_cleared_after_all_idle_slots_or_never(build, cleared):
    server = start(build=build, parallel=3, kv_unified=True, cache_idle_slots=False, cache_ram=0)
    for slot in (0, 1, 2):
        server.complete(Request(TEXT[slot:], 1, id_slot=slot))
    server.submit(Request(MORE, 1, id_slot=0))
    server.take_tasks()
    assert [slot.busy for slot in server.core.slots] == [True, False, False]
    while purge_idle(server.core):
        pass
    assert [event.slot_arg for event in kinds(server, "slot_purge")] == cleared


def test_a_prompt_may_have_several_images_at_a_place():
    server = start()
    answer = ask(server, TEXT, CAT, DOG, CAT, MORE)
    assert (answer.prompt_n, [event.n_tokens for event in kinds(server, "media_decode")]) == (82, [16, 16, 16])
    assert ask(server, TEXT, CAT, DOG, CAT, MORE, MORE).cache_n == 82


def test_a_process_that_dies_answers_every_request_and_takes_no_more():
    """A prompt ends with an image; another request waits for the slot, and a third one arrives."""
    server = start()
    answers = [server.submit(Request((*TEXT, *CAT), 2)), server.submit(Request(MORE, 2))]
    server.take_tasks()
    assert len(server.core.deferred) == 1
    answers.append(server.submit(Request(TEXT, 2)))
    while not server.dead:
        server.update()
    assert [(answer.died, answer.done) for answer in answers] == [(True, True)] * 3
    assert not server.core.queue and not server.core.deferred and not server.working
    assert [(slot.busy, slot.task) for slot in server.core.slots] == [(False, None)]
    assert [event.ev for event in server.log.events][-1] == "aborted"
    later = server.submit(Request(TEXT, 2))
    assert later.died and not server.core.queue


def test_two_images_in_a_row_are_counted_together():
    talk = Talk("W", "b11549", "none", mmproj="causal", ctx_size=1024)
    for prompt in ((*TEXT, *CAT, *DOG, *MORE), (*MORE, *CAT, *TEXT)):
        talk.ask(prompt)
    decided = [event.because["images"] for event in talk.log.events if event.ev == "decided"
               and event.rule.startswith("LC-MEDIA-CKPT")]  # fmt: skip
    assert decided == [2, 1]
