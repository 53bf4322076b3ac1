"""Vocabulary of verdicts: the words of a verdict, and the names under which reports show the verdict about a request.

All reports, exit codes and colours read these two tables. A further verdict is a further row.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from cachesim.base import exits


class VerdictWord(StrEnum):
    """A verdict in a word. The members are in order, the worst first."""

    WRONG = "wrong"
    UNDECIDED = "undecided"
    CORRECT = "correct"


class WordFacts(NamedTuple):
    """Consequences of a word: ``equal_cold`` in JSON (None = undecided), the exit code of the command, the colour."""

    equal_cold: bool | None
    exit_code: int
    colour: str


WORDS = {
    VerdictWord.WRONG: WordFacts(False, exits.BROKEN, "bold red"),
    VerdictWord.UNDECIDED: WordFacts(None, exits.UNDECIDED, "yellow"),
    VerdictWord.CORRECT: WordFacts(True, exits.HOLDS, "green"),
}
"""Consequences by word, the worst word first."""


class ShownVerdict(NamedTuple):
    """The verdict about a request as reports show it: the ``name`` in JSON and in tables, its word, the ``phrase`` in
    a sentence, and the name in a narrow column."""

    name: str
    word: VerdictWord
    phrase: str
    short: str


SERVER_DIED = ShownVerdict("SERVER DIED", VerdictWord.WRONG, "server died", "DIED")
NEVER_ANSWERED = ShownVerdict("NEVER ANSWERED", VerdictWord.WRONG, "never answered", "NEVER")
ERROR = ShownVerdict("ERROR", VerdictWord.WRONG, "error", "ERROR")
WRONG_OUTPUT = ShownVerdict("WRONG OUTPUT", VerdictWord.WRONG, "wrong answer", "WRONG")
CORRUPT_STATE = ShownVerdict("CORRUPT STATE", VerdictWord.WRONG, "corrupt state left behind", "CORRUPT")
UNDECIDED = ShownVerdict("UNDECIDED", VerdictWord.UNDECIDED, "undecided", "UNDECIDED")
REFUSED = ShownVerdict("REFUSED", VerdictWord.UNDECIDED, "refused", "REFUSED")
OK = ShownVerdict("OK", VerdictWord.CORRECT, "correct answer", "OK")

SHOWN = (SERVER_DIED, NEVER_ANSWERED, ERROR, WRONG_OUTPUT, CORRUPT_STATE, UNDECIDED, REFUSED, OK)
"""The verdicts about a request, the worst first."""
_BY_NAME = {shown.name: shown for shown in SHOWN}


def shown_verdict(text: str) -> ShownVerdict | None:
    """Return the verdict with this name, which a status in brackets may follow; None for another text."""
    return _BY_NAME.get(text.partition(" (")[0])


def rank(text: str) -> int:
    """Return the place of a verdict, by its name, among all verdicts; 0 = the worst."""
    return SHOWN.index(_BY_NAME[text.partition(" (")[0]])


def word_of(equal_cold: bool | None) -> VerdictWord:
    """Return the word for a comparison with a cold run; None = it was not decided."""
    return next(word for word, facts in WORDS.items() if facts.equal_cold is equal_cold)


def exit_code_of(equal_cold: bool | None) -> int:
    """Return the exit code for a comparison with a cold run; None = it was not decided."""
    return WORDS[word_of(equal_cold)].exit_code


def error_name(refused: bool, status: int) -> str:
    """Return the name of an error reply: ``REFUSED (400)`` if a cold run gets it, too, else ``ERROR (500)``."""
    return f"{(REFUSED if refused else ERROR).name} ({status})"
