"""Recognised lines of a log, and the words that all its lines share.

People search a log for a word and paste what they find. Then a line that is missing from the excerpt may still be in
the log. It is certainly not in the log only if the search would have found it.
"""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple

from cachesim.engines.shared.log_grammar import ParsedLine
from cachesim.tools.server_logs.lines.line_prefixes import visible_text

LONGEST = 200                # characters of a message that are kept
_HEAD = 120                  # characters of a prefix that are kept
_GRAM = 3                    # length of the shortest word that people search for
_SEARCHED = 4_000            # characters of a line in which shared words are looked up


class ReadLine(NamedTuple):
    """Recognised line: its number in the log, from 1; its message; the text before the message. ``heading``: slot and
    task of the heading above it, None if there is none."""

    number: int
    read: ParsedLine
    text: str
    head: str = ""
    heading: tuple[int, int] | None = None

    @property
    def kind(self) -> str:
        """Kind of line."""
        return self.read.line.ev

    @property
    def slot(self) -> int | None:
        """Slot that the line names."""
        return self.read.slot

    @property
    def task(self) -> int | None:
        """Task that the line names."""
        return self.read.task

    def without(self, name: str) -> ReadLine:
        """Return the line without a number."""
        numbers = {key: value for key, value in self.read.numbers.items() if key != name}
        return self._replace(read=self.read._replace(numbers=numbers))

    def number_of(self, *names: str) -> int | None:
        """Return the first of the named numbers that the line prints and that is a plausible count."""
        for name in names:
            found: Any = self.read.numbers.get(name)
            if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 31:
                return found
        return None


def head_of(raw: str, text: str) -> str:
    """Return the text of a line before its message, "" if the message is not a part of the line."""
    at = raw.find(text)
    return visible_text(raw[:at])[:_HEAD] if at > 0 else ""


class LineSieve:
    """Texts of three characters that every line of a log contains: a search for a longer word would have left them."""

    def __init__(self) -> None:
        self._grams: set[str] | None = None

    def add(self, raw: str) -> None:
        """Take a line into account. Empty lines say nothing."""
        line = raw[:_SEARCHED].lower()
        if not line.strip():
            return
        if self._grams is None:
            self._grams = {line[at : at + _GRAM] for at in range(len(line) - _GRAM + 1)}
        elif self._grams:
            self._grams = {gram for gram in self._grams if gram in line}

    def hides(self, texts: Iterable[str]) -> bool:
        """True if a search that found all lines of the log could have missed a line with one of these texts."""
        if self._grams is None:
            return True
        return any(gram not in text for text in map(str.lower, texts) for gram in self._grams)
