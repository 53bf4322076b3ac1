"""Texts that are cut and continued, in the notation."""

from __future__ import annotations

from cachesim.tools.server_logs.slot_contents import SlotText

TALK = SlotText().then("A", 20).then("a", 5).then("B", 10)


def test_a_piece_of_a_text_goes_on_behind_another_one():
    moved = TALK.first(8).goes_on(TALK, 15, 30)
    assert moved.written() == "A[:8].A[15:20].a.B[:5]" and moved.size == 23


def test_pieces_of_pieces_keep_their_place():
    moved = SlotText().goes_on(TALK, 15, 30)
    assert SlotText().goes_on(moved, 2, 7).written() == "A[17:20].a[:2]"
    assert moved.first(3).written() == "A[15:18]" and moved.first(3).then("C", 4).written("C") == "A[15:18].C4"


def test_nothing_goes_on_from_where_nothing_is():
    assert SlotText().goes_on(TALK, 40, 50) == SlotText() == SlotText().goes_on(TALK, 7, 7)
