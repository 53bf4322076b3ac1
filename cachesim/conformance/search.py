"""Which properties does an implementation break, and what is the smallest history that shows it?

One pass plays all histories and shrinks nothing; then each broken property is made small by itself, so that one does
not hide another. Histories are played once: what each of them breaks is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

from cachesim.conformance.attribution import blame
from cachesim.conformance.history import History, of_line
from cachesim.conformance.history_player import Played
from cachesim.conformance.properties import Check, Same, checks
from cachesim.conformance.shrink import shrink
from cachesim.conformance.timeouts import Patience

Player = Callable[[History], Played]
STARTS = 4                   # histories from which the smallest one is looked for: not all lead to the same


@dataclass(slots=True)
class Tally:
    """What all histories together showed of one property."""

    seen: int = 0
    reused: int = 0
    broken: list[tuple[History, Check]] = field(default_factory=list)

    def copy(self) -> Tally:
        """The tally as it is now."""
        return Tally(self.seen, self.reused, list(self.broken))


class Search:
    """Plays histories and remembers what every one of them breaks."""

    def __init__(self, play: Player, same: Same, patience: Patience) -> None:
        self.play, self.same, self.patience = play, same, patience
        self.tallies: dict[str, Tally] = {}
        self.gap = ""                                # the first ability that was missing where it had been there
        self.known: dict[str, list[Check]] = {}

    def look(self, history: History) -> list[Check]:
        """The checks of a history, each wrong answer charged to one property."""
        if history.line not in self.known:
            self.known[history.line] = found = self._charged(history)
            for check in found:
                self._count(history, check)
        return self.known[history.line]

    def _charged(self, history: History) -> list[Check]:
        def replay(*names: str) -> list[Check]:
            return self._checks(history.without(*names))

        return blame(self._checks(history), replay if "{" in history.line else None)

    def _checks(self, history: History) -> list[Check]:
        played = self.play(history)
        self.gap = self.gap or played.gap
        return list(checks(played, self.same))

    def _count(self, history: History, check: Check) -> None:
        tally = self.tallies.setdefault(check.name, Tally())
        tally.seen += 1
        tally.reused += check.reused
        if not check.holds:
            tally.broken.append((history, check))

    def smallest(self, name: str) -> tuple[History, Check]:
        """The smallest history that breaks a property: the smallest ones that were played, made smaller still."""
        if name == "answers" and self.patience.low and self._breaks(of_line("A1"), name):
            start = [of_line("A1")]                  # one time-out is left: there is nothing smaller to spend it on
        else:
            start = self._starts(name)
        history = min((shrink(one, lambda other: self._breaks(other, name)) for one in start), key=_size)
        return history, next(check for check in self.look(history) if check.name == name and not check.holds)

    def _starts(self, name: str) -> list[History]:
        return sorted({history.line: history for history, _ in self.tallies[name].broken}.values(), key=_size)[:STARTS]

    def again(self, history: History, check: Check) -> bool:
        """Does it break the same way when it is played once more? Where replies do not come, that was seen often
        enough."""
        return self._hangs(check) or check in self._charged(history)

    def _hangs(self, check: Check) -> bool:
        return self.patience.gone and check.name == "answers" and check.came.endswith(self.patience.silence)

    def _breaks(self, history: History, name: str) -> bool:
        return any(check.name == name and not check.holds for check in self.look(history))


def _size(history: History) -> tuple[int, int, int, str]:
    return len(history.hang_ups), history.tokens, len(history.line), history.line
