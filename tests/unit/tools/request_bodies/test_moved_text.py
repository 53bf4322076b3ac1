"""Texts that stand at another place of the next prompt."""

from __future__ import annotations

import pytest

from cachesim.tools.request_bodies.moved_text import MovedText, find_moved, find_moved_lines, list_begins


@pytest.mark.parametrize(("old", "new", "at", "found"), [
    ("abNcd", "abcdNef", 2, MovedText(1, 2, 2)), ("abNMcd", "abcNMde", 2, MovedText(2, 2, 2)),
    ("abNcd", "abcNd", 2, MovedText(1, 2, 1)), ("abNcd", "abcdeN", 2, MovedText(1, 2, 0)),
    ("abNcd", "abcXNd", 2, None), ("abNcd", "abcd", 2, None), ("abN", "abcN", 2, None), ("ab", "ab", 2, None),
    ("Naaa", "aNaaa", 0, MovedText(1, 3, 3)),
])  # fmt: skip
def test_entries_that_moved_are_found_if_the_others_are_unchanged(old, new, at, found):
    assert find_moved(list(old), list(new), at, list_begins) == found


def test_lines_move_although_the_last_line_grows():
    old, new = "A: one\n[a note for all]\nB: two\nA:", "A: one\nB: two\nA: three\n[a note for all]\nB: four\nA:"
    found = find_moved_lines(old, new, old.index("["))
    assert found == MovedText(1, 2, 2) and found.is_fixed


def test_a_short_line_is_not_a_text_that_moves():
    assert find_moved_lines("a\n\nb\nc\n", "a\nb\n\nc\n", 2) is None
