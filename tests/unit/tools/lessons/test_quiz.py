"""Tests of expected and typed answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.tools.lessons import quiz
from cachesim.tools.lessons.lesson_files import Lesson, blocks

TEXT = """# T

## Question 1

How **many**?

<details><summary>Answer</summary>

It is **<!--= 4 * 5 -->20<!--/-->**, or **yes**, not 7.

</details>

## Question 2
"""


def test_the_bold_words_of_the_answer_behind_a_question_are_expected(tmp_path):
    parts = Lesson(-1, "T", tmp_path, blocks(TEXT)).parts
    assert [quiz.expected(parts, number) for number in range(len(parts))] == [[], ["20", "yes"], [], []]


@pytest.mark.parametrize(("typed", "found"), [
    ("20", ["20"]), (" 20, 0 ", ["20", "0"]), ("20;0", ["20", "0"]), ("attention 20, state: 007", ["20", "7"]),
    ("pos_max=95 pos_end=96", ["95", "96"]), ("Yes.", ["yes"]), ("y n", ["yes", "no"]), ("000", ["0"]),
    ("twenty", []), ("-20", []), ("2.5", []), ("1e3", []), ("", []), ("\u00b2 \u0663", []), ("not", []),
])  # fmt: skip
def test_numbers_and_yes_and_no_are_read(typed, found):
    assert quiz.read(typed) == found


@pytest.mark.parametrize(("answers", "typed", "right", "says"), [
    (["20", "0"], "20 0", True, "Right: 20, 0."),
    (["20", "0"], "0 20", False, "Not right. Computed: 20, 0; you typed 0, 20."),
    (["20", "0"], "20", None, "Type 2 numbers (1 found), or press Enter to see the answer."),
    (["20"], "x", None, "Type a number (0 found), or press Enter to see the answer."),
    (["yes"], "20 0", None, "Type yes or no (2 found), or press Enter to see the answer."),
    (["95", "yes"], "95", None, "Type 2 answers (1 found), or press Enter to see the answer."),
    (["yes"], "n", False, "Not right. Computed: yes; you typed no."),
])
def test_an_answer_is_right_wrong_or_none(answers, typed, right, says):
    assert quiz.judged(answers, typed) == (right, says)


@pytest.mark.long
@given(st.text(max_size=60))
def test_whatever_is_typed_is_judged(typed):
    right, says = quiz.judged(["4", "no"], typed)
    assert says.endswith(".") and (right is True) == (quiz.read(typed) == ["4", "no"])


@pytest.mark.parametrize(("marks", "line"), [([], ""), ([True], "1 of 1 right."), ([False, True], "1 of 2 right.")])
def test_the_score(marks, line):
    assert quiz.score(marks) == line
