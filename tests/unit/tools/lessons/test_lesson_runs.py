"""Lines that draw what a slot holds, and the introduction without questions."""

from __future__ import annotations

import pytest

from cachesim.tools.lessons import command, quiz
from cachesim.tools.lessons.lesson_files import Lesson
from cachesim.tools.lessons.lesson_runs import _slot
from cachesim.tools.picture.event_stream import SlotContents


def test_marks_stand_below_the_lengths_of_the_checkpoints():
    now = SlotContents(20, state=15, checkpoints=((10, 0, 9), (20, 0, 19)))
    assert [*_slot(SlotContents(), now, 5)] == [
        f"{'state':12}   *  after 15", f"{'checkpoints':12}  ^ ^  of 10, 20"]  # fmt: skip


def test_an_empty_slot_has_no_lines():
    assert [*_slot(SlotContents(), SlotContents(), 5)] == []


@pytest.mark.parametrize("number, asked", [(0, []), (2, []), (-1, [0, 1])])
def test_only_the_quiz_asks(monkeypatch, capsys, number, asked):
    seen = []
    monkeypatch.setattr(quiz, "expected", lambda parts, at: seen.append(at) or [])
    monkeypatch.setattr(command, "_texts", lambda lesson: ["one", "two"])
    monkeypatch.setattr(command, "ask", lambda text: "")
    command._walk(Lesson(number, "title", None, ()))
    assert seen == asked and "one" in capsys.readouterr().out
