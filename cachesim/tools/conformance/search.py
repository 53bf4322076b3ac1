"""Search for the properties that an implementation fails, and for the smallest history that shows each failure.

A first pass runs all histories and shrinks nothing. Then a history is shrunk separately for each failed property, so
that no failure hides another. Each history is run once; its failures are cached.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Sequence

from cachesim.scenarios.notation.normalise import merged, renamed_apart, unmarked
from cachesim.scenarios.notation.shrink import Shrinking
from cachesim.tools.conformance.client_history import History, parse_history
from cachesim.tools.conformance.compare_replies import Difference, Same
from cachesim.tools.conformance.history_player import HistoryRun
from cachesim.tools.conformance.properties import COMPARING, VERSUS_COLD, ColdAnswer, PropertyCheck, checks, distinct
from cachesim.tools.conformance.protocol import FIELDS, Reply
from cachesim.tools.conformance.report import Result, SectionCount
from cachesim.tools.conformance.timeouts import TimeBudget

# Attribution of a wrong answer to the simplest property that explains it, at the first wrong request.
#
# Later errors in a history may follow from the first. A wrong answer after a disconnect, or in a burst, is attributed
# to that only if the prompts are answered correctly when sent in sequence and to the end.
SPECIAL = ("cancel", "burst")
SUSPECTED = (*SPECIAL, "drafts")                     # not guilty before a run without them is right
Replay = Callable[..., Sequence[PropertyCheck]]


def attributed(found: Sequence[PropertyCheck], replay: Replay | None) -> list[PropertyCheck]:
    """Return the checks without failures that follow from other failures. ``replay`` runs the prompts without the named
    special request options; None if the history has none."""
    wrong = _wrong(found)
    if not wrong:
        return list(found)
    first = min(wrong)
    special = {check.name for check in found if check.name in SPECIAL and check.request == first}
    if replay is None or not special or first in _wrong(replay("cache", *SPECIAL)):
        special = set()
    elif len(special) > 1:
        special = {name for name in SPECIAL if first not in _wrong(replay(name))} or special
    guilty = special or set(VERSUS_COLD).difference(SUSPECTED)
    return [check for check in found if check.ok or check.name not in VERSUS_COLD
            or (check.request == first and check.name in guilty)]  # fmt: skip


def _wrong(found: Sequence[PropertyCheck]) -> set[int]:
    """Return the requests whose answer differs from a cold run."""
    return {check.request for check in found if check.name in VERSUS_COLD and not check.ok}


TRIES = 800                  # most histories run while shrinking: each costs several requests to a foreign cache


def shrink(history: History, breaks: Callable[[History], bool], tries: int = TRIES) -> History:
    """Return the smallest history that still fails, within ``tries`` attempts. ``history`` must fail; it is returned if
    no smaller history does."""
    return Shrinking(history, breaks, tries).run((), (unmarked, merged, renamed_apart))


Player = Callable[[History], HistoryRun]
STARTS = 4                   # failing histories to shrink: they may shrink to different results


@dataclass(slots=True)
class PropertyTally:
    """Results of a property over all histories."""

    checked: int = 0
    decisive: int = 0                    # checks that could have failed
    reused: int = 0
    failed: list[tuple[History, PropertyCheck]] = field(default_factory=list)
    apart: Difference | None = None

    def add(self, history: History, check: PropertyCheck) -> None:
        """Count a check of a history, and keep the largest difference of two fingerprints."""
        self.checked += 1
        self.decisive += check.is_decisive
        self.reused += check.reused
        if check.apart is not None and (self.apart is None or check.apart.largest > self.apart.largest):
            self.apart = check.apart
        if not check.ok:
            self.failed.append((history, check))


class HistorySearch:
    """Runs histories and records the failures of each."""

    def __init__(self, play: Player, same: Same, budget: TimeBudget) -> None:
        self.play = play
        self.same = same
        self.budget = budget
        self.tallies: dict[str, PropertyTally] = {}
        self.gap = ""                                # the first ability that was present and then missing
        self.known: dict[str, list[PropertyCheck]] = {}
        self.counts: dict[str, SectionCount] = {}
        self.answers: list[ColdAnswer] = []            # answers to two prompts, different ones if there are any
        self.reported: set[str] = set()              # keys of ``Reply`` that a reply had
        self.is_cut_short = False                             # a limit ended the last history within
        self.done = 0                                # sources of histories that were run
        self.floors: dict[str, Result] = {}          # results of the floors that were run

    def begin(self, section: str, histories: int) -> None:
        """Called before the first history of a section. ``histories``: how many follow, 0 = unknown."""

    def count(self, section: str, history: History) -> None:
        """Run a history for a section, unless it was run before."""
        if history.line in self.known:
            return
        found = self.look(history)
        failed = sorted({check.name for check in found if not check.ok})
        count = self.counts.get(section, SectionCount())
        names = tuple(sorted({*count.names, *failed}))
        decisive = count.decisive + sum(check.is_decisive for check in found if check.name in COMPARING)
        self.counts[section] = SectionCount(count.histories + 1, count.failed + bool(failed), names, decisive)

    def look(self, history: History) -> list[PropertyCheck]:
        """Return the checks of a history, each wrong answer attributed to a single property."""
        if history.line not in self.known:
            self.known[history.line] = found = self._attributed(history)
            for check in found:
                self.tallies.setdefault(check.name, PropertyTally()).add(history, check)
        return self.known[history.line]

    def _attributed(self, history: History) -> list[PropertyCheck]:
        def replay(*names: str) -> list[PropertyCheck]:
            return self._checks(history.without(*names))

        return attributed(self._checks(history), replay if "{" in history.line else None)

    def _checks(self, history: History) -> list[PropertyCheck]:
        played = self.play(history)
        self.gap = self.gap or played.gap
        self.note_replies(played)
        return list(checks(played, self.same, self.answers))

    def note_replies(self, played: HistoryRun) -> None:
        """Record which keys the replies have, and two different answers."""
        for ask, one in zip(played.asks, played.cold, strict=False):
            if not isinstance(one, Reply) or one.refused or len(self.answers) > 1:
                continue
            if all(answer.ask != ask and distinct(one, answer.reply, self.same) for answer in self.answers):
                self.answers.append(ColdAnswer(ask, one))
        for one in (*played.cold, *played.warm):
            if isinstance(one, Reply):
                self.reported |= {name for name in FIELDS if name != "refused" and getattr(one, name) is not None}

    def smallest(self, name: str) -> tuple[History, PropertyCheck]:
        """Shrink the smallest failing histories of a property; return the smallest result with its failed check."""
        if name == "answers" and self.budget.is_low and self._fails(parse_history("A1"), name):
            start = [parse_history("A1")]      # a single time-out is left: do not spend it on a larger history
        else:
            failed = {history.line: history for history, _ in self.tallies[name].failed}
            start = sorted(failed.values(), key=_size)[:STARTS]
        history = min((shrink(one, lambda other: self._fails(other, name)) for one in start), key=_size)
        return history, next(check for check in self.look(history) if check.name == name and not check.ok)

    def again(self, history: History, check: PropertyCheck) -> bool:
        """True if the request fails again in this history. After the last time-out missing replies count."""
        hangs = self.budget.is_gone and check.name == "answers" and check.got.endswith(self.budget.missed_reply)
        return hangs or any(one[:3] == (check.name, False, check.request) for one in self._attributed(history))

    def _fails(self, history: History, name: str) -> bool:
        if self.budget.is_spent and history.line not in self.known:
            return False                             # no time is left for shrinking
        return any(check.name == name and not check.ok for check in self.look(history))


def _size(history: History) -> tuple[int, int, int, str]:
    return len(history.hang_ups), history.tokens, len(history.line), history.line
