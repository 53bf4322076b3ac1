"""Tests of the older generator's only checkpoint, with the numbers of sections 4.4, 4.6 and 5 of the specification."""

from __future__ import annotations

import pytest

from cachesim.engines.chat_template import ChatMessage, ChatTemplate, render
from cachesim.engines.mlx_lm.rules import prefill as rules

SYSTEM = ChatMessage("system", (1, 2, 3, 4, 5, 6))


def prompt(n, thinking=False, changed=None):
    content = tuple(range(10, 10 + n)) if changed is None else changed
    return render([SYSTEM, ChatMessage("user", content)], ChatTemplate("plain", thinking))


def test_one_token_before_the_think_token_else_one_before_the_end():
    assert rules.position_think(prompt(3), "user", True, True, None).value == -1
    assert rules.position_think(prompt(3, True), "user", True, True, None).value == -3          # 5.8: pc 3, key 21


def test_no_position_unless_the_user_spoke_last_and_none_at_all_at_first():
    assert rules.position_think(prompt(3, True), "tool", True, True, None).value is None
    assert rules.position_none(prompt(3, True), "user", True, True, None).value is None


def test_a_tokenizer_without_think_tokens_looks_for_none():
    assert rules.position_think((1, 2, 96, 3), "user", False, True, None).value == -1


@pytest.mark.parametrize("back, position", [(1, -2), (9, -10), (10, -1)])
def test_the_think_token_is_looked_for_in_the_last_nine_tokens(back, position):
    tokens = [5] * 20
    tokens[-back] = 96
    assert rules.position_think(tuple(tokens), "user", True, True, None).value == position


@pytest.mark.parametrize("n, position", [(3, -8), (2, -7), (5, -10)])
def test_a_sentinel_finds_the_end_of_the_last_header(n, position):
    """5.5, 5.6: boundary 14 of prompts of 22, 21 and 24 tokens."""
    probe = prompt(1, changed=(77,))
    assert rules.position_sentinel(prompt(n), "user", False, False, probe).value == position


def test_caches_that_can_be_trimmed_keep_the_older_rule():
    assert rules.position_sentinel(prompt(3, True), "user", True, True, prompt(1, changed=(77,))).value == -3


def test_a_sentinel_that_finds_nothing_is_one_token_before_the_end():
    assert rules.position_sentinel(prompt(3), "user", False, False, None).value == -1
    assert rules.position_sentinel(prompt(3), "user", False, False, prompt(3)).value == -1
    assert rules.position_sentinel(prompt(3), "user", False, False, (7, 7)).value == -1
    assert rules.position_sentinel(prompt(3), "assistant", False, False, (7, 7)).value is None


def test_one_distance_for_all_rows_the_largest():
    assert rules.pc_largest([21, 24, 22], [-7, -10, -8]).value == 10          # 5.6
    assert rules.pc_largest([7, 10], [None, -1]).value == 1
    assert rules.pc_one([21, 24], [-7, -10]).value == 1


def test_ragged_tails_have_no_array_or_zeros_in_front():
    rests = [tuple(range(1, 8)), tuple(range(1, 11)), tuple(range(1, 9))]     # 5.6, the second burst: 7, 10, 8
    assert rules.tails_plain(rests, 10).value is None
    assert [tail[:4] for tail in rules.tails_zeros(rests, 10).value] == [(0, 0, 0, 1), (1, 2, 3, 4), (0, 0, 1, 2)]
    assert rules.tails_plain(rests, 3).value == [(5, 6, 7), (8, 9, 10), (6, 7, 8)]
    assert rules.tails_zeros([()], 2).value == [(0, 0)]


def test_whose_state_is_the_checkpoint_of_a_row():
    assert [rules.row_last(i, 3).value for i in range(3)] == [2, 2, 2]
    assert [rules.row_own(i, 3).value for i in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("position, asked, own", [(None, False, False), (-7, True, False), (-10, True, True)])
def test_who_stores_a_checkpoint(position, asked, own):
    assert rules.create_if_asked(11, position, 10).value is asked
    assert rules.create_if_own(11, position, 10).value is own


def test_before_1072_a_lost_client_left_its_entry():
    assert rules.cancel_stores().value is True
