"""Texts that stand at another place of the next prompt."""

from __future__ import annotations

import pytest

from cachesim.tools.request_bodies.moved_text import (
    LARGEST,
    PLACES,
    MovedText,
    find_moved,
    find_moved_lines,
    list_begins,
    text_begins,
)


@pytest.mark.parametrize(("old", "new", "at", "found"), [
    ("abNcd", "abcdNef", 2, MovedText(1, 2, 2)), ("abNMcd", "abcNMde", 2, MovedText(2, 2, 2)),
    ("abNcd", "abcNd", 2, MovedText(1, 2, 1)), ("abNcd", "abcdeN", 2, MovedText(1, 2, 0)),
    ("abNcd", "abcXNd", 2, None), ("abNcd", "abcd", 2, None), ("abN", "abcN", 2, None), ("ab", "ab", 2, None),
    ("abNcd", "abcNXY", 2, None), ("Naaa", "aNaaa", 0, MovedText(1, 3, 3)),
])  # fmt: skip
def test_entries_that_moved_are_found_if_the_others_are_unchanged(old, new, at, found):
    assert find_moved(list(old), list(new), at, list_begins) == found


def test_lines_move_although_the_last_line_grows():
    old, new = "A: one\n[a note for all]\nB: two\nA:", "A: one\nB: two\nA: three\n[a note for all]\nB: four\nA:"
    found = find_moved_lines(old, new, old.index("["))
    assert found == MovedText(1, 2, 2) and found.is_fixed


def test_a_short_line_is_not_a_text_that_moves():
    assert find_moved_lines("a\n\nb\nc\n", "a\nb\n\nc\n", 2) is None


@pytest.mark.parametrize(("old", "new", "at", "found"), [
    ("abNNcd", "abcNNde", 2, MovedText(2, 2, 2)), ("abNc", "abcNd", 2, MovedText(1, 1, 1)),
    ("abNc", "abdN", 2, None), ("abNcde", "abcNXde", 2, None), ("abNcd", "abcNNNNd", 2, None),
    ("abNcd", "abcdeNfNgN", 2, MovedText(1, 2, 4)), ("Nab", "aNb", 0, MovedText(1, 2, 1)), ("", "a", 0, None),
    ("ab", "abcd", 2, None),
])  # fmt: skip
def test_the_first_place_at_which_both_histories_agree_is_taken(old, new, at, found):
    assert find_moved(list(old), list(new), at, list_begins) == found


@pytest.mark.parametrize(("entries", "is_found"), [(LARGEST, True), (LARGEST + 1, False)])
def test_a_text_that_moves_has_at_most_sixteen_entries(entries, is_found):
    moved = [f"N{number}" for number in range(entries)]
    found = find_moved(["a", *moved, "b", "c"], ["a", "b", *moved, "c", "d"], 1, list_begins)
    assert found == (MovedText(entries, 2, 2) if is_found else None)


def test_at_most_four_later_places_are_tried():
    """The entry follows at wrong places first."""
    for wrong, is_found in ((PLACES - 1, True), (PLACES, False)):
        new = ["a", "b", *["N", "x"] * wrong]
        old = ["a", "N", *new[1:], "c"]
        assert (find_moved(old, [*new, "N", "c"], 1, list_begins) is not None) is is_found


@pytest.mark.parametrize(("longer", "shorter", "begins"), [
    ("abc", "ab", True), ("ab", "ab", True), ("ab", "abc", False), ("abc", "ac", False), ("a", "", True),
])  # fmt: skip
def test_a_list_begins_with_another(longer, shorter, begins):
    assert list_begins([*longer], [*shorter]) is begins


@pytest.mark.parametrize(("longer", "shorter", "begins"), [
    (["a\n", "bc"], ["a\n", "b"], True), (["a\n", "b"], ["a\n", "bc"], False), (["a\n"], ["a\n", "b"], False),
    (["x\n", "b"], ["a\n", "b"], False), (["ab"], ["a"], True), (["a\n", "b\n", "c"], ["a\n", "b"], True),
])  # fmt: skip
def test_the_last_line_of_a_text_may_go_on(longer, shorter, begins):
    assert text_begins(longer, shorter) is begins


@pytest.mark.parametrize(("line", "is_found"), [("1234567\n", True), ("123456\n", False)])
def test_a_line_that_moves_has_at_least_eight_characters(line, is_found):
    old, new = f"a\n{line}b\nc\n", f"a\nb\n{line}c\nd\n"
    assert find_moved_lines(old, new, 2) == (MovedText(1, 2, 2) if is_found else None)
