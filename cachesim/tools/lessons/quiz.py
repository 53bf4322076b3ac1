"""Marking of typed answers. The bold words of an answer in the quiz's Markdown are the expected words, so that the
Markdown and the terminal have identical answers.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Sequence

from cachesim.tools.lessons.lesson_files import Block

_BOLD = re.compile(r"\*\*(.+?)\*\*")
_PAUSES = re.compile(r"[\s,;:=/&]+")
_WORDS = {"y": "yes", "yes": "yes", "n": "no", "no": "no"}


class QuizResult(NamedTuple):
    """``is_right``: None if the input is not an answer. ``says``: a line of text."""

    is_right: bool | None
    says: str


def expected(parts: Sequence[Sequence[Block]], number: int) -> list[str]:
    """Return the expected answer to the question of a part: the bold words of a following answer block, else []."""
    after = parts[number + 1] if number + 1 < len(parts) else []
    return [word for block in after for inner in block.inside for word in _BOLD.findall(inner.text)]


def read(typed: str) -> list[str]:
    """Return the whole numbers and the words yes and no in the input; ignore other words."""
    words = (word.strip(".!?()[]'\"").lower() for word in _PAUSES.split(typed))
    return [_WORDS.get(word) or word.lstrip("0") or "0" for word in words if word in _WORDS or _is_number(word)]


def judged(answers: Sequence[str], typed: str) -> QuizResult:
    """Compare the input with the expected answer."""
    found, said = read(typed), ", ".join(answers)
    if len(found) != len(answers):
        return QuizResult(None, f"Type {asks_for(answers)} ({len(found)} found), or press Enter to see the answer.")
    if found == list(answers):
        return QuizResult(True, f"Right: {said}.")
    return QuizResult(False, f"Not right. Computed: {said}; you typed {', '.join(found)}.")


def asks_for(answers: Sequence[str]) -> str:
    """Return the number and the kind of the expected words."""
    if all(map(_is_number, answers)):
        return "a number" if len(answers) == 1 else f"{len(answers)} numbers"
    return "yes or no" if len(answers) == 1 else f"{len(answers)} answers"


def score(marks: Sequence[bool]) -> str:
    """Return the final line of the quiz, "" if no question was answered."""
    return f"{sum(marks)} of {len(marks)} right." if marks else ""


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdigit()
