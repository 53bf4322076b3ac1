"""A wrong answer is a finding of its history only if the history shows it again, with other tokens.

What differs once and not again is a finding of another kind: the server is not repeatable.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from cachesim.tools.conformance.fingerprint import Same
from cachesim.tools.conformance.history import History
from cachesim.tools.conformance.history_player import PlayedHistory
from cachesim.tools.conformance.http_check.http_client import Http
from cachesim.tools.conformance.http_check.known import LEGAL
from cachesim.tools.conformance.properties import EQUAL, Check, checks
from cachesim.tools.conformance.report import Result
from cachesim.tools.conformance.report_builder import finding_of
from cachesim.tools.conformance.search import HistorySearch, Player
from cachesim.tools.conformance.timeouts import Patience

SENTENCE = "the same requests get the same answers each time"
NO_FAULT = "not shown to be a fault of the cache: played again, the history was answered as on a cold run"
MOMENT = "requests arrive together: it may depend on the moment"
RACY = 8, 2                  # plays of such a history, and how many of them have to fail
COMPARED = (*EQUAL, "steady")


class Budget(Patience):
    """Time and requests that are left."""

    def __init__(self, http: Http, timeout: float, seconds: float | None) -> None:
        super().__init__(timeout, seconds)
        self.http = http

    @property
    def spent(self) -> bool:
        """Returns True if the time for the whole run is over, or no more requests may be sent."""
        return self.http.spent or super().spent

    @property
    def stopped(self) -> str:
        """When the run was ended."""
        return self.http.stopped or super().stopped


class Once(NamedTuple):
    """An answer that differed in one play of a history and in no other one."""

    history: History
    played: PlayedHistory
    check: Check


class Confirming(HistorySearch):
    """A search that plays every history that fails a second time, before it believes it. ``once``: what did not fail
    again."""

    def __init__(self, play: Player, same: Same, patience: Patience) -> None:
        super().__init__(play, same, patience)
        self.once: list[Once] = []
        self.proved: dict[str, PlayedHistory] = {}          # histories that failed twice
        self.send, self.play = play, self._replayed

    def again(self, history: History, check: Check) -> bool:
        """Returns True if the same request fails once more; where nothing may be sent any more, if it did so before."""
        return (self.patience.spent and history.line in self.proved) or super().again(history, check)

    def _replayed(self, history: History) -> PlayedHistory:
        """A play of it; where nothing may be sent any more, the one in which it failed."""
        if self.patience.spent and history.line in self.proved:
            return self.proved[history.line]
        return self.send(history)

    def _checks(self, history: History) -> list[Check]:
        played = self.play(history)
        self.gap = self.gap or played.gap
        if self.patience.spent and played.gap:
            return []                                # what a history that was cut short shows is not complete
        found = list(checks(played, self.same))
        wrong = [check for check in found if not check.ok and check.name in COMPARED]
        if not wrong:
            return found
        again = self._again(history)
        if again:
            self.proved[history.line] = played
            return found
        if again is False:
            self.once.append(Once(history, played, wrong[0]))
        return [check for check in found if check not in wrong]

    def _again(self, history: History) -> bool | None:
        """Does it fail again? None where it could not be played. What requests that arrive together do depends on the
        moment, so that such a history is given more plays; and because answers may be spoilt, it has to fail twice."""
        plays, wanted = RACY if "{together" in history.line else (1, 1)
        for _ in range(plays):
            played = self.play(history)
            if played.gap:
                return None
            wanted -= any(not check.ok and check.name in COMPARED for check in checks(played, self.same))
            if not wanted:
                return True
        return False

    def repeatable(self) -> Result:
        """What is to be said of answers that differed once. Those that a rare kind of noise may explain decide
        nothing."""
        number = sum(tally.checked for name, tally in self.tallies.items() if name in COMPARED)
        result = Result("repeatable", "noise", SENTENCE, "ok" if number else "undecided", number)
        if not self.once:
            return result
        history, played, check = max(self.once, key=lambda one: _size(one.check))
        why = MOMENT if "{together" in history.line else NO_FAULT
        number = len(self.once)
        often = f"{number} answer{'s' * (number > 1)} differed from a cold run once, not when played again"
        state = "failed" if _size(check) > LEGAL else "undecided"
        return replace(result, state=state, why=often, finding=finding_of(history.line, check, played, [why]))


def _size(check: Check) -> float:
    """By how much the answer differs; a refusal or a token of which nothing is known counts for all."""
    return check.apart.largest if check.apart is not None else float("inf")
