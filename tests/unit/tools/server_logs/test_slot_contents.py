"""Slot contents: cutting and joining texts, and their notation."""

from __future__ import annotations

from cachesim.tools.server_logs.slot_contents import SlotText

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
