"""Questions whose answers are typed: what is expected, what was typed, and is it right? The quiz's bold words are the
answers, so that a reader of its Markdown and a terminal see the same ones.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from cachesim.tools.lessons.lesson_files import Block

_BOLD = re.compile(r"\*\*(.+?)\*\*")
_PAUSES = re.compile(r"[\s,;:=/&]+")
_WORDS = {"y": "yes", "yes": "yes", "n": "no", "no": "no"}


class QuizResult(NamedTuple):
    """``right``: None if that is no answer to the question. ``says``: one line."""

    right: bool | None
    says: str


def expected(parts: Sequence[Sequence[Block]], number: int) -> list[str]:
    """What answers the question of a part: the bold words of the answer behind it, [] where none follows."""
    after = parts[number + 1] if number + 1 < len(parts) else []
    inside = [inner for block in after if block.kind == "answer" for inner in block.inside]
    return [word for block in inside for word in _BOLD.findall(block.text)]


def read(typed: str) -> list[str]:
    """The whole numbers, and each yes or no, in what somebody typed; other words are left out."""
    words = (word.strip(".!?()[]'\"").lower() for word in _PAUSES.split(typed))
    return [_WORDS.get(word) or word.lstrip("0") or "0" for word in words if word in _WORDS or _is_number(word)]


def judged(answers: Sequence[str], typed: str) -> QuizResult:
    """Is what was typed the answer?"""
    found, said = read(typed), ", ".join(answers)
    if len(found) != len(answers):
        return QuizResult(None, f"Type {asks_for(answers)} ({len(found)} found), or press Enter to see the answer.")
    if found == list(answers):
        return QuizResult(True, f"Right: {said}.")
    return QuizResult(False, f"Not right. Computed: {said}; you typed {', '.join(found)}.")


def asks_for(answers: Sequence[str]) -> str:
    """How many of what are to be typed."""
    if all(map(_is_number, answers)):
        return "a number" if len(answers) == 1 else f"{len(answers)} numbers"
    return "yes or no" if len(answers) == 1 else f"{len(answers)} answers"


def score(marks: Sequence[bool]) -> str:
    """The line at the end; "" where no question was answered."""
    return f"{sum(marks)} of {len(marks)} right." if marks else ""


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()
