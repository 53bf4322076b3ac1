"""Slot contents: cutting and joining texts, and their notation."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.rebuild.slot_contents import (
    MOST,
    SlotText,
    WordRange,
    prefix_by_shares,
    prefixes_by_threshold,
)
from tests.unit.tools.server_logs.records import logged

TALK = SlotText().append_word("A", 20).append_word("a", 5).append_word("B", 10)


def test_a_piece_of_a_text_is_appended():
    moved = TALK.prefix(8).append_piece(TALK, 15, 30)
    assert moved.notation() == "A[:8].A[15:20].a.B[:5]" and moved.size == 23


def test_pieces_of_pieces_keep_their_place():
    moved = SlotText().append_piece(TALK, 15, 30)
    assert SlotText().append_piece(moved, 2, 7).notation() == "A[17:20].a[:2]"
    assert moved.prefix(3).notation() == "A[15:18]"
    assert moved.prefix(3).append_word("C", 4).notation("C") == "A[15:18].C4"


def test_an_empty_piece_changes_nothing():
    assert SlotText().append_piece(TALK, 40, 50) == SlotText() == SlotText().append_piece(TALK, 7, 7)


@pytest.mark.parametrize(("marks", "notation"), [
    ((), "A20.a.B"), ((0, 35), "A20.a.B"), ((20,), "A20.|a.B"), ((22, 20, 22), "A20.|a[:2].|a[2:5].B"),
    ((1, 34), "A20[:1].|A20[1:20].a.B[:9].|B[9:10]"),
])  # fmt: skip
def test_user_messages_begin_within_the_text(marks, notation):
    assert TALK.notation("A", marks) == notation


@pytest.mark.parametrize(("tokens", "parts", "prompt"), [
    (0, (), 0), (1, (("A", 1),), 1), (20, (("A", 20),), 20), (21, (("A", 20), ("a", 1)), 21),
    (35, (("A", 20), ("a", 5), ("B", 10)), 24), (99, (("A", 20), ("a", 5), ("B", 10)), 24),
])  # fmt: skip
def test_a_prefix_keeps_words_and_at_most_the_prompt(tokens, parts, prompt):
    found = TALK._replace(prompt=24).prefix(tokens)
    assert ([(part.word, part.take) for part in found.parts], found.prompt) == (list(parts), prompt)



def test_a_word_has_at_least_one_token():
    assert SlotText().append_word("A", 0) == SlotText()
    assert SlotText().append_word("A", 1).parts == (WordRange("A", take=1, full=1, start=0),)


@pytest.mark.parametrize(("found", "n_swa", "prefixes"), [
    ((), 0, ()), (((5, 9, 120),), 0, (120, 121)), (((5, 9, 120), (1, 2, 60)), 64, (184, 185)),
])  # fmt: skip
def test_the_first_threshold_gives_two_prefixes(found, n_swa, prefixes):
    assert prefixes_by_threshold(logged(checked=found), n_swa) == prefixes



SHARES = "a common prefix of {} tokens ({} to {} print the same shares)"


@pytest.mark.parametrize(("request_", "found"), [
    (logged(f_sim=0.5), [(50, "")]),
    (logged(f_sim=0.5, f_keep=0.9), [(50, "")]),                # no length has both shares
    (logged(f_sim=0.0), [(0, "")]), (logged(f_keep=1.0), [(35, "")]),
    (logged(f_keep=0.0, f_sim=0.9), [(90, "")]),
    (logged(lcp=(20, 22)),
     [(21, SHARES.format(21, 20, 22)), (20, SHARES.format(20, 20, 22)), (22, SHARES.format(22, 20, 22))]),
    (logged(lcp=(20, 22), cache_n=22),
     [(22, SHARES.format(22, 20, 22)), (21, SHARES.format(21, 20, 22)), (20, SHARES.format(20, 20, 22))]),
    (logged(lcp=(23, 24), checked=((1, 2, 23),)),
     [(23, SHARES.format(23, 23, 24)), (24, SHARES.format(24, 23, 24))]),
])  # fmt: skip
def test_prefixes_that_print_as_the_shares(request_, found):
    assert list(prefix_by_shares(request_, TALK._replace(prompt=24), 100)) == found


def test_the_likely_prefixes_are_tried_first_up_to_a_number():
    long = SlotText((WordRange("A", 100, 100),), prompt=24)
    request_ = logged(checked=((1, 2, 60),), cache_n=31)
    tried = [lcp for lcp, _ in prefix_by_shares(request_, long, 200)]
    assert tried[:8] == [60, 61, 31, 24, 100, 50, 0, 1] and len(tried) == MOST - 3    # 24, 31 and 50 were tried


@pytest.mark.parametrize(("share", "whole", "held"), [(0.123, 1000, [123]), (0.123, 2000, [246, 245, 247]),
                                                      (1.0, 3, [3])])  # fmt: skip
def test_a_share_has_three_decimals(share, whole, held):
    text = SlotText((WordRange("A", 5000, 5000),))
    assert [lcp for lcp, _ in prefix_by_shares(logged(f_sim=share), text, whole)] == held


@pytest.mark.parametrize(("marks", "text"), [
    ((), "A.B"), ((0, 15, 20, -1), "A.B"), ((10,), "A.|B"), ((14, 15), "A.B[:4].|B[4:5]"),
    ((1, 1), "A[:1].|A[1:10].B")])
def test_only_marks_within_a_text_are_written(marks, text):
    assert SlotText().append_word("A", 10).append_word("B", 5).notation("", marks) == text


def test_a_threshold_lies_a_window_before_the_prefix_or_a_token_more():
    one = logged(checked=((1, 2, 40), (3, 4, 50)))
    assert prefixes_by_threshold(one) == (40, 41) and prefixes_by_threshold(one, 8) == (48, 49)
    assert prefixes_by_threshold(logged()) == ()


@pytest.mark.parametrize(("tokens", "parts"), [
    (3, (WordRange("A", 3, 3),)), (1, (WordRange("A", 1, 1),)), (0, ()), (-1, ()),
])  # fmt: skip
def test_a_word_without_tokens_adds_nothing(tokens, parts):
    assert SlotText().append_word("A", tokens).parts == parts
