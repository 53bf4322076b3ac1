"""Tests of lesson files and their parts."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.lessons import lesson_files
from cachesim.tools.lessons.lesson_files import blocks


def test_lessons_are_in_their_order():
    found = lesson_files.lessons()
    assert [one.number for one in (*found, lesson_files.quiz())] == [*range(11), -1]
    assert [one.anchor for one in (*found[:2], lesson_files.quiz())] == ["lesson-0", "lesson-1", "quiz"]
    assert all(one.title and one.blocks for one in found)


@pytest.mark.parametrize("number", ["11", "-1", "one", "01", ""])
def test_a_lesson_that_is_not_there(number):
    with pytest.raises(BadInput, match="unknown lesson: "):
        lesson_files.lesson(number)


def test_a_part_ends_before_a_heading_and_around_an_answer(tmp_path):
    text = "# T\n\na\n\n## H\n\nb\n\n<details>\n\nyes\n\n</details>\n\nc\n\n### h\n\nd\n"
    one = lesson_files.Lesson(1, "T", tmp_path, blocks(text))
    assert [[block.kind for block in part] for part in one.parts] == [
        ["heading", "text"], ["heading", "text"], ["answer"], ["text", "heading", "text"]]  # fmt: skip
    assert [block for part in one.parts for block in part] == list(one.blocks)
