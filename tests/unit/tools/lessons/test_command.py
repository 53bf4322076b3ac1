"""Tests of ``cachesim lesson`` in a pipe and in a terminal."""

from __future__ import annotations

import io
import json
import sys

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.tools.lessons import command, lesson_files, quiz
from tests.unit.tools.command_arguments import arguments


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def walked(monkeypatch):
    """Return the output of a terminal for these keys."""

    def walk(keys, *argv):
        shown = Terminal()
        monkeypatch.setattr(sys, "stdin", Terminal("".join(f"{key}\n" for key in keys)))
        monkeypatch.setattr(sys, "stdout", shown)
        assert main(["lesson", *argv]) == exits.HOLDS
        return shown.getvalue()

    return walk


def heads(text):
    return [line for line, under in zip(text.splitlines(), text.splitlines()[1:], strict=False)
            if under and set(under) in ({"="}, {"-"}) and len(under) == len(line)]  # fmt: skip


def parts(number):
    return len(lesson_files.lesson(number).parts)


@pytest.mark.parametrize(("argv", "first"), [
    ([], "Lessons: what a server keeps of a conversation"), (["0"], "Lessons: what a server keeps of a conversation"),
    (["3"], "3. Windows"), (["--quiz"], "Seven questions"),
])
def test_without_a_terminal_everything_is_printed(capsys, argv, first):
    assert main(["lesson", *argv]) == exits.HOLDS
    out, err = capsys.readouterr()
    assert out.startswith(f"{first}\n") and "-- Enter" not in out
    assert not [line for line in err.splitlines() if not line.startswith("next: ")]
    assert "<!--" not in out and "**" not in out


def test_enter_shows_the_next_part(walked):
    found = walked(["", ""], "1")
    assert heads(found) == ["1. Rows and states", "Attention keeps a row for each token",
                            "A recurrent layer keeps one state"]  # fmt: skip
    assert f"(1/{parts('1')})" in found


def test_b_goes_back_and_not_before_the_beginning(walked):
    assert heads(walked(["b", "", "b", "q"], "1")) == [
        "1. Rows and states", "1. Rows and states", "Attention keeps a row for each token", "1. Rows and states"]


def test_q_and_the_end_of_the_input_leave(walked):
    assert heads(walked(["q", ""], "2")) == heads(walked([], "2")) == ["2. One token must be left"]


def answers():
    """Return the expected answers to the questions of the quiz."""
    found = lesson_files.quiz().parts
    return [said for number in range(len(found)) if (said := quiz.expected(found, number))]


def test_the_quiz_says_which_answers_are_right(walked):
    right = [" and ".join(said) for said in answers()]
    shown = walked(["", *(key for one in right for key in (one, ""))], "--quiz")
    assert shown.count("\n> Right: ") == 7 and "Not right" not in shown
    assert shown.endswith("\n\n7 of 7 right.\n") and heads(shown)[-1] == "Question 7"
    shown = walked(["", *(key for one in right for key in (one.replace(one.split()[0], "77"), ""))], "--quiz")
    assert "Right: " not in shown and shown.endswith("\n0 of 7 right.\n")
    assert f"Not right. Computed: {', '.join(answers()[0])}; you typed 77, {answers()[0][1]}.\n" in shown


def test_what_is_no_answer_is_asked_again(walked):
    shown = walked(["", "1", "no idea", "-1 2 3 4", "x" * 4000, "9" * 5000, "20 0"], "--quiz")
    again = "Type 2 numbers ({} found), or press Enter to see the answer.\n> "
    assert [shown.count(again.format(number)) for number in (0, 1, 3)] == [1, 3, 1]
    assert shown.count("\n> Right: 20, 0.\n") == 1 and shown.endswith("1 of 1 right.\n")


def test_the_first_answer_counts_and_enter_shows_without_one(walked):
    assert walked(["", "1 2", "b", "20 0", "q"], "--quiz").endswith("0 of 1 right.\n")
    shown = walked(["", "", "", "b", "b", "b", "b", "Q"], "--quiz")
    assert "of 1 right." not in shown and heads(shown)[1:4] == ["Question 1", "Question 2", "Question 1"]


def test_bytes_that_are_no_text_are_no_answer(monkeypatch):
    shown = Terminal()
    keys = io.TextIOWrapper(io.BytesIO(b"\n\xff\xfe\0\n20, 0\n"), "utf-8")
    keys.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", keys)
    monkeypatch.setattr(sys, "stdout", shown)
    assert main(["lesson", "--quiz"]) == exits.HOLDS
    assert "(0 found)" in shown.getvalue() and shown.getvalue().endswith("1 of 1 right.\n")


@pytest.mark.parametrize(("argv", "last"), [(["--quiz"], "(2/15)\n> \n\n1 of 1 right.\n"), (["2"], "\n\n")])
def test_ctrl_c_leaves_between_lines(monkeypatch, capsys, argv, last):
    class Keys(Terminal):
        def readline(self):
            line = super().readline()
            if line.startswith("^C"):
                raise KeyboardInterrupt
            return line

    shown = Terminal()
    monkeypatch.setattr(sys, "stdin", Keys("\n20 0\nb\n^C"))
    monkeypatch.setattr(sys, "stdout", shown)
    assert main(["lesson", *argv]) == exits.INTERRUPTED
    assert shown.getvalue().endswith(last) and capsys.readouterr().err == "cachesim: interrupted\n"


def test_all_parts_end_the_lesson(walked):
    shown = walked([""] * 100, "2")
    assert shown.count("-- Enter") == parts("2")


@pytest.mark.parametrize(("argv", "then"), [
    ([], "lesson 1"), (["2"], "lesson 3"), (["10"], "lesson --quiz"), (["--quiz"], ""),
    (["1", "-q"], ""),
    (["1", "--json"], ""),
])
def test_what_to_type_next(capsys, argv, then):
    main(["lesson", *argv])
    assert capsys.readouterr().err == (f"next: cachesim {then}\n" if then else "")


def test_the_signs_of_an_event_are_explained_once(capsys):
    from cachesim.tools.lessons.lesson_runs import SIGNS

    main(["lesson", "1"])
    out = capsys.readouterr().out
    steps = [line for line in out.splitlines() if line.startswith("> ")]
    assert out.count(SIGNS) == 1 and len(steps) > 1 and out.index(SIGNS) < out.index(steps[0])
    main(["lesson", "0"])
    assert SIGNS not in capsys.readouterr().out


def test_json(capsys):
    main(["lesson", "4", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert (data["lesson"], data["quiz"], data["title"]) == (4, False, "4. Checkpoints")
    assert len(data["parts"]) == parts("4")


@pytest.mark.parametrize(("words", "name"), [(["5"], "lesson-5"), (["--quiz"], "quiz")])
def test_a_page_of_one_lesson(capsys, tmp_path, words, name):
    assert main(["lesson", *words, "--html", str(tmp_path / "l.html")]) == exits.HOLDS
    page = (tmp_path / "l.html").read_text("utf-8")
    assert f'<article id="{name}">' in page and page.count("<article") == 1
    assert capsys.readouterr() == ("", f"cachesim: wrote {tmp_path / 'l.html'}\n")
    title = (lesson_files.quiz() if name == "quiz" else lesson_files.lesson("5")).title
    assert f"<title>{title}</title>" in page


def test_a_lesson_that_is_not_there(capsys):
    assert main(["lesson", "11"]) == exits.BAD_INPUT
    assert capsys.readouterr().err == "cachesim: unknown lesson: '11' (0 is the introduction, 1 to 10 are lessons)\n"


def test_every_argument_is_explained_and_has_its_default():
    assert arguments(command.add_arguments) == {"number": None, "quiz": False, "html": "", "json": False}
    found = arguments(command.add_arguments, ["3", "--quiz", "--html", "x", "--json"])
    assert found == {"number": "3", "quiz": True, "html": "x", "json": True}
