"""Tests of the conversion of blocks to tokens, and of tokens inferred from the follow-up request."""

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.workload.block_tokens import TEXTLESS, follow_ups, parents, played
from cachesim.tools.workload.recorded_session import RecordedRequest, WorkloadSession, merged, overlapping


def one(start, n_prompt, n_answer, blocks, end=None, first_user=0):
    return RecordedRequest(start, start if end is None else end, n_prompt, n_answer, tuple(blocks), first_user)


def session(*requests, size=4):
    return WorkloadSession("s", "test", size, requests)


def test_a_prompt_begins_with_the_answer_before_it_where_there_is_room_for_it():
    first, second = played(session(one(0, 9, 3, [1, 2]), one(1, 14, 1, [1, 2, 3])))
    assert len(first.prompt) == 9 and len(first.answer) == 3
    assert second.prompt[:12] == first.prompt + first.answer
    assert second.starts == (12,)


def test_an_answer_that_does_not_fit_was_not_kept():
    first, second = played(session(one(0, 8, 9, [1, 2]), one(1, 13, 1, [1, 2, 3])))
    assert second.prompt[:8] == first.prompt and len(second.prompt) == 13
    assert not set(first.answer) & set(second.prompt)


def test_a_prompt_that_ends_with_the_answer_says_one_token_more():
    first, second = played(session(one(0, 8, 4, [1, 2]), one(1, 12, 1, [1, 2, 3])))
    assert second.prompt[:-1] == first.prompt + first.answer


def test_a_prompt_that_leaves_another_keeps_the_messages_before():
    _, _, third = played(session(one(0, 8, 2, [1, 2], first_user=3), one(1, 12, 1, [1, 2, 3]), one(2, 8, 1, [1, 9])))
    assert third.starts == (3, 4)


def test_equal_blocks_are_equal_tokens_and_no_others_are():
    first, second = played(session(one(0, 8, 1, [1, 2]), one(1, 8, 1, [1, 7])))
    assert first.prompt[:4] == second.prompt[:4] and not set(first.prompt[4:]) & set(second.prompt[4:])


def test_scaled_tokens_of_prompts_and_answers_are_the_recorded_ones_divided():
    requests = [one(0, 640, 100, range(160)), one(1, 900, 64, range(225))]
    whole, fewer = played(session(*requests)), played(session(*requests), 4)
    assert [len(p.prompt) for p in fewer] == [len(p.prompt) // 4 for p in whole]
    assert fewer[1].prompt[:186] == fewer[0].prompt + fewer[0].answer
    assert whole[1].prompt[:740] == whole[0].prompt + whole[0].answer


def test_a_scale_must_divide_a_block():
    with pytest.raises(BadInput, match="a scale of 3 does not divide blocks of 4 tokens"):
        played(session(one(0, 8, 1, [1, 2])), 3)


def test_requests_overlap_only_if_all_of_them_do():
    times = [(0, 10), (1, 3), (2, 9), (5, 6), (5.5, 7), (20, 21)]
    requests = tuple(one(start, 4, 1, [i], end) for i, (start, end) in enumerate(times))
    assert overlapping(requests) == [False, True, True, False, True, False]


def test_a_request_that_is_sent_when_the_one_before_is_answered_is_not_at_work_with_it():
    touching = tuple(RecordedRequest(start, start + 1, 10, 1, ()) for start in (0.0, 1.0, 1.5))
    assert overlapping(touching) == [False, False, True]


def test_sessions_on_one_server_share_no_block():
    both = merged([session(one(0, 8, 1, [0, 1])), session(one(0.5, 8, 1, [0, 1]))])
    first, second = played(both)
    assert not set(first.prompt) & set(second.prompt)


def test_the_request_that_follows_is_the_first_longer_one_that_begins_with_all_blocks():
    requests = (one(0, 8, 1, [1, 2]), one(1, 8, 1, [1, 2]), one(2, 13, 1, [1, 2, 3]), one(3, 9, 1, [1, 2]),
                one(4, 20, 1, [7, 8]), one(5, 3, 1, []), one(6, 14, 1, [1, 2, 3]))  # fmt: skip
    assert follow_ups(requests) == [2, 2, 6, 6, None, None, None]
    assert list(parents(requests)) == [
        (None, 0), (0, 2), (1, 2), (2, 2), (None, 0), (None, 0), (2, 3)]  # fmt: skip


def test_user_messages_start_where_the_new_part_of_a_prompt_begins():
    whole = session(one(0, 9, 3, [1, 2], first_user=2), one(1, 16, 1, [1, 2, 3, 4]), one(2, 4, 1, [1], first_user=3),
                    one(3, 6, 1, [9], first_user=0), one(4, 6, 1, [8], first_user=6))  # fmt: skip
    assert [request.starts for request in played(whole)] == [(2,), (2, 12), (2,), (), ()]
    assert [request.starts for request in played(whole, 2)] == [(1,), (1, 7), (1,), (), ()]


def test_large_ids_of_blocks_are_numbered_in_the_order_of_their_use():
    large, small = 1 << 40, 1
    first, second = played(session(one(0, 8, 1, [large, small]), one(1, 4, 1, [small])))
    assert first.prompt == (*range(TEXTLESS, TEXTLESS + 8),) and second.prompt == first.prompt[4:]
    assert first.answer[0] > first.prompt[-1] and len({*first.answer, *second.answer}) == 2
    (plain,) = played(session(one(0, 4, 1, [3])))
    assert plain.prompt == tuple(range(TEXTLESS + 12, TEXTLESS + 16)) and plain.answer == (TEXTLESS + 16,)


@pytest.mark.parametrize(("size", "scale", "hint"), [
    (4, 3, "a divisor of 4, such as 4"), (96, 5, "a divisor of 96, such as 32"), (7, 0, "a divisor of 7, such as 1"),
    (128, 3, "a divisor of 128, such as 64"), (6, 4, "a divisor of 6, such as 2"),
])  # fmt: skip
def test_a_scale_that_fits_is_named(size, scale, hint):
    with pytest.raises(BadInput) as bad:
        played(session(one(0, 8, 1, [1]), size=size), scale)
    assert (bad.value.cause, bad.value.hint) == (f"a scale of {scale} does not divide blocks of {size} tokens", hint)


def test_the_last_block_of_a_prompt_may_be_cut_and_its_rest_is_no_part_of_the_answer():
    first, second = played(session(one(0, 6, 2, [1, 2]), one(1, 6, 1, [1, 2])))
    assert first.prompt == second.prompt == tuple(range(TEXTLESS + 4, TEXTLESS + 10))
    assert (len(first.answer), len(second.answer)) == (2, 1)
    assert not {*first.answer, *second.answer} & set(range(TEXTLESS + 10, TEXTLESS + 12))
    first, second = played(session(one(0, 6, 2, [1, 2]), one(1, 8, 1, [1, 2])))
    assert first.answer == second.prompt[6:8] and len(second.prompt) == 9        # with a token after it


def test_a_message_that_begins_where_a_prompt_diverges_is_named_once():
    whole = session(one(0, 8, 2, [1, 2], first_user=4), one(1, 8, 1, [1, 9]), one(2, 9, 1, [1, 8]))
    assert [request.starts for request in played(whole)] == [(4,), (4,), (4,)]


def test_a_prompt_that_leaves_a_continued_one_begins_where_it_parts():
    first = one(0, 8, 2, [1, 2], first_user=3)
    _, second, third = played(session(first, one(1, 8, 1, [1, 9]), one(2, 12, 1, [1, 2, 3])))
    assert (second.starts, third.starts) == ((3, 4), (3, 10))


def test_a_prompt_without_the_answer_before_it_begins_after_the_common_blocks():
    _, second = played(session(one(0, 8, 9, [1, 2]), one(1, 13, 1, [1, 2, 3])))
    assert second.starts == (8,)
