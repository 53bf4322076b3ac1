"""What looks over the runner's shoulder: judges every step while the server still holds what it left behind."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.engines.base import Answer, Request, prompt_of
from cachesim.engines.registry import EngineKit
from cachesim.engines.view import Stored
from cachesim.events import Changed, Event, Log, Release
from cachesim.judge.blame import Account, Ledger
from cachesim.judge.judge import Judge, Judged
from cachesim.judge.judgement import Judgement
from cachesim.judge.refusal import error_verdict
from cachesim.judge.verdict import HOLDS, Verdict
from cachesim.oracle import ColdRun
from cachesim.scenarios.schema import Action, Scenario, Step
from cachesim.tokens import Tokens

AHEAD = 4096                 # tokens of an expected list that are run at the first question about it
NOTHING = Account(0, 0, 0, ())
"""The bill of a step that is no completion."""


class Colds:
    """Cold runs by token list, shared between runs of the same model. A prefix of a list that was run before needs no
    run of its own: provenance of a prefix does not depend on what follows."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.recent: list[tuple[Tokens, ColdRun]] = []
        self.coming: list[Tokens] = []

    def expect(self, tokens: Tokens) -> None:
        """Beginnings of this list will be asked for. Nothing is run yet: the server may refuse it."""
        self.coming = [*self.coming[-15:], tokens]

    def covering(self, tokens: Tokens) -> ColdRun:
        """A cold run that begins with these tokens."""
        for known, run in reversed(self.recent):
            if begins(known, tokens):
                return run
        whole = self._ahead(tokens)
        run = self.judge.digests(whole)
        self.recent = [*self.recent[-15:], (whole, run)]
        return run

    def _ahead(self, tokens: Tokens) -> Tokens:
        """These tokens and more of what is expected: a long prompt needs few runs, and none that is far longer than
        what the server has evaluated of it."""
        expected = next((known for known in reversed(self.coming) if begins(known, tokens)), tokens)
        return expected[: max(AHEAD, 4 * len(tokens))]


def begins(known: Tokens, tokens: Tokens) -> bool:
    """Does one list begin with the other?"""
    n = len(tokens)
    return n <= len(known) and (not n or known[n - 1] == tokens[-1]) and known[:n] == tokens


class Watch:
    """Judges the steps of a run under a profile, or a ``table`` of rules; ``found`` holds them by number. ``judge`` may
    be shared between runs of one model. ``bills``: what did each request pay for? Without them only its answer and what
    it left behind are judged, which is less than half of the work."""

    kit: EngineKit
    judge: Judge
    ledger: Ledger

    def __init__(
        self, scenario: Scenario, profile: str, table: Any, judge: Judge | None = None, bills: bool = True
    ) -> None:
        self.scenario, self.profile, self.table, self.given, self.bills = scenario, profile, table, judge, bills
        self.found: dict[int, Judgement] = {}
        self.left: dict[int, tuple[Stored, bool]] = {}     # what a request left behind, and does the memory agree
        self.server: Any = None

    def started(self, kit: EngineKit, server: Any, log: Log) -> None:
        """A server has started. After a restart nothing of what the old one held is there."""
        again, self.kit, self.server = self.server is not None, kit, server
        if again:
            self.ledger.hear(Changed(None, "restarted", ""))
            return
        self.judge = self.given or Judge(server.context.model)
        self.colds = Colds(self.judge)
        self.ledger = Ledger(
            look=lambda: self.kit.points(self.server) if self.bills else (), cold=self.colds.covering,
            believed=lambda slot: tuple(self.server.slots[slot].tokens), whose=self._whose,
        )
        log.listener = self._hear

    def _hear(self, event: Event) -> None:
        """Told of every event. A slot is copied when its request leaves it: a moment later it may be another's."""
        self.ledger.hear(event)
        if isinstance(event, Release) and event.slot is not None and not self.server.slots[event.slot].child:
            answer = self.server.slots[event.slot].task.answer
            if answer.status == 200:
                agrees = self.kit.agrees(self.server, Answer(answer.request, id_slot=event.slot))
                self.left[answer.request] = self.kit.live(self.server, event.slot), agrees

    def _whose(self, slot: int) -> int:
        task = self.server.slots[slot].task
        return task.answer.request if task else -1

    def begins(self, number: int, step: Step) -> None:
        """The step comes next."""
        self.ledger.begin(number)
        self.colds.expect((*step.request.prompt, *(step.request.forced or ())))

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """A request is answered."""
        judged = self._judged(number, request, answer)
        account = self.ledger.settle(
            number, answer.id_slot, prompt_of(request, answer), answer.cache_n, wrong=judged.equal_cold is False
        )
        if answer.status != 200 or answer.died:
            account = account._replace(charges=(), best=answer.cache_n, held=answer.cache_n)
        else:
            self.ledger.evaluated += [evaluated(request, one) for one in (answer, *answer.children)]
        self._found(number, request, answer, judged, account)

    def _judged(self, number: int, request: Request, answer: Answer) -> Judged:
        if not (answer.done or answer.died):
            never = Verdict(None, why="the request was never answered")
            return Judged(never, never)
        slot, agrees = self.left.pop(answer.request, (None, True))
        judged = self.judge.judge(request, answer, slot, self.kit.kept(self.server))
        if not agrees:
            judged.state = Verdict(False, "provenance", "the memory does not end where the slot's tokens end")
        if answer.status != 200 and not answer.died:
            self._failed(number, answer, judged)
        return judged

    def _failed(self, number: int, answer: Answer, judged: Judged) -> None:
        judged.answer = error_verdict(self.scenario, number, answer, self.profile, self.table)
        judged.refused = judged.answer.holds is None

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        """A step that is no completion is done. What a restored slot holds is judged."""
        status, died = int(reply["status"]), not reply["status"]
        text = str(reply.get("error", ""))
        slot = action.id_slot % len(self.server.slots) if action.id_slot > 0 else 0     # as the server counts
        answer = Answer(number, status or 200, text, slot, died=died, done=True)
        judged = Judged(HOLDS, HOLDS)
        if died:
            judged.answer = Verdict(False, "aborted", f"the server process ended: {answer.error}")
        elif status != 200:
            self._failed(number, answer, judged)
        elif action.do == "restore":
            judged.state = self.judge.stored(self.kit.live(self.server, slot))
        self._found(number, Request(()), answer, judged, NOTHING)

    def _found(self, number: int, request: Request, answer: Answer, judged: Judged, account: Account) -> None:
        lengths = self.kit.checkpoints(self.server, answer.id_slot) if answer.id_slot >= 0 else []
        entries = sum(one.kind == "entry" for one in self.kit.kept(self.server))
        self.found[number] = Judgement(request, answer, judged, account, lengths, entries)


def evaluated(request: Request, answer: Answer) -> Tokens:
    """What was evaluated in place, from the first token on: with a context shift inside, what stood before it."""
    if not answer.shifts:
        return answer.slot_tokens
    return (*prompt_of(request, answer), *answer.tokens)[: answer.shifts[0][0]]
