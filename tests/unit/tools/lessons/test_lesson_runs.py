"""Lines that draw what a slot holds, and the introduction without questions."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.lessons.lesson_files import Lesson, LessonStep, RunShown
from cachesim.tools.lessons.lesson_runs import LessonRun, lesson_runs, step_lines
from cachesim.tools.picture.event_stream import CaptionedWalk, EventWalk, SlotContents

ONE, TWO = SlotContents(9, ((0, 9),)), SlotContents(4, ((0, 4),), window=((2, 4),), state=4)


def lesson_run(held, says, decisions=(), rows=(), entries=()):
    walk = EventWalk((), [*rows] or [0] * len(says), [0], [len(says)], held, {}, [*entries])
    return LessonRun(RunShown("A", "", ""), None, CaptionedWalk(walk, says, decisions or [False] * len(says)))


def test_a_step_is_told_whole():
    """The slots that hold something, or held something at the last event that is shown, each beside its number."""
    run = lesson_run({0: [(0, ONE), (2, TWO)], 1: [], 3: [(0, ONE), (1, ONE), (2, SlotContents())]},
                     ["start", "", "rule: cut"], [False, False, True],
                     entries=[(0, ((0, 5), (1, 6))), (2, ((1, 6), (0, 7)))])  # fmt: skip
    assert step_lines(run, LessonStep("A", 0, "cut")) == [
        "> A, request 0: cut (rule)", "  slot 0  rows        ====xxxxx  0 to 3", "          window        ++  2 to 3",
        "          state           *  after 4", "  slot 3  rows        xxxxxxxxx  none",
        "  prompt cache: entries of 6, 7 (new), 5 (removed) tokens"]  # fmt: skip


def test_a_slot_that_stays_empty_is_not_told():
    run = lesson_run({0: [(0, SlotContents())], 1: [(0, SlotContents(3))]}, ["x: one", "two"])
    assert step_lines(run, LessonStep("A", 0, "one")) == ["> A, request 0: x: one"]
    assert step_lines(run, LessonStep("A", 0, "two")) == ["> A, request 0: two"]


def test_the_first_event_of_the_request_is_the_step():
    run = lesson_run({}, ["an a", "a b", "an a", "a"], rows=[0, 1, 1, 1])
    assert [run.event(LessonStep("A", *one)) for one in ((0, "a"), (1, "a"), (1, "n"), (1, ""))] == [0, 1, 2, 1]
    with pytest.raises(BadInput) as bad:
        run.event(LessonStep("A", 0, "b"))
    assert str(bad.value) == "run A, request 0: no event says 'b'"


@pytest.mark.parametrize("held, length", [
    ({}, 1), ({0: [(0, ONE), (1, TWO)]}, 9), ({0: [(0, TWO)]}, 4), ({0: [], 1: [(0, TWO._replace(state=12))]}, 12),
    ({0: [(0, SlotContents(window=((0, 3), (5, 8))))]}, 8)])  # fmt: skip
def test_the_length_is_that_of_all_positions(held, length):
    assert lesson_run(held, []).length == length


def test_a_long_run_has_a_character_for_several_positions():
    run = lesson_run({0: [(0, SlotContents(rows=((0, 88),)))]}, ["now"])
    assert step_lines(run, LessonStep("A", 0, "now"))[1] == f"  slot 0  rows        {'=' * 44}  0 to 87"
    run = lesson_run({0: [(0, SlotContents(rows=((0, 89),)))]}, ["now"])
    assert step_lines(run, LessonStep("A", 0, "now"))[1] == f"  slot 0  rows        {'=' * 30}  0 to 88"


def test_the_runs_of_a_lesson_have_their_names_and_their_events():
    case, builds = "llama-lesson-attention", ("llama_cpp@b10587", "llama_cpp@b9518")
    shown = [RunShown(f"run {number}", case, build) for number, build in enumerate(builds)]
    found = lesson_runs(Lesson(1, "title", None, (), {"a.svg": shown[:1], "b.svg": shown[1:]}))
    assert [(name, one.shown) for name, one in found.items()] == [("run 0", shown[0]), ("run 1", shown[1])]
    for one in found.values():
        assert any(one.log.says) and len(one.log.says) == len(one.log.walk.rows) and one.length > 1
        assert one.event(LessonStep("", one.log.walk.rows[0], one.log.says[0])) == 0


def test_a_line_of_a_slot_has_at_most_80_characters():
    spans = tuple((low, low + 1) for low in range(0, 88, 4))
    [_, line] = step_lines(lesson_run({0: [(0, SlotContents(rows=spans))]}, ["now"]), LessonStep("A", 0, "now"))
    assert len(line) == 80 and line.startswith("  slot 0  rows        = = =") and line.endswith("0 to 0, 4 to ")


def test_marks_stand_below_the_lengths_of_the_checkpoints():
    now = SlotContents(20, ((0, 20),), state=15, checkpoints=((10, 0, 9), (20, 0, 19)))
    _, bar, state, marks = step_lines(lesson_run({0: [(0, now)]}, ["now"]), LessonStep("A", 0, "now"))
    first = bar.index("=")
    assert state[first + 15] == "*" and [at - first for at, sign in enumerate(marks) if sign == "^"] == [10, 20]
    assert marks.endswith("10, 20")


def test_many_checkpoints_take_several_lines():
    marks = tuple((length, 0, length - 1) for length in [100] * 3 + [10] * 10)
    now = SlotContents(100, ((0, 100),), checkpoints=marks)
    *_, line, last = step_lines(lesson_run({0: [(0, now)]}, ["now"]), LessonStep("A", 0, "now"))
    assert max(len(line), len(last)) <= 80 and (line + last).count("10") == 13
