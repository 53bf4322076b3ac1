"""Search that confirms every finding on a server by repetition, without the cache and without drafts."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator, NamedTuple, Sequence

from cachesim.tools.conformance.client_history import History
from cachesim.tools.conformance.compare_replies import Same
from cachesim.tools.conformance.history_player import HistoryRun
from cachesim.tools.conformance.http_check import known_faults as faults
from cachesim.tools.conformance.http_check.batch_control import BatchControl, Cause, ExplainedAnswer
from cachesim.tools.conformance.http_check.compare_answers import NearAnswers
from cachesim.tools.conformance.http_check.http_client import Http
from cachesim.tools.conformance.http_check.listener import SILENT, CheckListener, FoundFault
from cachesim.tools.conformance.http_check.warm_run import WASH
from cachesim.tools.conformance.properties import COMPARING, DIFFERS, VERSUS_COLD, PropertyCheck, checks
from cachesim.tools.conformance.protocol import TimedOut
from cachesim.tools.conformance.report import Result, make_finding
from cachesim.tools.conformance.report_builder import EQUAL, UNSTEADY
from cachesim.tools.conformance.search import HistorySearch, Player
from cachesim.tools.conformance.timeouts import TimeBudget

# A wrong answer counts as a finding of its history only if the history fails again with other tokens.
#
# A difference that does not recur is reported under another property: the server is not repeatable.

SENTENCE = "repeated requests get equal answers"
NO_FAULT = "not shown to be a fault of the cache: run again, the history was answered as on a cold run"
NO_CONTROL = BatchControl()
MOMENT = "requests arrive together: the result may depend on timing"
RACY = 8, 2                  # runs of such a history, and how many of them must fail
ANSWERED = ("answers",)
ERRORS = 4                   # other errors that a report lists
CONTROLS = 2                 # runs without the cache of requests that arrive together
GROUPED = ("burst", "identical")
SHAPE = "differed without the cache, too: what is evaluated together changes this server's numbers"
NUMBERS = "as a cold run in other micro-batches does: a matter of numbers, not of the cache"
OPEN = ("differed from a cold run, by numbers or by a fault: answers of this model depend on micro-batches "
        "(--control URL of a server with -ub 32 may decide)")
CUTS = "an answer does not depend on the micro-batches of its prompt"
UNCONTROLLED = "differed from a cold run by little, and requests cannot switch the cache off for comparison"


class ServerBudget(TimeBudget):
    """Remaining time and requests."""

    def __init__(self, http: Http, timeout: float, seconds: float | None) -> None:
        super().__init__(timeout, seconds)
        self.http = http

    @property
    def is_spent(self) -> bool:
        """True if the time for the whole run is over or no more requests may be sent."""
        return self.http.is_spent or super().is_spent

    @property
    def requests(self) -> int:
        """Requests sent so far."""
        return self.http.sent

    @property
    def stopped(self) -> str:
        """Message about the end of the run."""
        return self.http.stopped or super().stopped


class UnrepeatedAnswer(NamedTuple):
    """An answer that differed in a single run of a history and in none of the later runs."""

    history: History
    played: HistoryRun
    check: PropertyCheck


def _either(first: Same, second: Same) -> Same:
    """Return the comparison that holds if one of two does."""
    return lambda a, b: first(a, b) or second(a, b)


class ConfirmingSearch(HistorySearch):
    """A search that confirms every failing history by another run. ``once``: answers that did not fail again;
    ``undrafted``: runs a history without drafts, None if the server does not draft; ``shaped``: why wrong answers to
    requests that arrived together show nothing about a cache; ``control``: tells numbers from faults; ``explained``:
    wrong answers that are numbers, or may be."""

    def __init__(self, play: Player, same: Same, budget: TimeBudget, undrafted: Player | None = None,
                 listener: CheckListener = SILENT, control: BatchControl = NO_CONTROL) -> None:  # fmt: skip
        super().__init__(play, same, budget)
        self.listener = listener
        self.found: dict[str, FoundFault] = {}           # property -> fault that was found first
        self.undrafted, self.loosely = undrafted, _either(same, NearAnswers(faults.LEGAL))
        self.once: list[UnrepeatedAnswer] = []
        self.shaped: list[str] = []
        self.control = control
        self.explained: list[ExplainedAnswer] = []
        self.proved: dict[str, HistoryRun] = {}          # histories that failed twice
        self.runs: dict[str, HistoryRun] = {}            # histories with a failed check, that of counts included
        self.send, self.play = play, self._replayed

    def begin(self, section: str, histories: int) -> None:
        """Called before the first history of a section. ``histories``: how many follow, 0 = unknown."""
        self.listener.stage(f"section {section}", histories)

    def count(self, section: str, history: History) -> None:
        """Run a history for a section, unless it was run before."""
        super().count(section, history)
        self.listener.history()

    def look(self, history: History) -> list[PropertyCheck]:
        """Return the checks of a history. A property that fails for the first time is reported at once."""
        found = super().look(history)
        for check in found:
            shown = check.name not in VERSUS_COLD or "steady" not in self.found     # unsteady answers show nothing
            if not check.ok and check.name not in self.found and shown:
                self.report_fault(history.line, check)
        return found

    def report_fault(self, line: str, check: PropertyCheck) -> None:
        """Report a failed check, if it is the first of its property."""
        text = DIFFERS if check.name in VERSUS_COLD else f"expected {check.expected}, got {check.got}"
        fault = FoundFault(check.name, f"Wash{WASH}/{line}", check.request + 1, self.budget.requests, text)
        self.found.setdefault(check.name, fault)
        self.listener.fault(fault)

    def smallest(self, name: str) -> tuple[History, PropertyCheck]:
        """Shrink the smallest failing histories of a property; return the smallest result with its failed check."""
        self.listener.stage(f"shrinking {name}")
        return super().smallest(name)

    def again(self, history: History, check: PropertyCheck) -> bool:
        """True if the request fails again; after the request limit, if it failed twice before. Runs it up to three
        times, since with some tokens a fault changes the answer little, and up to eight times if it depends on
        timing."""
        if self.budget.is_spent and (played := self._recorded(history)) is not None:
            return any(one[:3] == (check.name, False, check.request) for one in self._judged(played))
        plays = RACY[0] if history.has_bursts else faults.PLAYS
        return any(super(ConfirmingSearch, self).again(history, check) for _ in range(plays))

    def _replayed(self, history: History) -> HistoryRun:
        """Run a history; after the request limit return its recorded failing run."""
        recorded = self._recorded(history) if self.budget.is_spent else None
        return self.send(history) if recorded is None else recorded

    def _recorded(self, history: History) -> HistoryRun | None:
        return self.proved.get(history.line) or self.runs.get(history.line)

    def _checks(self, history: History) -> list[PropertyCheck]:
        played = self.play(history)
        self.gap = self.gap or played.gap
        if self.budget.is_spent and played.gap:
            self.is_cut_short = True
            return []                                # checks of an interrupted history are incomplete
        self.note_replies(played)
        found = list(self._judged(played))
        awaited = history.has_bursts and not any(isinstance(one, TimedOut) for one in played.warm)
        for names in (COMPARING, ANSWERED) if awaited else (COMPARING,):
            wrong = [check for check in found if not check.ok and check.name in names]
            if wrong and not self._confirmed(history, played, wrong, names):
                found = [check for check in found if check not in wrong]
            elif names is COMPARING:
                found = [one for check in found for one in self._judged_again(history, played, check)]
        if not all(check.ok for check in found):
            self.runs.setdefault(history.line, played)
        return found

    def _confirmed(
        self, history: History, played: HistoryRun, wrong: Sequence[PropertyCheck], names: Sequence[str]
    ) -> bool:
        """True if the history fails again. Records its run, or that it failed once."""
        again = self._again(history, names)
        if again and names is COMPARING and history.has_bursts and (shape := self._shape(history, wrong)):
            self.shaped.append(shape)
            return False
        if again:
            self.proved[history.line] = played
        elif again is False and history.line not in self.proved:
            self.once.append(UnrepeatedAnswer(history, played, wrong[0]))
        return bool(again)

    def _judged_again(self, history: History, played: HistoryRun, check: PropertyCheck) -> list[PropertyCheck]:
        """Return the check of a confirmed history. Record a difference that is not shown to be a fault: one of numbers
        passes, and one whose cause is open is left out."""
        if check.ok or check.name not in COMPARING:
            return [check]
        cause = self.control.cause(played, check, self._same_for(history))
        if cause is Cause.FAULT:
            return [check]
        self.explained.append(ExplainedAnswer(history.line, played, check, cause))
        return [check._replace(ok=True)] if cause is Cause.NUMBERS else []

    def _shape(self, history: History, wrong: Sequence[PropertyCheck]) -> str:
        """Return why a wrong answer to requests that arrive together may come from evaluating them together, "" if the
        cache is at fault: without the cache the same requests are answered right."""
        for _ in range(CONTROLS):
            played = self.send(history.uncached)
            if played.gap:
                return UNCONTROLLED if max(map(_size, wrong)) <= faults.MOST else ""
            if any(not check.ok and check.name in COMPARING for check in self._judged(played)):
                return SHAPE
        return ""

    def _attributed(self, history: History) -> list[PropertyCheck]:
        """Return the checks. If the history is answered right without drafts, the drafts are at fault."""
        found = super()._attributed(history)
        wrong = [check for check in found if not check.ok and check.name in VERSUS_COLD]
        if self.undrafted is None or not wrong or self.budget.is_spent:
            return found
        plain = self.undrafted(history)
        if plain.gap or any(not check.ok and check.name in VERSUS_COLD for check in self._judged(plain)):
            return found
        return [*(check for check in found if check not in wrong), wrong[0]._replace(name="drafts")]

    def _judged(self, played: HistoryRun) -> Iterator[PropertyCheck]:
        """Yield the checks of a run. If requests use several slots, a difference that may be noise counts as none: what
        is evaluated together differs from run to run, also if a full context splits it, and the measured noise does not
        bound it."""
        return checks(played, self._same_for(played.history), self.answers)

    def _same_for(self, history: History) -> Same:
        return self.loosely if history.is_spread else self.same

    def _again(self, history: History, names: Sequence[str]) -> bool | None:
        """True if one of these properties fails again, None if the history could not be run. Concurrent histories
        depend on timing and may give a spoilt answer, so they get 8 runs and must fail twice."""
        plays, wanted = RACY if history.has_bursts else (1, 1)
        for _ in range(plays):
            played = self.play(history)
            if played.gap:
                return None
            wanted -= any(not check.ok and check.name in names for check in self._judged(played))
            if not wanted:
                return True
        return False

    def with_errors(self, result: Result) -> Result:
        """Return the result; "answers" with the other errors that histories gave twice, each with the smallest one."""
        found = result.finding
        if result.name not in ANSWERED or result.state != "failed" or found is None:
            return result
        errors: dict[str, History] = {}
        for history, check in self.tallies[result.name].failed:
            if history.line in self.proved and check.got != found.got:
                errors[check.got] = min(errors.get(check.got, history), history, key=lambda one: one.tokens)
        notes = [f"also {got}: {history.line}" for got, history in errors.items()][:ERRORS]
        return replace(result, finding=replace(found, notes=(*found.notes, *notes)))

    def controlled(self, result: Result) -> Result:
        """Return the result; undecided if requests that arrived together differed, perhaps not because of the cache, or
        if a difference may be a matter of numbers."""
        is_open = {one.check.name for one in self.explained if one.cause is Cause.OPEN}
        if result.state in ("ok", "undecided") and result.name in is_open:
            return replace(result, state="undecided", why=f"an answer {OPEN}")
        if result.name not in GROUPED or result.state != "ok" or not self.shaped:
            return result
        return replace(result, state="undecided", why=f"answers {self.shaped[0]}")

    def numbers(self) -> list[Result]:
        """Return the result for answers that differ, but are not shown to be faults; none without any."""
        if not self.explained:
            return []
        number, is_open = len(self.explained), [one for one in self.explained if one.cause is Cause.OPEN]
        first = min(is_open or self.explained, key=lambda one: (len(one.line), one.line))
        finding = make_finding(first.line, first.check, first.played)
        if is_open:
            often = f"{len(is_open)} answer{'s' * (len(is_open) > 1)}"
            return [Result("numbers", "noise", CUTS, "undecided", number, why=f"{often} {OPEN}", finding=finding)]
        often = f"{number} answer{'s differ' if number > 1 else ' differs'}"
        return [Result("numbers", "noise", CUTS, "ok", number, why=f"{often} from a cold run {NUMBERS}")]

    def repeatable(self) -> Result:
        """Return the result for answers that differed only once. They are undecided: the cache is not shown to be at
        fault."""
        comparing = [tally for name, tally in self.tallies.items() if name in COMPARING]
        checked = sum(tally.checked for tally in comparing)
        decisive = sum(tally.decisive for tally in comparing)
        why = "" if decisive else EQUAL if checked else self.gap
        why = UNSTEADY if "steady" in self.tallies and self.tallies["steady"].failed else why
        result = Result("repeatable", "noise", SENTENCE, "undecided" if why or not decisive else "ok", checked,
                        decisive, why=why)  # fmt: skip
        if not self.once:
            return result
        history, played, check = max(self.once, key=lambda one: (not one.history.has_bursts, _size(one.check)))
        why = MOMENT if history.has_bursts else NO_FAULT
        number = len(self.once)
        fault = "differed from a cold run" if check.name in COMPARING else "failed or differed from a cold run"
        often = f"{number} answer{'s' * (number > 1)} {fault} once, but not when run again"
        finding = make_finding(history.line, check, played, [why])
        return replace(result, state="undecided", why=f"{often}: {why}", finding=finding)


def _size(check: PropertyCheck) -> float:
    """Return the size of the difference; infinite for a refusal or a token without log-probabilities."""
    return check.apart.largest if check.apart is not None else float("inf")
