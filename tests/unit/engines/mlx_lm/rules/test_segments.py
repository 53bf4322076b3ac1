"""Tests of prompt segments, with the numbers of the specification's sections 3 and 7."""

from __future__ import annotations

import pytest

from cachesim.engines.chat_template import ChatMessage, ChatTemplate, render
from cachesim.engines.mlx_lm.rules import segments as rules

P = tuple(range(1, 21))


def system(n):
    return ChatMessage("system", tuple(range(1, n + 1)))


def user(n):
    return ChatMessage("user", tuple(range(10, 10 + n)))


def end_of_system(messages, template=ChatTemplate()):  # noqa: B008
    probe = render([messages[0], user(0)], template, False)
    return rules.system_end(render(messages, template), probe).value


@pytest.mark.parametrize("n", [1, 3, 8])
def test_the_system_segment_ends_behind_the_header_of_the_user(n):
    assert end_of_system([system(6), user(n)]) == 14


def test_an_empty_user_message_leaves_no_system_segment():
    assert end_of_system([system(6), user(0)]) == 0


def test_without_system_messages_there_is_no_system_segment():
    assert rules.system_end(P, None).value == 0


@pytest.mark.parametrize("at, sequence, guarded", [(19, 19, 19), (10, 10, 10), (9, 9, 20), (8, 20, 20)])
def test_how_far_back_the_think_token_is_looked_for(at, sequence, guarded):
    prompt = (*P[:at], 96, *P[at + 1 :])
    assert rules.tail_anywhere(prompt, 0).value == sequence
    assert rules.tail_guarded(prompt, 0).value == guarded


@pytest.mark.parametrize("at, guarded", [(14, 20), (15, 15), (16, 16)])
def test_the_token_next_to_the_system_segment_is_not_looked_at(at, guarded):
    """14 tokens of system, 6 more tokens: the token in place 14 is the first of them, and left out."""
    assert rules.tail_guarded((*P[:at], 96, *P[at + 1 :]), 14).value == guarded


def test_the_last_of_several_think_tokens_counts():
    assert rules.tail_anywhere((*P, 96, 1, 96, 2), 0).value == 22


def test_a_think_token_in_the_system_text_makes_segments_overlap():
    """7.10: 11 tokens in segments of 8 and 7, so 4 tokens are fed twice."""
    prompt = (93, 1, 2, 3, 96, 5, 91, 94, 10, 91, 95)
    tail = rules.tail_anywhere(prompt, 8).value
    assert [len(one.tokens) for one in rules.cut_chat(prompt, 8, tail).value] == [8, 7]
    tail = rules.tail_guarded(prompt, 8).value
    assert [len(one.tokens) for one in rules.cut_chat(prompt, 8, tail).value] == [8, 3]


def cut(sys_end, tail):
    return [(len(one.tokens), one.cache_type) for one in rules.cut_chat(P, sys_end, tail).value]


def test_a_chat_has_up_to_three_segments():
    assert cut(14, 18) == [(14, "system"), (4, "user"), (2, "assistant")]
    assert cut(0, 20) == [(20, "user")]
    assert cut(14, 20) == [(14, "system"), (6, "user")]
    assert cut(0, 0) == [(20, "assistant")]


def test_a_text_is_one_segment():
    assert rules.cut_none(P, "tool").value == (rules.Segment(P, "assistant"),)


CHAT = (rules.Segment(P[:14], "system"), rules.Segment(P[14:18], "user"), rules.Segment(P[18:], "assistant"))


@pytest.mark.parametrize("cached, segments, types", [
    (0, [14, 4, 1, 1], ["system", "user", "assistant"]),
    (5, [9, 4, 1, 1], ["system", "user", "assistant"]),
    (14, [4, 1, 1], ["user", "assistant"]),
    (16, [2, 1, 1], ["user", "assistant"]),
    (19, [1], ["assistant"]),
])
@pytest.mark.parametrize("rest", [rules.rest_or_index_error, rules.rest_or_value_error])
def test_cached_tokens_go_from_the_front_and_the_last_token_stands_alone(rest, cached, segments, types):
    left = rest(CHAT, cached).value
    assert ([len(one) for one in left.segments], list(left.types), left.error) == (segments, types, "")


def test_nothing_left_is_an_uncaught_error():
    assert rules.rest_or_index_error(CHAT, 20).value.error.startswith("IndexError")
    assert rules.rest_or_value_error(CHAT, 20).value.error.startswith("ValueError")


@pytest.mark.parametrize("end, types, stored", [(True, 2, True), (True, 0, False), (False, 2, False)])
def test_an_entry_at_the_end_of_a_segment_that_has_a_type(end, types, stored):
    assert rules.create_at_segment_end(14, end, types).value is stored


def test_alone_there_are_no_checkpoints_and_a_lost_client_leaves_nothing():
    assert rules.create_never(8).value is False
    assert rules.cancel_drops().value is False


@pytest.mark.parametrize("first", [-3, 0, 1])
def test_the_first_token_may_be_the_think_token(first):
    assert rules.find_tail((96, 1, 2), 0, first).value == (3 if first == 1 else 0)
