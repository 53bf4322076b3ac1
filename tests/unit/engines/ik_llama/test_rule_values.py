"""Values of rules at the borders of their arguments, variants beside each other."""

from __future__ import annotations

import pytest

from cachesim.base.media_items import image_items
from cachesim.engines.ik_llama.rules import (
    carried_over,
    checkpoint_create,
    checkpoint_restore,
    common_prefix,
    context_shift,
    media,
    micro_batch,
    prompt_cache,
    repaired,
    slot_file,
    slot_selection,
    speculative,
    trim,
)
from cachesim.engines.ik_llama.rules.carried_over import ClearedObjects
from cachesim.engines.ik_llama.rules.checkpoint_restore import CheckpointNeed, Ckpt, RestoreInputs, ResumePlace
from cachesim.engines.ik_llama.rules.common_prefix import CommonLength
from cachesim.engines.ik_llama.rules.context_shift import CacheShift, PromptShift, Shift
from cachesim.engines.ik_llama.rules.micro_batch import ComputeGraph
from cachesim.engines.ik_llama.rules.prompt_cache import Admission, EntryFacts
from cachesim.engines.ik_llama.rules.slot_selection import ComparedTexts, SlotFacts
from cachesim.engines.shared.prompt_cache_limits import Eviction, Limits

TEXT = tuple(range(6))
CAT, DOG = image_items("cat", 4, 4), image_items("dog", 3, 3)
INSIDE = TEXT + CAT + TEXT                       # the image: tokens 6 .. 9
CUT = "terminate called after throwing an instance of 'std::runtime_error': "
NOT_FOUND = CUT + "Chunk not found, or idx is not the first token of a chunk"


def ckpt(pos_max, pos_min=None, n_tokens=None, **more):
    pos_min = pos_max if pos_min is None else pos_min
    return Ckpt(pos_min, pos_max, pos_min, pos_max, pos_max + 1 if n_tokens is None else n_tokens, 100, **more)


def ask(n_past=20, held=30, pos_min=0, states=False, private=False, prompt=None, asked=40, restored=-1):
    return RestoreInputs(n_past, n_past if prompt is None else prompt, held, pos_min, states, private, asked, restored)


@pytest.mark.parametrize(("given", "values"), [
    # or-private, reached, beyond, states, deep: the threshold is 19
    (ask(pos_min=18), (False, False, False, False, False)), (ask(pos_min=19), (True, True, False, False, False)),
    (ask(pos_min=20), (True, True, True, True, False)), (ask(pos_min=21), (True, True, True, True, False)),
    (ask(pos_min=22), (True, True, True, True, True)), (ask(pos_min=22, held=20), (False,) * 5),
    (ask(n_past=0, pos_min=5), (False,) * 5), (ask(n_past=1, held=2, pos_min=0), (True, True, False, False, False)),
    (ask(n_past=1, held=2, pos_min=3), (True,) * 5), (ask(n_past=29, pos_min=99), (True,) * 5),
    (ask(n_past=30, pos_min=99), (False,) * 5), (ask(n_past=0, pos_min=99, private=True, states=True), (False,) * 5),
    (ask(n_past=1, held=2, private=True, states=True), (True, True, False, True, False)),
    (ask(pos_min=0, private=True), (True, False, False, False, False)),
    (ask(pos_min=0, states=True), (False, False, False, True, False)),
])  # fmt: skip
def test_a_checkpoint_is_needed_inside_the_slot(given, values):
    found = [need(given) for need in (checkpoint_restore.need_or_private, checkpoint_restore.need_reached,
                                      checkpoint_restore.need_beyond, checkpoint_restore.need_states,
                                      checkpoint_restore.need_deep)]  # fmt: skip
    assert tuple(bool(one.value) for one in found) == values
    assert not checkpoint_restore.need_never(given).value
    assert found[0].because == {"n_past": given.n_past, "held": given.held, "pos_min": given.pos_min,
                                "thold": max(0, given.n_past - 1), "private": given.private, "ckpts": []}  # fmt: skip


@pytest.mark.parametrize(("given", "picks"), [
    # pos-max, pos-min, within, pr1888, of checkpoints that end at 0, 18, 19, 20, 21
    (ask(), (1, 1, 2, 3)), (ask(private=True), (2, 1, 2, 3)), (ask(n_past=1), (None, 0, 0, 0)),
    (ask(n_past=30), (4, 4, 4, 4)), (ask(n_past=0), (None, 0, None, 0)),
])  # fmt: skip
def test_the_newest_checkpoint_within_the_bound_is_picked(given, picks):
    ckpts = [ckpt(0), ckpt(18), ckpt(19), ckpt(20), ckpt(21)]
    found = [pick(ckpts, given).value for pick in (checkpoint_restore.pick_pos_max, checkpoint_restore.pick_pos_min,
                                                   checkpoint_restore.pick_within, checkpoint_restore.pick_pr1888)]
    assert tuple(found) == picks
    assert checkpoint_restore.pick_pos_min([], given).value is None


def test_a_checkpoint_from_the_first_position_on_is_always_picked():
    """None of them ends before the prompt leaves the slot."""
    ckpts = [ckpt(30, 0), ckpt(30, 1)]
    for given, place in ((ask(n_past=0), 0), (ask(n_past=1), 0), (ask(n_past=2), 0), (ask(n_past=3), 1)):
        assert checkpoint_restore.pick_pr1888(ckpts, given).value == place
        assert checkpoint_restore.pick_pos_min(ckpts, given).value == place


@pytest.mark.parametrize(("kept", "given", "end", "cache", "most", "draft"), [
    (ckpt(9), ask(), (10, 10), (10, 10), (10, 10), (10, 10)),
    (ckpt(9, 4), ask(), (9, 10), (9, 9), (9, 9), (10, 10)),
    (ckpt(9, 4), ask(private=True), (10, 10), (10, 10), (9, 9), (10, 10)),
    (ckpt(25), ask(), (20, 20), (20, 20), (20, 20), (26, 26)),
    (ckpt(9), ask(prompt=15), (10, 10), (10, 5), (10, 10), (10, 10)),
    (ckpt(9), ask(prompt=5), (10, 5), (10, 0), (10, 5), (10, 10)),
    (ckpt(25), ask(asked=9), (20, 20), (20, 20), (20, 20), (26, 8)),
])  # fmt: skip
def test_evaluation_resumes_after_a_checkpoint(kept, given, end, cache, most, draft):
    found = [resume(kept, given).value for resume in (
        checkpoint_restore.resume_prompt_end, checkpoint_restore.resume_from_cache,
        checkpoint_restore.resume_prompt_max, checkpoint_restore.resume_checkpoint)]  # fmt: skip
    assert [tuple(one)[:2] for one in found] == [end, cache, most, draft]
    assert [one.last_checkpoint for one in found] == [kept.pos_max, kept.pos_max, -1, -1]


def test_without_a_checkpoint_evaluation_starts_anew_or_goes_on():
    given = ask(prompt=18)
    assert checkpoint_restore.reset_tokens(given).value == ResumePlace(0, 0, True)
    assert checkpoint_restore.reset_counts(given).value == ResumePlace(0, 0)
    assert checkpoint_restore.reset_none(given).value == ResumePlace(20, 18)


@pytest.mark.parametrize(("given", "thold", "pos_min", "beyond", "restored"), [
    (ask(), (2, 3), (3,), (3,), (2, 3)), (ask(restored=19), (2, 3), (3,), (3,), (1, 2, 3)),
    (ask(restored=0), (2, 3), (3,), (3,), (0, 1, 2, 3)),
])  # fmt: skip
def test_checkpoints_behind_the_bound_are_erased(given, thold, pos_min, beyond, restored):
    ckpts = [ckpt(18), ckpt(19), ckpt(20, 19), ckpt(21)]
    assert checkpoint_restore.erase_thold(ckpts, given).value == thold
    assert checkpoint_restore.erase_pos_min(ckpts, given).value == pos_min
    assert checkpoint_restore.erase_beyond(ckpts, given).value == beyond
    assert checkpoint_restore.erase_restored(ckpts, given).value == restored


@pytest.mark.parametrize(("ckpts", "held", "created"), [
    ([], 64, True), ([ckpt(69)], 71, True), ([ckpt(69)], 70, False), ([ckpt(69)], 69, False),
    ([ckpt(69, unset=(1, 0))], 90, None),
])  # fmt: skip
def test_a_checkpoint_has_more_tokens_than_the_last(ckpts, held, created):
    assert checkpoint_create.create_by_tokens(ckpts, held, 0, held - 1, True).value is created
    assert checkpoint_create.create_from_four(ckpts, held, 0, held - 1, True).value is created
    by_position = checkpoint_create.create_by_position(ckpts, held, 0, held - 1, True)
    assert by_position.value is (not ckpts or held - 1 > 69)
    assert by_position.because == {"start": held, "pos_max": held - 1, "last": ckpts[-1].n_tokens if ckpts else 0}


@pytest.mark.parametrize(("start", "tolerance", "end"), [
    (0, 5, (64, False)), (31, 5, (95, True)), (95, 5, (100, False)), (94, 5, (95, True)), (36, 0, (100, True)),
    (36, -1, (100, False)), (30, 5, (94, False)), (96, 5, (100, False)),
])  # fmt: skip
def test_a_batch_ends_where_the_tolerance_is_left(start, tolerance, end):
    assert checkpoint_create.break_tolerance(start, 100, 64, tolerance).value == end
    assert checkpoint_create.break_none(start, 100, 64, tolerance).value == (min(100, start + 64), False)


@pytest.mark.parametrize(("last", "pos_max", "interval", "exact", "early"), [
    (0, 64, 64, True, True), (0, 63, 64, False, True), (0, 62, 64, False, False), (64, 128, 64, True, True),
    (64, 127, 64, False, True), (0, 99, 0, False, False), (0, 1, 1, True, True), (0, 0, 1, False, True),
])  # fmt: skip
def test_a_checkpoint_is_due_after_an_interval(last, pos_max, interval, exact, early):
    assert checkpoint_create.interval_exact(last, pos_max, interval).value is exact
    assert checkpoint_create.interval_one_early(last, pos_max, interval).value is early


A, B = EntryFacts(10, 20, 10, 10), EntryFacts(30, 20, 20, 20)


@pytest.mark.parametrize(("entries", "admission"), [
    ([], Admission("store")), ([A], Admission("store", (0,))), ([A, B], Admission("already", (0,))),
    ([B, A], Admission("already")), ([EntryFacts(30, 20, 9, 9)], Admission("store")),
    ([EntryFacts(0, 20, 0, 0), A], Admission("store", (0, 1))),
])  # fmt: skip
def test_a_conversation_is_stored_unless_an_entry_contains_it(entries, admission):
    found = prompt_cache.admit(entries)
    assert found.value == admission and found.because == {"entries": len(entries)}
    assert bool(found.value) is (admission.verdict == "store")


@pytest.mark.parametrize(("entries", "least", "kept", "any_", "viable"), [
    ([EntryFacts(10, 20, 10, 10, 10)], 0.5, 0, 0, 0), ([EntryFacts(40, 20, 10, 10, 10)], 0.5, None, 0, None),
    ([EntryFacts(40, 20, 20, 20, 20)], 0.5, 0, 0, 0), ([EntryFacts(10, 20, 10, 10, 0)], 0.5, 0, 0, None),
    ([EntryFacts(10, 20, 10, 10, 1), EntryFacts(12, 20, 12, 12, 1)], 0.5, 1, 1, 1),
    ([EntryFacts(12, 20, 12, 12, 1), EntryFacts(10, 20, 10, 10, 1)], 0.5, 0, 0, 0),
    ([EntryFacts(12, 20, 12, 12, 1), EntryFacts(12, 20, 12, 12, 1)], 0.5, 0, 0, 0),
    ([], 0.5, None, None, None), ([EntryFacts(30, 20, 2, 2, 2)], 0.0, None, None, None),
    ([EntryFacts(0, 20, 0, 0, 0)], 0.0, None, None, None),
])  # fmt: skip
def test_the_entry_that_is_most_similar_is_picked(entries, least, kept, any_, viable):
    """The slot has 20 tokens, 4 in common with a prompt of 20."""
    slot = EntryFacts(20, 20, 4, 4)
    picks = prompt_cache.pick_kept, prompt_cache.pick_any, prompt_cache.pick_viable
    assert [pick(entries, slot, least).value for pick in picks] == [kept, any_, viable]


def test_the_base_is_the_slot():
    found = prompt_cache.pick_any([], EntryFacts(20, 20, 4, 5), 0.5)
    assert found.because == {"f_keep": 0.25, "f_sim": 0.25, "entries": 0}
    assert prompt_cache.pick_any([], EntryFacts(0, 20, 0, 0), 0.5).because["f_keep"] == 0.0


def test_entries_are_evicted_but_the_newest():
    found = prompt_cache.evict([40, 40, 40], [1, 1, 1], Limits(50, 0))
    assert (found.value.for_size, found.value.for_tokens) == (2, 0)
    assert found.because == {"size": 120, "tokens": 3, "limit_size": 50}
    assert prompt_cache.evict([90], [1], Limits(50, 0)).value[:2] == Eviction(0, 0, 0)[:2]


def slot(number, held=10, n_prompt=5, t_last=0, busy=False, **more):
    return SlotFacts(number, busy, held, 10, n_prompt, t_last, **more)


@pytest.mark.parametrize(("slots", "id_slot", "sps", "chosen"), [
    ([slot(0, last_prompt=8, last_common=4), slot(1, last_prompt=8, last_common=6)], -1, 0.5, (1, "lcp", 0.75)),
    ([slot(0, last_prompt=8, last_common=4)], -1, 0.5, (0, "lru", 0.0)),
    ([slot(0, last_prompt=8, last_common=6, busy=True), slot(1, t_last=3)], -1, 0.5, (1, "lru", 0.0)),
    ([slot(0, last_prompt=8, last_common=6, t_last=9), slot(1, t_last=3)], -1, 0.0, (1, "lru", 0.0)),
    ([slot(0), slot(1)], 1, 0.5, (1, "name", 0.0)), ([slot(0), slot(1, busy=True)], 1, 0.5, None),
    ([slot(0)], 5, 0.5, None), ([slot(0, busy=True)], -1, 0.5, None), ([slot(0), slot(1)], 0, 0.5, (0, "name", 0.0)),
    ([slot(0, last_prompt=0, last_common=0)], -1, 0.1, (0, "lru", 0.0)),
    ([slot(0, last_prompt=1, last_common=1), slot(1, last_prompt=1, last_common=1)], -1, 0.1, (0, "lcp", 1.0)),
])  # fmt: skip
def test_the_first_servers_compare_the_last_prompt(slots, id_slot, sps, chosen):
    found = slot_selection.slot_select_last_prompt(slots, id_slot, sps)
    assert (None if found.value is None else tuple(found.value)) == chosen
    assert found.because == {"id_slot": id_slot, "sps": sps, "slots": len(slots)}


@pytest.mark.parametrize(("slots", "id_slot", "chosen"), [
    ([slot(0), slot(1)], 0, (0, "name", 0.0)), ([slot(0)], 5, None), ([slot(0, busy=True)], 0, None),
    ([slot(0, held=0, n_prompt=10, t_last=5), slot(1, t_last=9, n_prompt=1)], -1, (0, "lru", 0.0)),
    ([slot(0, n_prompt=5)], -1, (0, "lcp", 0.5)), ([slot(0, n_prompt=4)], -1, (0, "lru", 0.0)),
])  # fmt: skip
def test_a_slot_is_selected_by_similarity_above_the_threshold(slots, id_slot, chosen):
    found = slot_selection.slot_select(slots, id_slot, 0.4).value
    assert (None if found is None else tuple(found)) == chosen


def test_without_a_threshold_no_slot_is_selected_by_similarity():
    slots = [slot(0, n_prompt=10, t_last=9), slot(1, n_prompt=0, t_last=3)]
    assert tuple(slot_selection.slot_select(slots, -1, 0.0).value) == (1, "lru", 0.0)
    assert tuple(slot_selection.slot_select(slots, -1, 0.01).value) == (0, "lcp", 1.0)


GRAPH = ComputeGraph(256, 1, 1, (1,), (False,), False)


@pytest.mark.parametrize(("last", "now", "first", "by_shape", "for_one_token"), [
    (GRAPH, GRAPH, 1, True, True), (GRAPH, GRAPH, 0, False, False), (None, GRAPH, 1, False, False),
    (GRAPH._replace(tokens=2), GRAPH._replace(tokens=2), 1, True, False),
    (GRAPH._replace(tokens=2), GRAPH, 1, False, False), (GRAPH._replace(n_kv=512), GRAPH, 1, False, False),
    (GRAPH._replace(rows=(1, 2)), GRAPH, 1, False, False), (GRAPH._replace(zeroed=(True,)), GRAPH, 1, True, True),
])  # fmt: skip
def test_older_versions_use_a_graph_again(last, now, first, by_shape, for_one_token):
    assert micro_batch.graph_by_shape(last, now, first).value is by_shape
    found = micro_batch.graph_of_one_token(last, now, first)
    assert found.value is for_one_token and micro_batch.graph_new(last, now, first).value is False
    assert found.because == {"rows": now.rows, "last": last.rows if last else (), "zeroes": last.zeroed if last else ()}


@pytest.mark.parametrize(("n_kv", "tokens", "n_swa", "flash", "head", "low"), [
    (2048, 16, 8, True, 64, 1536), (2048, 256, 256, True, 64, 1536), (2048, 256, 257, True, 64, 1280),
    (2048, 300, 8, True, 64, 1536), (2048, 600, 8, True, 64, 1280), (512, 16, 8, True, 64, 0),
    (2048, 16, 8, False, 64, 0), (2048, 16, 8, True, 80, 0), (768, 16, 8, True, 64, 256),
])  # fmt: skip
def test_window_layers_read_the_last_blocks(n_kv, tokens, n_swa, flash, head, low):
    assert micro_batch.window_in_last_blocks(n_kv, tokens, n_swa, flash, head).value == low
    assert micro_batch.window_in_all_cells(n_kv, tokens, n_swa, flash, head).value == 0


@pytest.mark.parametrize(("n_max", "left", "most"), [(8, -1, 8), (8, 5, 4), (8, 1, 0), (8, 0, 0), (60, -1, 38),
                                                     (60, 90, 38), (8, 9, 8)])  # fmt: skip
def test_a_draft_is_limited_by_configuration_context_and_limit(n_max, left, most):
    assert speculative.draft_max(60, 100, n_max, left).value == most


@pytest.mark.parametrize(("n", "least_asked", "discard", "halves", "plain"), [
    (300, 16, 0, (16, 120, 120), (16, 120, 120)), (496, 16, 0, (16, 120, 360), (16, 120, 360)),
    (255, 16, 0, (16, 120, 0), (16, 120, 0)), (300, -1, 0, (252, 2, 46), (0, 128, 128)),
    (300, 255, 0, (252, 2, 46), None), (300, 0, 20, (0, 128, 128), (0, 20, 60)),
])  # fmt: skip
def test_a_prompt_that_is_too_long_loses_blocks(n, least_asked, discard, halves, plain):
    assert context_shift.shift_prompt_halves(n, least_asked, discard, 256).value == PromptShift(*halves)
    assert context_shift.shift_prompt(n, least_asked, discard, 256).value == (plain and PromptShift(*plain))


@pytest.mark.parametrize(("tokens", "keep", "discard", "plan"), [
    (INSIDE, 3, 2, (3, 2)), (INSIDE, 8, 4, (6, 5)), (INSIDE, 7, 2, (6, 5)), (INSIDE, 3, 4, (3, 8)),
    (INSIDE, 10, 3, (6, 5)), (CAT + TEXT, 4, 1, (0, 5)), (INSIDE, 0, 7, (0, 11)), (INSIDE, 3, 90, (3, 90)),
    (TEXT + CAT, 2, 5, (2, 9)),
])  # fmt: skip
def test_a_shift_ends_at_no_image(tokens, keep, discard, plan):
    found = media.shift_around_images(tokens, Shift(keep, 50, discard))
    assert found.value == Shift(plan[0], 50, plan[1]) and found.because == {"n_keep": keep, "n_discard": discard}


def test_a_prompt_shift_counts_blocks_again():
    tokens = INSIDE * 10
    assert media.prompt_shift_around_images(tokens, PromptShift(3, 4, 99), 100).value == PromptShift(3, 8, 64)
    assert media.prompt_shift_around_images(tokens, PromptShift(3, 2, 99), 159).value == PromptShift(3, 2, 2)


@pytest.mark.parametrize(("tokens", "n", "plain", "in_time"), [
    (INSIDE, 5, 5, 5), (INSIDE, 6, 6, 6), (INSIDE, 8, 10, 7), (INSIDE, 10, 10, 7), (INSIDE, 13, 13, 10), (CAT, 4, 4, 1),
    (CAT + DOG + TEXT, 9, 9, 4), (CAT + DOG + TEXT, 5, 7, 2), ((), 0, 0, 0),
])  # fmt: skip
def test_positions_after_images(tokens, n, plain, in_time):
    assert media.position_after(tokens, n, False).value == plain
    assert media.position_after(tokens, n, True).value == in_time


@pytest.mark.parametrize(("pos", "plain", "in_time"), [(0, 0, 0), (6, 6, 6), (7, 10, 10), (8, 10, 11), (11, 11, 14),
                                                       (99, 16, 16)])  # fmt: skip
def test_tokens_up_to_a_position(pos, plain, in_time):
    assert media.tokens_up_to(INSIDE, pos, False).value == plain
    assert media.tokens_up_to(INSIDE, pos, True).value == in_time


@pytest.mark.parametrize(("n", "inside", "behind"), [(5, "", ""), (6, "", ""), (7, NOT_FOUND, ""),
                                                     (8, NOT_FOUND, CUT + "Chunk not found"),
                                                     (10, "", CUT + "Chunk not found"), (11, "", ""), (16, "", "")])
def test_a_list_is_cut_at_an_image(n, inside, behind):
    assert (media.cut_inside(INSIDE, n).value, media.cut_behind(INSIDE, n).value) == (inside, behind)
    assert media.cut_behind(TEXT + CAT, 10).value == ""


@pytest.mark.parametrize(("decision", "value"), [
    (media.text_end(INSIDE, 0, 16, True), (6, False)), (media.text_end(INSIDE, 10, 16, True), (16, True)),
    (media.text_end(INSIDE, 0, 4, False), (4, False)), (media.image_place(3, 5), 5),
    (media.none_right_after(True, False, 9), True), (media.none_right_after(True, True, 9), False),
    (media.none_right_after(False, False, 9), False), (media.ends_with_image(1), ""),
    (media.ends_with_image(0), "GGML_ASSERT(batch.n_tokens > 0) failed"), (media.no_image_here(5, 0), ""),
    (media.no_image_here(-1, 0), NOT_FOUND), (media.no_image_here(5, 1), NOT_FOUND),
    (media.fits_micro_batch(16, 16, True), ""), (media.fits_micro_batch(17, 16, False), ""),
    (media.fits_micro_batch(17, 16, True), "non-causal attention requires n_ubatch >= n_tokens"),
    (media.image_fails(1), "failed to process image"), (media.drafts_with_projector("mtp", True), "mtp"),
    (media.drafts_with_projector("ngram-simple", True), "none"),
    (media.drafts_with_projector("ngram-simple", False), "ngram-simple"),
    (carried_over.parser_own(True, False), True), (carried_over.parser_own(False, True), False),
    (carried_over.parser_last(False, True), True), (carried_over.parser_last(False, False), False),
    (carried_over.parser_last(True, False), True),
    (carried_over.system_clears_all(9), ClearedObjects(True, True, True)),
    (carried_over.system_clears_memory(9), ClearedObjects(False, False, False)),
    (checkpoint_create.on_with_states(1, True, False), True), (checkpoint_create.on_with_states(1, False, True), True),
    (checkpoint_create.on_with_states(1, False, False), False),
    (checkpoint_create.on_with_states(0, True, True), False), (checkpoint_create.on_never(9, True, True), False),
    (checkpoint_create.first_without_tolerance(0), True), (checkpoint_create.first_without_tolerance(1), False),
    (checkpoint_create.first_without_tolerance(-1), True), (checkpoint_create.first_always(5), True),
    (checkpoint_create.evict_oldest([ckpt(5), ckpt(9)], "variance"), 0),
    (checkpoint_create.evict_second([ckpt(5), ckpt(9)], ""), 1), (checkpoint_create.evict_second([ckpt(5)], ""), 0),
    (prompt_cache.peek_moves(True), False), (prompt_cache.peek_moves(False), True),
    (prompt_cache.peek_copies(False), False), (prompt_cache.peek_directly(False), False),
    (prompt_cache.take_entry(1), True), (prompt_cache.clone_entry(1), False), (prompt_cache.failed_keeps(5), False),
    (common_prefix.reuse_asked(False), False), (common_prefix.reuse_asked(True), True),
    (trim.end_of_generation(4, 5), ""), (trim.end_of_generation(5, 5), "limit"),
    (trim.end_of_generation(1, 0), "limit"), (trim.end_of_generation(6, 5), "limit"),
    (trim.end_of_generation(0, 0), "limit"), (trim.end_of_generation(99, -1), ""),
    (trim.window_compact(True, True, 1), True), (trim.window_compact(True, True, 2), False),
    (trim.window_compact(True, False, 1), False), (trim.window_compact(False, True, 1), False),
    (trim.window_compact_any(True, False, 1), True), (trim.window_compact_any(True, True, 1), True),
    (trim.window_compact_any(True, False, 2), False), (trim.window_compact_any(False, True, 1), False),
    (trim.window_whole(True, True, 1), False), (trim.cells_claimed(True), True), (trim.cells_claimed(False), True),
    (common_prefix.prompt_empty(0), True), (common_prefix.prompt_empty(1), False),
    (common_prefix.prefix_tokens((1, 2, 3), (1, 2, 4), str), CommonLength(2, 2)),
    (common_prefix.one_before(9, 9, False), 1), (common_prefix.one_before(9, 9, True), 0),
    (common_prefix.one_before(8, 9, False), 0), (common_prefix.one_before(0, 0, False), 0),
    (common_prefix.one_before(1, 1, False), 1), (common_prefix.one_behind(9, 9, True), 1),
    (common_prefix.one_behind(9, 9, False), 0),
    (context_shift.context_full(254, 256, True), ""), (context_shift.context_full(255, 256, True), "shift"),
    (context_shift.context_full(256, 256, False), "error"), (context_shift.refused_reads(9, 5), True),
    (context_shift.prompt_cut_block(7), 7), (context_shift.prompt_cut_nothing(7), 0),
    (context_shift.shift_list_cached(False), False), (context_shift.shift_list_cached(True), True),
    (context_shift.shift_equal(CommonLength(1, 2), CommonLength(3, 4), 16, 55), CacheShift(16, 55)),
    (context_shift.shift_context(2, 9, 0, 0, 256), Shift(0, 2, 1)),
    (context_shift.shift_context(1, 9, 0, 0, 256), None),
    (context_shift.shift_context(255, 9, 4, 1, 256), Shift(4, 251, 1)),
    (slot_selection.compare_without_reasoning(9, 5), ComparedTexts(True, True)),
    (slot_selection.compare_text(9, 5), ComparedTexts(True, False)),
    (slot_selection.compare_tokens(9, 5), ComparedTexts(False, False)),
    (slot_selection.compare_unshifted(9, 600, 512), False), (slot_selection.compare_shifted(1, 512, 512), True),
    (slot_selection.compare_shifted(1, 511, 512), False), (slot_selection.compare_shifted(0, 512, 512), False),
    (slot_selection.save_never(0.1, 9, 0.5, 0), False),
    (speculative.start_with_one_slot("none", 2), True), (speculative.start_with_one_slot("mtp", 1), True),
    (speculative.start_with_one_slot("mtp", 2), False), (speculative.start_with_any("mtp", 2), False),
    (speculative.start_with_any("ngram-simple", 2), True), (speculative.start_with_any("mtp", 1), True),
    (speculative.save_or_root_only(4, 4), (True, True)), (speculative.save_or_root_only(5, 4), (False, False)),
    (speculative.save_or_anyway(4, 4), (True, True)), (speculative.save_or_anyway(5, 4), (False, True)),
    (speculative.commit_ahead(9), (10, False)), (speculative.commit_level(9), (9, True)),
    (speculative.purge_keep(9, True, 0), None), (speculative.purge_keep(9, True, 3), (10, 14)),
    (speculative.purge_known(9, True, 3), (9, 14)), (speculative.purge_known(9, False, 3), (10, 14)),
    (speculative.purge_known(9, False, 0), None), (speculative.draft_from_target(9, 5), 9),
    (speculative.draft_from_own(9, 5), 6), (speculative.warm_up_before(9, 4), 8), (speculative.warm_up_last(9, 4), 12),
    (speculative.warm_up_same(9, 4), 9), (speculative.steps_by_place(1, 4), ""),
    (speculative.steps_by_place(2, 4), "place"), (speculative.steps_by_place(4, 4), "place"),
    (speculative.steps_by_place(5, 4), ""), (speculative.row_first(3), (0, True)),
    (micro_batch.blind_is_not_a_number(1, True), False), (micro_batch.blind_is_not_a_number(1, False), True),
    (micro_batch.give_up_keeps(9), 9), (micro_batch.abort_cuts(9, 5), 6), (micro_batch.abort_cuts(9, 20), 9),
    (micro_batch.abort_cuts(9, -1), 0), (micro_batch.abort_keeps(9, 5), 9), (micro_batch.abort_never(9, 5), -1),
    (repaired.refused_leaves(9, 5), False), (repaired.prompt_cut_none(7), 0), (repaired.shift_list_all(False), True),
    (repaired.again_from_rest(32), 32), (repaired.steps_by_position(9, 4), "position"),
    (repaired.row_own(3), (3, False)), (repaired.cells_kept(True), False), (repaired.cells_kept(False), True),
    (repaired.failed_clears(5), True), (repaired.save_always(0), True),
    (trim.rm_refused(True, 9, 9, -1), True), (trim.rm_refused(True, 9, 10, -1), False),
    (trim.rm_refused(True, 9, 0, 9), True), (trim.rm_refused(True, 9, 0, 10), False),
    (trim.rm_refused(True, 9, 0, 0), False), (trim.rm_refused(True, 9, 1, 99), True),
    (trim.rm_refused(False, 9, 9, -1), False), (trim.trim_in_turn(True), True), (trim.trim_in_turn(False), False),
    (trim.trim_both(False), True),
    (slot_file.save_side_file(0), False), (slot_file.save_side_file(1), True), (slot_file.save_state_only(1), False),
    (slot_file.restore_side_file(True), True), (slot_file.restore_side_file(False), False),
    (slot_file.restore_state_only(True), False), (slot_file.erase_all(1), True), (slot_file.erase_tokens(1), False),
])  # fmt: skip
def test_single_values(decision, value):
    assert decision.value == value


def test_an_admission_is_true_if_it_stores_and_a_need_if_it_searches():
    assert Admission("store") and Admission("store", (0,)) and not Admission("already")
    assert CheckpointNeed(True) and not CheckpointNeed(False)


@pytest.mark.parametrize(("pos_min", "n_past", "at"), [(0, 0, 0), (1, 0, None), (4, 6, 0), (5, 6, None)])
def test_a_checkpoint_of_1888_begins_before_the_threshold_or_at_the_start(pos_min, n_past, at):
    """The threshold is a token before the end of the common part. The checkpoint ends after it."""
    found = Ckpt(pos_min, 9, pos_min, 9, 10, 0)
    assert checkpoint_restore.pick_pr1888([found], RestoreInputs(n_past, n_past, 20, 19, True, False)).value == at
