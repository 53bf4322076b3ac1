"""Which properties does an implementation fail, and what is the smallest history that shows it?

One pass plays all histories and shrinks nothing; then for each failed property a history is shrunk by itself, so that
one does not hide another. Histories are played once: what fails in each of them is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Sequence

from cachesim.scenarios.notation.normalise import merged, renamed_apart, unmarked
from cachesim.scenarios.notation.shrink import Shrinking
from cachesim.tools.conformance.client_history import History, of_line
from cachesim.tools.conformance.fingerprint import Difference, Same
from cachesim.tools.conformance.history_player import PlayedHistory
from cachesim.tools.conformance.properties import EQUAL, Check, checks
from cachesim.tools.conformance.report import Count
from cachesim.tools.conformance.timeouts import Patience

# To which property is a wrong answer attributed? To the plainest one that explains it, at the first wrong request.
#
# What is wrong later in the same history may follow from the first. A wrong answer after a client disconnected, or in a
# burst, is attributed to that only if the same prompts, one after the other and answered to the end, are answered
# right.

SPECIAL = ("cancel", "burst")
Replay = Callable[..., Sequence[Check]]


def attributed(found: Sequence[Check], replay: Replay | None) -> list[Check]:
    """The checks, failures that follow from others left out. ``replay`` plays the same prompts without the special ways
    of asking that it is given; None if there are none."""
    wrong = _wrong(found)
    if not wrong:
        return list(found)
    first = min(wrong)
    special = {check.name for check in found if check.name in SPECIAL and check.request == first}
    if replay is None or not special or first in _wrong(replay("cache", *SPECIAL)):
        special = set()
    elif len(special) > 1:
        special = {name for name in SPECIAL if first not in _wrong(replay(name))} or special
    guilty = special or set(EQUAL).difference(SPECIAL)
    return [check for check in found if check.ok or check.name not in EQUAL
            or (check.request == first and check.name in guilty)]  # fmt: skip


def _wrong(found: Sequence[Check]) -> set[int]:
    """The requests that are not answered as on a cold run."""
    return {check.request for check in found if check.name in EQUAL and not check.ok}


TRIES = 800                  # histories that are played for it: each is some requests to somebody else's cache


def shrink(history: History, breaks: Callable[[History], bool], tries: int = TRIES) -> History:
    """The smallest history that still breaks, as far as so many tries go. The given one does, and is returned if no
    smaller one does."""
    return Shrinking(history, breaks, tries).run((), (unmarked, merged, renamed_apart))


Player = Callable[[History], PlayedHistory]
STARTS = 4                   # histories from which the smallest one is looked for: not all lead to the same


@dataclass(slots=True)
class Tally:
    """What all histories together showed of one property."""

    checked: int = 0
    reused: int = 0
    failed: list[tuple[History, Check]] = field(default_factory=list)
    apart: Difference | None = None

    def add(self, history: History, check: Check) -> None:
        """Count a check of a history, and remember the largest difference of two fingerprints."""
        self.checked += 1
        self.reused += check.reused
        if check.apart is not None and (self.apart is None or check.apart.largest > self.apart.largest):
            self.apart = check.apart
        if not check.ok:
            self.failed.append((history, check))


class HistorySearch:
    """Plays histories and remembers what fails in every one of them."""

    def __init__(self, play: Player, same: Same, patience: Patience) -> None:
        self.play, self.same, self.patience = play, same, patience
        self.tallies: dict[str, Tally] = {}
        self.gap = ""                                # the first ability that was missing where it had been there
        self.known: dict[str, list[Check]] = {}
        self.counts: dict[str, Count] = {}

    def count(self, section: str, history: History) -> None:
        """Play a history for a section, unless it was played before."""
        if history.line in self.known:
            return
        failed = sorted({check.name for check in self.look(history) if not check.ok})
        count = self.counts.get(section, Count())
        names = tuple(sorted({*count.names, *failed}))
        self.counts[section] = Count(count.histories + 1, count.failed + bool(failed), names)

    def look(self, history: History) -> list[Check]:
        """The checks of a history, each wrong answer attributed to one property."""
        if history.line not in self.known:
            self.known[history.line] = found = self._attributed(history)
            for check in found:
                self.tallies.setdefault(check.name, Tally()).add(history, check)
        return self.known[history.line]

    def _attributed(self, history: History) -> list[Check]:
        def replay(*names: str) -> list[Check]:
            return self._checks(history.without(*names))

        return attributed(self._checks(history), replay if "{" in history.line else None)

    def _checks(self, history: History) -> list[Check]:
        played = self.play(history)
        self.gap = self.gap or played.gap
        return list(checks(played, self.same))

    def smallest(self, name: str) -> tuple[History, Check]:
        """The smallest history in which a property fails: the smallest ones that were played, shrunk."""
        if name == "answers" and self.patience.low and self._fails(of_line("A1"), name):
            start = [of_line("A1")]                  # one time-out is left: there is nothing smaller to spend it on
        else:
            failed = {history.line: history for history, _ in self.tallies[name].failed}
            start = sorted(failed.values(), key=_size)[:STARTS]
        history = min((shrink(one, lambda other: self._fails(other, name)) for one in start), key=_size)
        return history, next(check for check in self.look(history) if check.name == name and not check.ok)

    def again(self, history: History, check: Check) -> bool:
        """Returns True if the same request fails in it once more. Where replies do not come, that was seen often
        enough."""
        hangs = self.patience.gone and check.name == "answers" and check.got.endswith(self.patience.silence)
        return hangs or any(one[:3] == (check.name, False, check.request) for one in self._attributed(history))

    def _fails(self, history: History, name: str) -> bool:
        if self.patience.spent and history.line not in self.known:
            return False                             # there is no time to shrink any further
        return any(check.name == name and not check.ok for check in self.look(history))


def _size(history: History) -> tuple[int, int, int, str]:
    return len(history.hang_ups), history.tokens, len(history.line), history.line
