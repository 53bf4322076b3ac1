"""Option values that ``advise`` tries."""

import pytest

from cachesim.engines.capabilities import ServerLoad
from cachesim.engines.shared.advice import (
    context_for_all,
    fewer_drafts,
    halved_values,
    larger_cache,
    more_checkpoints,
    other_values,
    separate_contexts,
    slot_counts,
    smaller_batches,
    widen_context,
)


def load(longest=0, total=0, conversations=0):
    return ServerLoad(longest, total, conversations)


def test_other_values_leave_out_the_current_one():
    assert [*other_values("n", {"n": 2}, 1, 2, 3)] == [{"n": 1}, {"n": 3}]
    assert more_checkpoints({"ctx_checkpoints": 64}, load()) == 256
    assert more_checkpoints({"ctx_checkpoints": 900}, load()) == 900


@pytest.mark.parametrize(("value", "longest", "halves"), [
    (512, 1000, [256, 128, 64]), (512, 200, [128, 64]), (512, 128, [64]), (64, 1000, [32, 16]), (33, 1000, [16]),
    (16, 1000, []),
])  # fmt: skip
def test_a_batch_is_halved_while_it_is_shorter_than_the_longest_request(value, longest, halves):
    assert [*halved_values("n", {"n": value}, load(longest))] == [{"n": half} for half in halves]


def test_a_batch_smaller_than_its_micro_batch_makes_that_smaller_too():
    now = {"ubatch_size": 64, "batch_size": 128}
    assert [*smaller_batches(now, load(1000))] == [
        {"ubatch_size": 32}, {"ubatch_size": 16}, {"batch_size": 64}, {"batch_size": 32, "ubatch_size": 32},
        {"batch_size": 16, "ubatch_size": 16}]  # fmt: skip


@pytest.mark.parametrize(("size", "tokens", "change"), [
    (0, 9999, {}), (512, 512, {}), (512, 513, {"ctx_size": 768}), (256, 512, {"ctx_size": 768}),
    (256, 511, {"ctx_size": 512}),
])  # fmt: skip
def test_a_context_grows_to_a_multiple_of_256(size, tokens, change):
    assert widen_context({"ctx_size": size}, tokens) == change
    assert context_for_all({"ctx_size": size}, load(total=tokens)) == change.get("ctx_size", size)


def test_slots_with_contexts_of_their_own_hold_the_longest_request_each():
    assert separate_contexts({"ctx_size": 1024}, load(600), 2) == {"parallel": 2, "ctx_size": 1536}
    assert separate_contexts({"ctx_size": 1024}, load(512), 2) == {"parallel": 2}
    assert separate_contexts({"ctx_size": 0}, load(600), 2) == {"parallel": 2}


@pytest.mark.parametrize(("parallel", "conversations", "counts"), [
    (1, 1, []), (2, 1, []), (1, 2, [2]), (1, 3, [2, 3]), (2, 3, [3]), (1, 99, [2, 8]), (8, 99, [2]), (1, 0, []),
])  # fmt: skip
def test_slots_are_two_or_one_for_each_conversation(parallel, conversations, counts):
    assert slot_counts({"parallel": parallel}, load(conversations=conversations)) == counts


@pytest.mark.parametrize(("size", "larger"), [(0, 8192), (8191, 8192), (8192, -1), (9000, -1), (-1, -1)])
def test_a_prompt_cache_becomes_large_then_unlimited(size, larger):
    assert larger_cache({"cache_ram": size}, load()) == larger


def test_drafts_are_switched_off_then_shortened():
    assert [*fewer_drafts({"spec_type": "none", "spec_draft_n_max": 16}, load())] == []
    assert [*fewer_drafts({"spec_type": "draft", "spec_draft_n_max": 16}, load())] == [
        {"spec_type": "none"}, {"spec_draft_n_max": 1}]
    assert [*fewer_drafts({"spec_type": "draft", "spec_draft_n_max": 1}, load())] == [{"spec_type": "none"}]
