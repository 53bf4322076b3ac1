"""Images in prompts of ik_llama.cpp's server: read in its source, never run."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.media_items import image_items
from cachesim.engines.base import Request
from cachesim.engines.ik_llama import ENGINE
from cachesim.engines.shared.vocab import recorded_piece
from cachesim.events import Log

CAT, DOG = image_items("cat", 16, 16), image_items("dog", 16, 16)
TEXT, MORE = tuple(range(1000, 1070)), tuple(range(1100, 1114))
FLAGS = {"ctx_size": 1024, "batch_size": 128, "ubatch_size": 128, "parallel": 1, "flash_attn": False,
         "mmproj": "causal"}  # fmt: skip


def start(model="A", build="main", **flags):
    return ENGINE.start(ENGINE.rules(f"ik_llama@{build}"), model, {**FLAGS, **flags}, "provenance", Log())


def ask(server, *prompt, **fields):
    return server.complete(Request(sum(prompt, ()), n_predict=2, **fields))


def kinds(server, *names):
    return [event for event in server.log.events if event.ev in names]


def test_an_image_is_evaluated_before_the_batch_and_reused_as_a_whole():
    server = start()
    assert ask(server, TEXT, CAT, MORE).prompt_n == 100
    assert [event.n_tokens for event in kinds(server, "media_decode")] == [16]
    assert ask(server, TEXT, CAT, MORE, MORE).cache_n == 100
    assert ask(server, TEXT, DOG, MORE).cache_n == 70


def test_an_image_is_evaluated_in_pieces_of_a_batch():
    server = start()
    ask(server, TEXT, image_items("big", 300, 300), MORE)
    assert [(event.n, event.of, event.n_tokens) for event in kinds(server, "media_decode")] == [
        (1, 3, 128), (2, 3, 128), (3, 3, 44)]  # fmt: skip


def test_an_iteration_evaluates_a_single_image():
    server = start()
    ask(server, TEXT, CAT, DOG, MORE)
    assert [event.n_tokens for event in kinds(server, "batch")] == [0, 70, 86]
    assert [event.n_tokens for event in kinds(server, "decode")] == [70, 14, 1]


def test_a_checkpoint_is_created_after_an_image_and_text():
    """Source: #26994 of llama.cpp, whose server creates none in the iteration of an image."""
    server = start("GGGA", ctx_checkpoints_tolerance=5)
    ask(server, TEXT, CAT, MORE)
    assert [event.n_tokens for event in kinds(server, "ckpt_create")] == [95, 101]


@pytest.mark.parametrize("tolerance", [14, 15, 29])
def test_no_checkpoint_is_due_inside_an_image_or_directly_after_it(tolerance):
    server = start("GGGA", ctx_checkpoints_tolerance=tolerance)
    ask(server, TEXT, CAT, MORE)
    assert [event.n_tokens for event in kinds(server, "ckpt_create")] == [101]


def test_no_checkpoint_is_created_after_an_image_alone():
    server = start("GGGA", ctx_checkpoints_interval=16, ctx_checkpoints_tolerance=0, parallel=2)
    server.submit(Request(MORE, n_predict=9))
    server.iterate()
    ask(server, TEXT, CAT, DOG, MORE)
    assert [event.n_tokens for event in kinds(server, "ckpt_create")] == [70, 116, 117]
    declined = [event for event in kinds(server, "declined") if event.rule == "IK-MEDIA-CKPT"]
    assert [event.n_tokens for event in declined] == [86]


def test_the_state_before_an_image_is_lost_without_a_short_interval():
    server = start("GGGA")
    ask(server, TEXT, CAT, MORE, TEXT)
    assert ask(server, TEXT, CAT, MORE[1:], TEXT).cache_n == 0
    server = start("GGGA", ctx_checkpoints_interval=64)
    ask(server, TEXT, CAT, MORE, TEXT)
    assert ask(server, TEXT, CAT, MORE[1:], TEXT).cache_n == 70


def test_a_prompt_that_ends_with_an_image_ends_the_process():
    answer = ask(start(), TEXT, CAT)
    assert (answer.died, answer.error_kind) == (True, "empty-batch")
    server = start()
    ask(server, TEXT, CAT, MORE)
    answer = ask(server, TEXT, CAT)
    assert (answer.died, answer.error_kind) == (True, "cut-inside-an-image")


def test_a_prompt_that_ends_with_an_image_is_answered_from_another_slots_token():
    server = start(parallel=2)
    first = server.submit(Request(MORE, n_predict=9))
    server.iterate()
    second = server.submit(Request((*TEXT, *CAT), n_predict=2))
    while server.working:
        server.iterate()
    assert (first.status, second.status, len(second.tokens)) == (200, 200, 2)
    [reads] = [event for event in kinds(server, "decided") if event.rule == "IK-MEDIA-END"]
    assert reads.because == {"n_batch": 1}
    assert second.outputs[0].digest in {output.digest for output in first.outputs}


def test_before_1913_changed_text_directly_after_an_image_ends_the_process():
    for build, died in (("1889-base", True), ("1949", False)):
        server = start(build=build)
        ask(server, TEXT, CAT, MORE)
        assert ask(server, TEXT, CAT, TEXT).died is died


def test_a_token_of_no_model_ends_the_process_with_or_without_a_projector():
    assert ask(start(), TEXT, (-1,)).died
    assert ask(start(mmproj=""), TEXT, (-1,), MORE).died
    assert ask(start(mmproj="", build="1398"), TEXT).status == 200


def test_an_image_without_causal_mask_must_fit_into_a_micro_batch():
    assert ask(start(mmproj="gemma3", ubatch_size=8), TEXT, CAT, MORE).died
    assert ask(start(mmproj="gemma3"), TEXT, CAT, MORE).status == 200


def test_an_image_has_a_single_position_with_mrope():
    server = start("qwen35d64", ctx_checkpoints_interval=64)
    wide = image_items("wide", 12, 4)
    ask(server, TEXT, wide, MORE, TEXT)
    ask(server, TEXT, wide, MORE, MORE)
    assert [(event.n_tokens, event.p0) for event in kinds(server, "batch")] == [
        (0, 0), (70, 70), (161, 150), (70, 70), (105, 94)]  # fmt: skip
    assert [(event.pos_max, event.n_tokens) for event in kinds(server, "ckpt_restore")] == [(69, 70)]


def test_a_checkpoint_after_an_image_is_restored_with_the_tokens_of_its_positions():
    """The image has 12 tokens and a single position: 125 tokens have 114 positions."""
    server = start("qwen35d64", ctx_checkpoints_interval=16)
    text = (*TEXT, *image_items("wide", 12, 4), *MORE, *TEXT[:20])
    ask(server, text, MORE)
    assert [(event.pos_max, event.n_tokens) for event in kinds(server, "ckpt_create")] == [(69, 70), (113, 125),
                                                                                         (119, 131)]  # fmt: skip
    answer = ask(server, text, MORE[:12], TEXT)
    [restored] = kinds(server, "ckpt_restore")
    assert (restored.pos_max, restored.n_tokens, restored.n_past) == (113, 125, 125)
    assert (answer.cache_n, answer.prompt_n, len(server.core.slots[0].tokens)) == (125, 116 + 12 + 70 - 125, 199)


def test_a_context_shift_ends_at_no_image():
    server = start(ctx_size=128)
    server.complete(Request((*TEXT[:30], *CAT, *TEXT[30:]), n_predict=60, n_keep=40))
    [shift] = kinds(server, "ctx_shift")
    assert (shift.n_keep, shift.n_discard) == (30, 43)
    assert server.complete(Request((*TEXT, *image_items("long", 60, 60), *MORE), n_predict=2)).truncated


@pytest.mark.parametrize(("before", "shifts", "kind"), [
    (118, [127, 127], ""), (120, [129], "cut-inside-an-image"), (127, [127, 127], ""),
])  # fmt: skip
def test_a_second_shift_that_ends_inside_an_image_of_the_prompt_ends_the_process(before, shifts, kind):
    """The first one has discarded the image of 8 tokens, or kept it, but its place in the prompt is still compared."""
    server = start(ctx_size=256)
    prompt = (*range(1000, 1000 + before), *image_items("small", 8, 6), *TEXT[:5])
    answer = server.complete(Request(prompt, n_predict=300))
    assert [shift.n_discard for shift in kinds(server, "ctx_shift")] == shifts
    assert (answer.died, answer.error_kind) == (bool(kind), kind)


def test_an_image_without_free_cells_is_tried_until_there_are_some():
    server = start(ctx_size=256, parallel=2)
    ask(server, tuple(range(100)), id_slot=0)
    ask(server, tuple(range(200, 300)), id_slot=1)
    failed = ask(server, (5, *image_items("long", 110, 110), 6), id_slot=0)
    assert (failed.status, failed.error, failed.done, server.stuck) == (500, "failed to process image", True, True)
    assert ask(server, (7, 8), id_slot=1).status == 200
    assert (server.stuck, failed.tokens, len(server.core.slots[0].tokens)) == (False, [], 113)


def test_the_client_of_an_image_that_failed_reads_nothing_of_what_the_slot_goes_on_with():
    """The slot evaluates the image when there is room, and shifts its context as its answer grows."""
    server = start(ctx_size=256, parallel=2)
    ask(server, tuple(range(100)), id_slot=0)
    ask(server, tuple(range(200, 300)), id_slot=1)
    failed = server.submit(Request((5, *image_items("long", 110, 110), 6), n_predict=40, id_slot=0))
    while server.working:
        server.iterate()
    rounds = [event.rule for event in server.log.events if event.ev == "decided"]
    assert rounds[-1] == "IK-MEDIA-KV", "nothing is planned after the failure in a round"
    assert ask(server, (7, 8), id_slot=1).status == 200
    while server.working:
        server.iterate()
    assert len(kinds(server, "ctx_shift")) == 1 and not server.core.dead
    assert (failed.status, failed.tokens, failed.outputs, failed.shifts) == (500, [], [], [])


def test_a_client_that_leaves_does_not_stop_a_request_at_an_image():
    server = start(ubatch_size=8)
    answer = ask(server, TEXT, CAT, MORE, cancel_at=75, extra={"stream": False})
    assert (answer.cancelled, answer.predicted_n, answer.prompt_n) == (True, 2, 100)


def test_a_projector_excludes_drafts_but_those_of_an_mtp_head():
    server = start(spec_type="ngram-simple")
    assert ask(server, TEXT, CAT, MORE, draft_else=3).draft_n == 0
    assert server.core.settings.n_max == 0
    assert start("GA+M", spec_type="mtp").core.settings.n_max == 16


def test_images_need_a_projector_and_known_rules():
    with pytest.raises(BadInput, match="the prompt has an image"):
        ask(start(mmproj=""), TEXT, CAT)
    with pytest.raises(BadInput, match="images are not known of ik_llama@1743"):
        ask(start(build="1743"), TEXT, CAT)
    with pytest.raises(BadInput, match="only without a projector"):
        ask(start(context_shift=False), TEXT, MORE, extra={"system_tokens": 4})


def test_requests_have_no_adapters():
    """The source has only a list of the server (`POST /lora-adapters`), which no request changes."""
    assert ENGINE.manual.ignored(Request(TEXT, extra={"lora": "0:1"})) == ["lora"]
    with pytest.raises(BadInput, match="its requests have none"):
        start().set_adapters("0:1")


def test_an_image_is_placed_by_its_index_in_the_prompt():
    server = start("llama")
    [ban] = [token for token in range(320) if recorded_piece(token) == "Ban"]
    two = tuple(next(token for token in range(320) if recorded_piece(token) == piece) for piece in ("Ba", "n"))
    ask(server, (ban,), TEXT)
    ask(server, two, TEXT, CAT, MORE)
    assert server.sequences.held(0).tolist() == [*range(71), *range(72, 87), 87, 87, *range(88, 102)]


def test_a_restored_checkpoint_counts_the_tokens_of_an_image(tmp_path):
    server = start("qwen35d64")
    ask(server, TEXT, CAT, MORE)
    server.slot("save", 0, tmp_path / "slot")
    server.slot("restore", 0, tmp_path / "slot")
    assert server.inspection.checkpoints(0) == [95, 101]
    assert server.sequences.checkpoint_spans(0) == [(79, 79), (85, 85)]


def test_an_image_and_the_text_after_it_use_no_earlier_graph():
    for image, again in ((image_items("pair", 2, 2), 0), ((5, 6), 1)):
        server = start("GA", build="1889-base", ubatch_size=2, parallel=2)
        ask(server, MORE[:1], id_slot=0)
        ask(server, TEXT[:2], image, MORE[:1], id_slot=1)
        assert len([event for event in kinds(server, "decided") if event.rule == "IK-GRAPH.SHAPE"]) == again


@pytest.mark.parametrize(("build", "dies", "held"), [("main", False, [16, 21]), ("1889-base", True, [16, 33])])
def test_a_list_that_a_disconnect_cuts_after_an_image_may_end_the_process(build, dies, held):
    """The client of slot 0 leaves after the first micro-batch; slot 1 has evaluated text and an image, and its next
    text is in the batch."""
    server = start(build=build, parallel=2, batch_size=64, ubatch_size=16)
    behind = server.submit(Request((*TEXT[:5], *CAT, *MORE[:12]), 3, id_slot=1))
    server.iterate()
    ahead = server.submit(Request(tuple(range(2000, 2040)), 9, id_slot=0, cancel_at=10, extra={"stream": False}))
    server.iterate()
    assert server.core.dead is dies and [len(slot.tokens) for slot in server.core.slots] == held
    assert [(one.died, one.cancelled, one.error_kind) for one in (ahead, behind)] == [
        (dies, True, "cut-inside-an-image" if dies else "")] * 2
