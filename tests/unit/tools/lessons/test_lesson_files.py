"""Tests of lesson files and their parts."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.lessons import lesson_files
from cachesim.tools.lessons.lesson_files import Block, blocks


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


def test_a_lesson_has_the_text_of_its_first_heading_as_title():
    assert (lesson_files.lesson("3").title, lesson_files.quiz().title) == ("3. Windows", "Seven questions")
    assert lesson_files.lesson("3").runs == lesson_files.runs(lesson_files.lesson("3").file.read_text("utf-8"))


STEP = "<!-- step run one 12: n_past = 9 -->"


def test_a_step_stands_in_the_text_of_its_block_until_it_is_shown():
    [block] = blocks(f"It keeps{STEP} nine. <!-- step b 0: all -->\n")
    first, second = lesson_files.LessonStep("run one", 12, "n_past = 9"), lesson_files.LessonStep("b", 0, "all")
    assert lesson_files.steps(block.text) == [first, second] and lesson_files.steps("none") == []
    assert block.text == f"It keeps{first.marked} nine. {second.marked}"
    shown = lesson_files.with_steps(block.text, lambda step: f"[{step.run}, {step.request}, {step.says}]")
    assert shown == "It keeps[run one, 12, n_past = 9] nine. [b, 0, all]"


def test_the_runs_of_a_picture_have_their_names_or_those_of_their_rule_sets():
    text = ("<!-- picture one, two = CASE a@1 b@2 -->\n![x](x.svg)\n\n"
            "<!-- picture = OTHER a@1 b@2 -->\n![y](y.svg)\n\n![z](z.svg)\n")  # fmt: skip
    assert lesson_files.runs(text) == {
        "x.svg": [("one", "CASE", "a@1"), ("two", "CASE", "b@2")],
        "y.svg": [("a@1", "OTHER", "a@1"), ("b@2", "OTHER", "b@2")]}


def test_paragraphs_lists_and_code_end_before_each_other():
    assert blocks("a\nb\n```\nc\n```\nd\n\n- e\n  f\n- g\n\nh\n\n    i\n      j\n") == [
        Block("text", "a b"), Block("code", "c"), Block("text", "d"), Block("list", rows=[["-", "e f"], ["-", "g"]]),
        Block("text", "h"), Block("code", "i\n  j")]  # fmt: skip
