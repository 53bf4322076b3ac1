"""Search for a text that stands at another place of the next prompt while the rest of the history is unchanged.

Clients insert notes, reminders and retrieved texts a fixed number of messages or lines before the end. Each request
moves them, so that two prompts differ from the earlier place on.
"""

from __future__ import annotations

from itertools import islice
from typing import Callable, Iterator, NamedTuple, Sequence, TypeVar

Entry = TypeVar("Entry")
LARGEST = 16                 # entries of a text that moves, at most
PLACES, SIZES = 4, 2         # later places of its first entry, and sizes there, that are tried, at most
LEAST = 8                    # characters of a text that moves, at least


class MovedText(NamedTuple):
    """Entries (messages or lines) that moved: their number, and the entries after them in the old and in the new
    history."""

    size: int
    before: int
    after: int

    @property
    def is_fixed(self) -> bool:
        """True if as many entries follow as before."""
        return self.before == self.after


def find_moved(old: Sequence[Entry], new: Sequence[Entry], at: int,
               begins: Callable[[Sequence[Entry], Sequence[Entry]], bool]) -> MovedText | None:  # fmt: skip
    """Return the entries of ``old`` from entry ``at`` on, the first that differs, that follow later in ``new``, such
    that both histories agree without them; None if there are none. ``begins``: whether a list begins with another."""
    if at >= len(old):
        return None
    later = islice((j for j in range(at + 1, len(new)) if new[j] == old[at]), PLACES)
    for place in later:
        for size in islice(_sizes(old, new, at, place), SIZES):
            rest = old[at + size :]
            moved = place - at
            same = list(rest[:moved]) == list(new[at:place]) if len(rest) > moved else begins(new[at:place], rest)
            if same and (len(rest) <= moved or begins(new[place + size :], rest[moved:])):
                return MovedText(size, len(rest), len(new) - place - size)
    return None


def _sizes(old: Sequence[Entry], new: Sequence[Entry], at: int, place: int) -> Iterator[int]:
    """Yield the numbers of entries of ``old`` from ``at`` on that follow at ``place`` in ``new``, and after which
    ``old`` may go on as ``new`` does at ``at``."""
    for size in range(1, min(LARGEST, len(old) - at - 1, len(new) - place) + 1):
        if old[at + size - 1] != new[place + size - 1]:
            return
        if at + size == len(old) - 1 or old[at + size] == new[at]:
            yield size


def list_begins(longer: Sequence[Entry], shorter: Sequence[Entry]) -> bool:
    """True if a list begins with another list."""
    return len(longer) >= len(shorter) and list(longer[: len(shorter)]) == list(shorter)


def text_begins(longer: Sequence[str], shorter: Sequence[str]) -> bool:
    """True if a text begins with another text, both given as lines."""
    if len(longer) < len(shorter) or list(longer[: len(shorter) - 1]) != list(shorter[:-1]):
        return False
    return longer[len(shorter) - 1].startswith(shorter[-1])


def find_moved_lines(old: str, new: str, at: int) -> MovedText | None:
    """Return the lines that moved, of two texts that differ from character ``at`` on; None if there are none."""
    begin = old.rfind("\n", 0, at) + 1
    lines = old[begin:].splitlines(keepends=True)
    found = find_moved(lines, new[begin:].splitlines(keepends=True), 0, text_begins)
    return found if found and sum(map(len, lines[: found.size])) >= LEAST else None
