"""Lines that list the prompt cache: one for each entry, for every request, which is most of a detailed log.

No row needs them, except the entry that was loaded. Therefore they wait as text, and only those with the shares of the
loaded entry are read. Lines that are not exactly in a server's own form are read like all others.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Iterator

from cachesim.engines.shared.log_grammar import LogGrammar, collapsed, pattern

NEVER, CANDIDATE, SEARCH, CHOICE = "pc_entry", "pc_cand", "pc_search", "pc_load"
"""Kinds of lines: a list that no row needs; a list of candidates, the line before it, and the choice after it."""
HELD = 4_096                 # candidates of a search that wait, at most
_MARK = "- prompt "           # all listed lines contain it
PREFIX = 64                  # characters before it, at most: there is no room for another message
_NOT_IN_PREFIX = frozenset('|"{}')
_SHARES = re.compile(r"\w+ = [0-9.]+")
_NOTHING = "(?!)"


class ListedLines:
    """Filter of the lines of a log."""

    def __init__(self, grammar: LogGrammar) -> None:
        self._never, self._candidate = _whole_line(grammar, NEVER), _whole_line(grammar, CANDIDATE)
        self._search, self._choice = _beginning(grammar, SEARCH), _beginning(grammar, CHOICE)
        self._held: deque[tuple[int, str]] = deque(maxlen=HELD)

    def is_listed(self, number: int, line: str) -> bool:
        """True if a line is not read now, or never. Must be fast. ``number``: that of the next line."""
        at = line.find(_MARK)
        if not 0 <= at <= PREFIX or not _NOT_IN_PREFIX.isdisjoint(line[:at]):
            return False
        if self._never.fullmatch(line, at):
            return True
        if self._candidate.fullmatch(line, at):
            self._held.append((number, line))
            return True
        return False

    def loaded(self, line: str) -> Iterator[tuple[int, str]]:
        """Yield the lines, with their numbers, that must be read before a line which is not listed."""
        if self._held and self._choice.search(line):
            shares = _SHARES.findall(line)
            found = [] if len(self._held) == HELD else [*self._held]     # else an equal one may be lost
            yield from (one for one in found if all(share in one[1] for share in shares))
            self._held.clear()
        elif self._held and self._search.search(line):
            self._held.clear()


def _whole_line(grammar: LogGrammar, kind: str) -> re.Pattern[str]:
    """Return the pattern of the whole messages of a kind."""
    texts = [pattern(line.template).pattern for line in grammar.lines if line.ev == kind]
    texts = [text.replace(r"\ ", " +").replace(".*?", r"\S+") for text in texts]
    numbered = (re.sub(r"\?P<\w+>", "?:", text) for text in texts)
    return re.compile(rf"(?:{'|'.join(numbered) or _NOTHING})\r?")


def _beginning(grammar: LogGrammar, kind: str) -> re.Pattern[str]:
    """Return the pattern of the fixed words with which messages of a kind begin."""
    heads = {collapsed(line.template.partition("{")[0]) for line in grammar.lines if line.ev == kind}
    return re.compile("|".join(re.escape(head).replace(r"\ ", " +") for head in sorted(heads)) or _NOTHING)
