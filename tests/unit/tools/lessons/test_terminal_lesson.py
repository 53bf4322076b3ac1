"""Tests of lessons as terminal text."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.tools.lessons.lesson_files import Block, LessonStep, blocks
from cachesim.tools.lessons.terminal_lesson import inline, lines

HERE = Path(__file__).parent


def test_headings_are_underlined_and_blocks_are_apart():
    assert lines(blocks("# One\n\nText.\n\n## Two\n\n### Three\n"), HERE) == [
        "One", "===", "", "Text.", "", "Two", "---", "", "Three"]  # fmt: skip


@pytest.mark.parametrize(("text", "plain"), [
    ("**bold** and *italics*", "bold and italics"), ("a [link](1-rows.md) here", "a link here"),
    ("`a * b * c` and `x**2`", "`a * b * c` and `x**2`"), ("2 * 3", "2 * 3"),
])  # fmt: skip
def test_signs_of_markdown_are_left_out(text, plain):
    assert inline(text) == plain


def test_text_and_items_are_wrapped():
    assert lines([Block("text", "aa bb cc")], HERE, 5) == ["aa bb", "cc"]
    assert lines([Block("list", rows=[["-", "aa bb cc"]])], HERE, 7) == ["- aa bb", "  cc"]


def test_the_last_column_of_a_wide_table_is_wrapped():
    rows = [["a", "b"], ["x", "one two three four five six"]]
    assert lines([Block("table", rows=rows)], HERE, 25) == [
        "a  b", "-  ----------------------", "x  one two three four five", "   six"
    ] or lines([Block("table", rows=rows)], HERE, 25) == [
        "a  b", "-  ----------------------", "x  one two three four", "   five six"]  # fmt: skip


def test_code_stands_as_it_is_and_an_answer_is_its_inside():
    assert lines([Block("code", "  a\n\nb")], HERE) == ["  a", "", "b"]
    assert lines([Block("answer", inside=[Block("text", "yes")])], HERE) == ["yes"]


def test_a_picture_is_the_drawing_beside_it_or_its_words(tmp_path):
    (tmp_path / "one.txt").write_text("KKEE\n")
    assert lines([Block("picture", "four tokens", "one.svg")], tmp_path) == ["KKEE"]
    assert lines([Block("picture", "four tokens", "two.svg")], tmp_path) == ["[four tokens]"]


def test_words_are_broken_neither_at_hyphens_nor_inside():
    for word in ("aa-bb-cc", "abcdefgh"):
        assert lines([Block("text", f"x {word}")], HERE, 5) == ["x", word]
        assert lines([Block("list", rows=[["10.", f"x {word}"]])], HERE, 7) == ["10. x", f"    {word}"]
    wide = [["a", "b"], ["x", "one-two three-four five-six"]]
    assert lines([Block("table", rows=wide)], HERE, 25) == [
        "a  b", "-  ----------------------", "x  one-two three-four", "   five-six"]  # fmt: skip


def test_columns_are_as_wide_as_their_widest_cell_and_the_last_has_at_least_20_characters():
    rows = [["a", "bb", "c"], ["xx", "y", "one two three four five"]]
    assert lines([Block("table", rows=rows)], HERE, 10) == [
        "a   bb  c", "--  --  --------------------", "xx  y   one two three four", "        five"]  # fmt: skip
    assert lines([Block("table", rows=[["**a**"], [""]])], HERE) == ["a", "-", ""]
    assert lines([Block("table", rows=[["**a**", "b"]])], HERE) == ["a  b", "-  -"]


def test_events_stand_below_the_block_that_names_them_and_empty_ones_are_left_out():
    one, two = (LessonStep("R", number, "x").marked for number in (1, 2))
    shown = {1: ["first"], 2: []}
    some = [Block("text", f"a{one} b"), Block("list", rows=[["-", f"c{two}{one}"]]), Block("text", "d")]
    assert lines(some, HERE, shown=lambda step: shown[step.request]) == [
        "a b", "", "first", "", "- c", "", "first", "", "d"]  # fmt: skip
    assert lines(some, HERE) == ["a b", "", "- c", "", "d"]
