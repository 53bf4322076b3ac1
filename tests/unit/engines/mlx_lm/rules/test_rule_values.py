"""Values of mlx-lm's rules at their bounds; each was derived by hand from the sentence of the rule."""

from __future__ import annotations

import pytest

from cachesim.engines.chat_template import THK
from cachesim.engines.mlx_lm.rules import keys, prefill, repaired, segments
from cachesim.engines.mlx_lm.rules.keys import ConversationKey
from cachesim.engines.mlx_lm.rules.segments import Segment

P, BARE = (1, 2, 3, 4), (1, 2)


@pytest.mark.parametrize(("decided", "key", "because"), [
    (keys.key_prompt(P, BARE, [2]), ConversationKey(P), {"n_tokens": 4}),
    (repaired.key_but_last(P, BARE, [2]), ConversationKey((1, 2, 3)), {"n_tokens": 4}),
    (keys.key_bare(P, BARE, [1, 2, 3]), ConversationKey(BARE, "asked", (1, 2)),
     {"n_tokens": 4, "suffix": 2, "boundaries": [1, 2]}),
    (keys.key_bare_first(P, BARE, [9, 20]), ConversationKey(BARE, "asked", ()),
     {"n_tokens": 4, "suffix": 2, "boundaries": []}),
    (keys.key_bare_first(P, BARE, [10, 20]), ConversationKey(BARE, "asked", (10,)),
     {"n_tokens": 4, "suffix": 2, "boundaries": [10]}),
    (keys.key_bare_all(P, BARE, [1, 2]), ConversationKey(BARE, "asked", (1, 2)),
     {"n_tokens": 4, "suffix": 2, "boundaries": [1, 2]}),
])  # fmt: skip
def test_a_conversation_is_looked_up_under_its_key(decided, key, because):
    assert (decided.value, decided.because) == (key, because)


@pytest.mark.parametrize(("decided", "value"), [
    (keys.key_of_held(9, 8), 9), (repaired.key_of_evaluated(9, 8), 8), (repaired.key_of_evaluated(7, 8), 7),
    (keys.key_of_returned(4, 9), 9), (keys.key_of_prompt(4, 9), 4), (keys.key_of_prompt(9, 4), 4),
    (keys.batch_whole(), "whole"), (keys.batch_segments(), "segments"),
    (keys.is_batchable(False, False), True), (keys.is_batchable(True, False), False),
    (keys.is_batchable(False, True), False), (keys.is_batchable(True, True), False),
    (keys.merge_of_class(["X"], True), True), (keys.merge_of_class(["KVCache"], False), False),
    (keys.merge_of_rows(["KVCache", "RotatingKVCache"], False), True), (keys.merge_of_rows([], False), True),
    (keys.merge_of_rows(["KVCache", "ArraysCache"], True), False), (keys.merge_never(["KVCache"], True), False),
    (keys.new_unlimited(8), 0), (prefill.cancel_removes(), False), (prefill.cancel_stores(), True),
    (segments.cancel_drops(), False), (segments.create_never(4), False),
    (segments.thinks_by_tokenizer(True, False), True), (segments.thinks_by_tokenizer(False, True), False),
    (segments.thinks_by_request(True, False), False), (segments.thinks_by_request(False, True), True),
    (prefill.pc_one([4, 9], [None, -3]), 1), (prefill.row_last(0, 3), 2), (prefill.row_own(0, 3), 0),
    (prefill.lengths_without_tail(9, 2), 7), (prefill.lengths_of_all(9, 2), 9),
    (prefill.fresh_if_first_empty([True, True], [0, 9]), True),
    (prefill.fresh_if_first_empty([True, False], [0]), False),
    (prefill.fresh_if_no_tokens([False], [0, 0]), True), (prefill.fresh_if_no_tokens([True], [0, 1]), False),
    (prefill.round_any(4, 1), 4), (repaired.round_trimmable(4, 1), 1), (repaired.round_trimmable(1, 4), 1),
    (repaired.start_always(False, 9, 4), 1), (repaired.start_always(True, 9, 4), 1),
    (segments.create_at_segment_end(4, True, 1), True), (segments.create_at_segment_end(4, True, 0), False),
    (segments.create_at_segment_end(4, False, 1), False),
])  # fmt: skip
def test_a_decision(decided, value):
    assert decided.value == value and type(decided.value) is type(value)


def thought(at, n):
    """Return a prompt of ``n`` tokens with a think token ``at`` so many tokens from its end."""
    return tuple(THK if i == n - at else 1 for i in range(n))


@pytest.mark.parametrize(("at", "sys_end", "guarded", "anywhere", "behind"), [
    (1, 0, 19, 19, 19), (10, 0, 10, 10, 10), (11, 0, 20, 9, 9), (12, 0, 20, 20, 20), (10, 10, 20, 10, 10),
    (9, 10, 11, 11, 11), (8, 15, 20, 12, 20), (5, 15, 20, 15, 15), (4, 15, 16, 16, 16),
])  # fmt: skip
def test_the_tail_begins_at_the_last_think_token_of_a_range(at, sys_end, guarded, anywhere, behind):
    prompt = thought(at, 20)
    found = [tail(prompt, sys_end).value
             for tail in (segments.tail_guarded, segments.tail_anywhere, repaired.tail_behind_system)]
    assert found == [guarded, anywhere, behind]
    assert segments.find_tail((THK, 1, THK), 0, -5).value == 2


CUT = (Segment((1, 2), "system"), Segment((3, 4), "user"), Segment((5,), "assistant"))


@pytest.mark.parametrize(("rotated", "new", "at"), [(True, 2, 8), (True, 1, 3), (False, 2, 3)])
def test_a_mask_counts_from_where_tokens_will_be_stored(rotated, new, at):
    assert repaired.mask_straight(3, 8, rotated, new) == at
