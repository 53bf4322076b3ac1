"""Speculative decoding: length of drafts, checkpoints and replays, acceptance, room, each at its border."""

from __future__ import annotations

import pytest

from cachesim.engines.llama_cpp.rules import speculative as rules


@pytest.mark.parametrize("exact", [True, False])
def test_older_builds_draft_only_where_a_memory_can_be_cut(exact):
    assert (rules.drafts_anywhere(exact).value, rules.drafts_where_cut(exact).value) == (True, not exact)


@pytest.mark.parametrize(("held", "n_predict", "n_gen", "most"), [
    (90, -1, 5, 8), (97, -1, 5, 1), (98, -1, 5, 0), (99, -1, 5, 0), (10, 9, 5, 3), (10, 9, 7, 1), (10, 9, 8, 0),
    (10, 9, 9, 0), (10, 0, 0, 0), (95, 20, 5, 3), (10, -1, 5, 88),
])  # fmt: skip
def test_a_draft_leaves_room_for_a_token_and_a_token_of_n_predict(held, n_predict, n_gen, most):
    assert rules.draft_max(held, 100, n_predict, n_gen).value == most
    assert rules.draft_any(held, 100, n_predict, n_gen).value == 100


@pytest.mark.parametrize(("exact", "n_rs_seq", "n", "yes"), [
    (True, 0, 1, True), (True, 3, 4, True), (True, 3, 3, False), (False, 0, 4, False), (True, 0, 0, False),
])  # fmt: skip
def test_a_state_is_saved_and_a_rejection_replayed_beyond_the_planes(exact, n_rs_seq, n, yes):
    assert rules.needs_checkpoint(exact, n_rs_seq, n).value is yes
    assert rules.must_replay(exact, n_rs_seq, n).value is yes


@pytest.mark.parametrize(("accepted", "replayed", "once"), [(3, False, 3), (3, True, 2), (1, True, 0), (0, True, 0)])
def test_the_last_token_of_a_replayed_batch_was_not_drafted(accepted, replayed, once):
    assert rules.count_without_replay(accepted, replayed).value == once
    assert rules.count_all(accepted, replayed).value == accepted


@pytest.mark.parametrize(("same", "eog", "left", "until_eog"), [
    (True, False, 2, True), (False, False, 2, False), (True, True, 2, False), (True, True, 0, True),
    (False, True, 0, False),
])  # fmt: skip
def test_a_token_is_accepted_if_the_target_sampled_it(same, eog, left, until_eog):
    assert rules.accept_while_same(same, eog, left).value is same
    assert rules.accept_until_eog(same, eog, left).value is until_eog


@pytest.mark.parametrize(("n_batch", "fits"), [(8, True), (9, False)])
def test_sampled_tokens_and_drafts_must_fit_into_a_batch(n_batch, fits):
    server = "GGML_ASSERT(batch must be large enough to hold the sampled and draft tokens) failed"
    common = 'GGML_ASSERT(batch.seq_id[batch.n_tokens] && "llama_batch size exceeded") failed'
    assert rules.draft_has_room(n_batch, 8).value == ("" if fits else server)
    assert rules.batch_has_room(n_batch, 8).value == ("" if fits else common)


@pytest.mark.parametrize(("first", "last", "outside"), [
    (4, 7, None), (3, 7, 3), (4, 8, 8), (6, 9, 8), (8, 9, 8), (0, 9, 0), (7, 7, None), (8, 8, 8),
])  # fmt: skip
def test_the_first_token_of_a_draft_outside_the_view_is_named(first, last, outside):
    assert rules.draft_is_split(first, last, 4, 4).value == outside
    assert rules.split_is_not_seen(first, last, 4, 4).value is None


@pytest.mark.parametrize(("decision", "value"), [
    (rules.batch_is_shared(), False), (rules.batch_is_own(), True), (rules.place_of_sequence(1), True),
    (rules.place_of_first_save(1), False), (rules.unread_says_size(True), "checkpoint size mismatch"),
    (rules.unread_asserts(True),
     "GGML_ASSERT(ckpt.load_dft(slot.ctx_dft, slot.id, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY)) failed"),
    (rules.unread_asserts(False),
     "GGML_ASSERT(ckpt.load_tgt(slot.ctx_tgt, slot.id, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY)) failed"),
], ids=lambda one: getattr(one, "rule", ""))  # fmt: skip
def test_batches_and_saved_states_of_drafts(decision, value):
    assert decision.value == value
