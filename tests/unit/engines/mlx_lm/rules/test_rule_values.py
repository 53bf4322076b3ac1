"""Values of mlx-lm's rules at their bounds; each was derived by hand from the sentence of the rule."""

from __future__ import annotations

import pytest

from cachesim.engines.chat_template import THK
from cachesim.engines.mlx_lm.events import INDEX_ERROR, VALUE_ERROR
from cachesim.engines.mlx_lm.rules import keys, prefill, repaired, segments
from cachesim.engines.mlx_lm.rules.keys import ConversationKey
from cachesim.engines.mlx_lm.rules.segments import RemainingPrompt, Segment

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


@pytest.mark.parametrize(("lengths", "positions", "value", "own"), [
    ([9], [None], 1, [1]), ([9, 5], [-3, None], 3, [3, 1]), ([9, 5], [4, -2], 5, [5, 2]), ([9], [9], 1, [0]),
    ([9], [0], 1, [1]),
])  # fmt: skip
def test_the_checkpoint_of_a_group_is_the_farthest_from_the_end(lengths, positions, value, own):
    decided = prefill.pc_largest(lengths, positions)
    assert (decided.value, decided.because) == (value, {"lengths": lengths, "own": own})


def thought(at, n):
    """Return a prompt of ``n`` tokens with a think token ``at`` so many tokens from its end."""
    return tuple(THK if i == n - at else 1 for i in range(n))


@pytest.mark.parametrize(("prompt", "role", "thinks", "value"), [
    (thought(1, 20), "user", True, -2), (thought(9, 20), "user", True, -10), (thought(10, 20), "user", True, -1),
    (thought(3, 20), "user", False, -1), (thought(3, 20), "tool", True, None), (thought(1, 3), "user", True, -2),
    (thought(2, 3), "user", True, -1), (thought(2, 4), "user", True, -3), ((THK, 1, THK, 1), "user", True, -3),
])  # fmt: skip
def test_a_checkpoint_lies_before_a_late_think_token(prompt, role, thinks, value):
    decided = prefill.position_think(prompt, role, thinks, True, None)
    assert (decided.value, decided.because) == (value, {"role": role, "n_tokens": len(prompt)})
    assert prefill.position_sentinel(prompt, role, thinks, True, None).value == value
    assert prefill.position_none(prompt, role, thinks, True, None).value is None


@pytest.mark.parametrize(("probe", "value", "at"), [
    (None, -1, 0), ((9,), -1, 0), ((1, 9), -3, 1), ((1, 2, 3, 9), -1, 3), ((1, 2, 3, 4, 9), -1, 4),
])  # fmt: skip
def test_a_checkpoint_of_states_lies_where_another_message_would_begin(probe, value, at):
    decided = prefill.position_sentinel(P, "user", True, False, probe)
    assert (decided.value, decided.because["at"], decided.because["trimmable"]) == (value, at, False)
    assert prefill.position_sentinel(P, "assistant", True, False, probe).value is None


def test_the_last_tokens_of_rows_are_fed_together():
    rests = [(1, 2, 3), (4, 5)]
    assert prefill.tails_plain(rests, 2).value == [(2, 3), (4, 5)]
    assert (prefill.tails_plain(rests, 3).value, prefill.tails_plain(rests, 3).because["lengths"]) == (None, [3, 2])
    assert prefill.tails_zeros(rests, 3).value == [(1, 2, 3), (0, 4, 5)]
    assert prefill.tails_zeros(rests, 3).because == {"pc": 3, "lengths": [3, 2]}
    assert prefill.tails_zeros(rests, 1).value == [(3,), (5,)]


@pytest.mark.parametrize(("start", "position", "pc", "asked", "own"), [
    (5, -3, 3, True, True), (5, -2, 3, True, False), (5, None, 3, False, False), (-1, -3, 3, True, True),
])  # fmt: skip
def test_a_checkpoint_is_created_where_a_row_asks_for_it(start, position, pc, asked, own):
    found = prefill.create_if_asked(start, position, pc), prefill.create_if_own(start, position, pc)
    because = {"start": max(0, start), "stop": max(0, start), "position": position, "pc": pc}
    assert [(one.value, one.because) for one in found] == [(asked, because), (own, because)]


@pytest.mark.parametrize(("probe", "value", "shared"), [
    (None, 0, 0), ((1, 2, 9), 2, 2), ((1, 2), 0, 2), ((1, 2, 3, 4, 5), 0, 4), ((9, 9), 0, 0),
])  # fmt: skip
def test_the_system_segment_ends_where_an_empty_message_differs(probe, value, shared):
    decided = segments.system_end(P, probe)
    assert (decided.value, decided.because) == (value, {"shared": shared, "n_tokens": 4})


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


@pytest.mark.parametrize(("sys_end", "tail", "cut"), [
    (0, 4, [(P, "user")]), (1, 3, [((1,), "system"), ((2, 3), "user"), ((4,), "assistant")]),
    (2, 2, [((1, 2), "system"), ((3, 4), "assistant")]), (4, 4, [(P, "assistant")]), (0, 0, [(P, "assistant")]),
    (3, 2, [((1, 2, 3), "system"), ((3, 4), "assistant")]),
])  # fmt: skip
def test_a_chat_is_cut_into_segments(sys_end, tail, cut):
    decided = segments.cut_chat(P, sys_end, tail)
    assert decided.value == tuple(Segment(*one) for one in cut)
    assert decided.because == {"sys_end": sys_end, "tail": tail, "n_tokens": 4}
    assert segments.cut_none(P, "tool").value == (Segment(P, "assistant"),)


CUT = (Segment((1, 2), "system"), Segment((3, 4), "user"), Segment((5,), "assistant"))


@pytest.mark.parametrize(("n_cached", "left", "types"), [
    (0, ((1, 2), (3, 4), (5,)), ("system", "user", "assistant")),
    (1, ((2,), (3, 4), (5,)), ("system", "user", "assistant")), (2, ((3, 4), (5,)), ("user", "assistant")),
    (3, ((4,), (5,)), ("user", "assistant")), (4, ((5,),), ("assistant",)),
])  # fmt: skip
def test_cached_tokens_are_dropped_with_their_segments(n_cached, left, types):
    for rest in (segments.rest_or_index_error, segments.rest_or_value_error):
        decided = rest(CUT, n_cached)
        assert decided.value == RemainingPrompt(left, types)
        assert decided.because == {"n_cached": n_cached, "left": [len(one) for one in left]}


def test_the_last_token_is_a_segment_and_nothing_left_is_an_error():
    assert segments.rest_or_index_error(CUT[:2], 1).value == RemainingPrompt(((2,), (3,), (4,)), ("system", "user"))
    nothing = RemainingPrompt((), (), "IndexError: list index out of range", INDEX_ERROR)
    assert segments.rest_or_index_error(CUT, 5).value == nothing
    assert segments.rest_or_value_error(CUT, 5).value == RemainingPrompt(
        (), (), "ValueError: an empty prompt", VALUE_ERROR)
    empty = Segment((), "system"), Segment((1,), "user")
    assert segments.rest_or_value_error(empty, 0).value.segments == ((1,),)


@pytest.mark.parametrize(("rotated", "new", "at"), [(True, 2, 8), (True, 1, 3), (False, 2, 3)])
def test_a_mask_counts_from_where_tokens_will_be_stored(rotated, new, at):
    assert repaired.mask_straight(3, 8, rotated, new) == at
