"""``cachesim lesson [N]``: ten short lessons on these caches. Enter shows the next part, b the previous part, q
quits; the quiz waits for answers. Without a terminal the whole text is printed."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Sequence

from cachesim.base import exits
from cachesim.base.console import ask, complain, say, say_json
from cachesim.tools.run.arguments import add_json
from cachesim.tools.run.suggestions import say_next

if TYPE_CHECKING:
    from cachesim.tools.lessons.lesson_files import Lesson, LessonStep

KEYS = "-- Enter: next   b: back   q: leave --"
QUESTION = "-- type {}   Enter: show   b: back   q: leave --"
LEAVE, BACK = ("q", "quit"), ("b", "back")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("number", metavar="N", nargs="?", help="number of a lesson, 0 for the introduction (default: "
                        "the introduction; with --html, all of them)")  # fmt: skip
    parser.add_argument("--quiz", action="store_true", help="seven questions; in a terminal with input and marking of "
                        "answers")  # fmt: skip
    parser.add_argument("--html", metavar="FILE", default="", help="HTML file to write, with the pictures")
    add_json(parser)


def run(args: Namespace) -> int:
    from cachesim.tools.lessons import lesson_files

    chosen = lesson_files.quiz() if args.quiz else lesson_files.lesson(args.number or "0")
    if args.html:
        _write(args.html, [chosen] if args.quiz or args.number else [*lesson_files.lessons(), lesson_files.quiz()])
    elif args.json:
        say_json({"lesson": max(chosen.number, 0), "quiz": args.quiz, "title": chosen.title, "parts": _texts(chosen)})
    elif sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
        _walk(chosen)
    else:
        say("\n\n".join(_texts(chosen)))
    if not args.html:
        say_next(_after(chosen, max(lesson_files.files())), is_quiet=args.json or args.quiet)
    return exits.HOLDS


def _after(chosen: Lesson, last: int) -> list[list[str]]:
    """Return the command for the next lesson, or for the quiz after the last; [] after the quiz."""
    if chosen.number < 0:
        return []
    return [["lesson", str(chosen.number + 1) if chosen.number < last else "--quiz"]]


def _texts(chosen: Lesson) -> list[str]:
    from cachesim.tools.lessons import terminal_lesson
    from cachesim.tools.lessons.lesson_runs import SIGNS, lesson_runs, step_lines

    runs, signs = lesson_runs(chosen), [SIGNS, ""]

    def shown(step: LessonStep) -> list[str]:
        lines = [*signs, *step_lines(runs[step.run], step)]
        signs.clear()                                # explained once
        return lines

    return ["\n".join(terminal_lesson.lines(part, chosen.file.parent, shown=shown)) for part in chosen.parts]


def _write(file: str, some: Sequence[Lesson]) -> None:
    from cachesim.base.files import write_whole
    from cachesim.tools.lessons.html_lesson import page

    title = some[0].title if len(some) == 1 else "cachesim: lessons"
    text = page(title, some)
    write_whole(Path(file), text.encode())
    complain(f"wrote {file}")


def _walk(chosen: Lesson) -> None:
    """Show the parts of a lesson as the reader navigates, until its end or the end of the input. At the end of the quiz
    print how many first answers were right."""
    from cachesim.tools.lessons import quiz

    marks: dict[int, bool] = {}
    at, texts = 0, _texts(chosen)
    try:
        while at < len(texts):
            answers = quiz.expected(chosen.parts, at) if chosen.number < 0 else []
            keys = QUESTION.format(quiz.asks_for(answers)) if answers else KEYS
            say(f"{texts[at]}\n\n{keys}  ({at + 1}/{len(texts)})")
            key = _answered(answers, at, marks) if answers else ask("")
            if key is None or key in LEAVE:
                return
            at = max(0, at - 1) if key in BACK else at + 1
    finally:
        if result := quiz.score(list(marks.values())):
            say(f"\n{result}")


def _answered(answers: Sequence[str], at: int, marks: dict[int, bool]) -> str | None:
    """Wait for a valid answer to a question and print whether it is right. ``marks``: result of the first answer, by
    part. Return the navigation key that was typed instead, "" if none was."""
    from cachesim.tools.lessons import quiz

    while (typed := ask("> ")) and typed not in (*LEAVE, *BACK):
        right, says = quiz.judged(answers, typed)
        say(says if right is None else f"{says}\n")
        if right is not None:
            marks.setdefault(at, right)
            return ""
    return typed
