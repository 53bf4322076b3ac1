"""Texts of recorded tokens, and samplers."""

import pytest

from cachesim.engines.base import Request
from cachesim.engines.shared.vocab import (
    PIECES,
    SAMPLED,
    TAGGED,
    WRONG,
    CountingSampler,
    GrowingHash,
    forced_draft,
    forced_or_hashed,
    plain_text,
    recorded_piece,
    unique_piece,
)
from cachesim.events import Log


@pytest.mark.parametrize(("token", "text"), [
    (0, " "), (33, "A"), (94, "~"), (95, "\n"), (96, "<|endoftext|>"), (100, "</think>"), (101, "Ba"), (200, "Zu"),
    (201, "Ban"), (300, "Zun"), (301, "Bas"), (319, "Fos"), (320, "\x00320\x00"), (999, "\x00999\x00"),
])  # fmt: skip
def test_a_token_has_its_text_and_an_unknown_one_a_text_of_its_own(token, text):
    assert recorded_piece(token) == text


def test_the_vocabulary_has_320_different_texts_and_six_may_begin_a_tag():
    assert len(set(PIECES)) == len(PIECES) == 320
    assert {28, 96, 97, 98, 99, 100} == TAGGED
    assert unique_piece(5) == "\x005\x00"


def test_an_answer_shows_no_special_tokens():
    assert plain_text((33, 96, 99, 101, 100, 400)) == "ABa\x00400\x00"


def test_a_forced_token_is_used_while_there_is_one():
    request = Request((1,), forced=(7, 8))
    assert [forced_or_hashed((1,), request, n) for n in (0, 1)] == [7, 8]
    assert forced_or_hashed((1,), request, 2) >= SAMPLED
    plain = Request((1,))
    chosen = forced_or_hashed((1, 2), plain, 0)
    assert chosen == forced_or_hashed([1, 2], plain, 5) != forced_or_hashed((2, 1), plain, 0)


def test_a_hash_does_not_depend_on_the_lists_before_it():
    growing, tokens, found, expected = GrowingHash(), [], [], []
    for change in (tokens.clear, lambda: tokens.extend([1, 2, 3]), lambda: tokens.append(-4), lambda: tokens.pop(1),
                   lambda: tokens.insert(1, 1 << 40), tokens.reverse, lambda: tokens.append(5)):  # fmt: skip
        change()
        found.append(growing(tokens))
        expected.append(GrowingHash()(tokens))
    assert found == expected and len(set(found)) == len(found)


def test_a_draft_is_right_as_far_as_it_is_said_to_be():
    def count(held, request, n_gen):
        return 100 * len(held) + n_gen

    assert forced_draft(count, (5, 6), Request((5,)), 3, right=2, drafted=4) == [203, 304, WRONG, WRONG + 1]
    assert forced_draft(count, (5, 6), Request((5,)), 3, right=0, drafted=1) == [WRONG]


def test_only_choices_of_the_sampler_are_counted():
    log = Log()
    sampler = CountingSampler(lambda held, request, n_gen: n_gen, log)
    assert [sampler((), Request((1,), forced=(4, 5)), n) for n in range(4)] == [0, 1, 2, 3]
    assert log.sampled == 2
    assert sampler((), Request((1,)), 0) == 0 and log.sampled == 3
