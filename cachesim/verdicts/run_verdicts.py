"""A run is watched: the verdicts about every step, and the bill of its tokens."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.engines.base import Answer, Request, prompt_of
from cachesim.engines.contract import Server
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Changed, Event
from cachesim.scenarios.schema import Action, Scenario, Step
from cachesim.tokens import Tokens
from cachesim.verdicts.cold_comparison import Judge, Judged
from cachesim.verdicts.fault_kinds import Kind
from cachesim.verdicts.lost_tokens import Account, Ledger
from cachesim.verdicts.observer import Observer
from cachesim.verdicts.request_judgement import Judgement
from cachesim.verdicts.verdict import HOLDS, broken

NOTHING = Account(0, 0, 0, ())
"""The bill of a step that is no completion."""


class Watch(Observer):
    """Judges the steps of a run; ``found`` holds them by number. ``bills``: what did each request pay for? Without them
    only its answer and what it left behind are judged, which is less than half of the work."""

    ledger: Ledger

    def __init__(
        self, scenario: Scenario, profile: str, table: RuleSet | None, judge: Judge | None = None, bills: bool = True
    ) -> None:
        super().__init__(scenario, profile, table, judge)
        self.bills = bills
        self.found: dict[int, Judgement] = {}

    def started(self, server: Server) -> None:
        """A server has started. After a restart nothing of what the old one held is there."""
        super().started(server)
        if self.starts > 1:
            self.ledger.hear(Changed(None, "restarted", ""))
            return
        self.ledger = Ledger(
            look=lambda: self.server.points() if self.bills else (), cold=self.judge.colds.covering,
            believed=lambda slot: self.server.tokens_of(slot), whose=self._whose,
        )
        server.log.listener = self.hear

    def hear(self, event: Event) -> None:
        """Told of every event."""
        self.ledger.hear(event)
        super().hear(event)

    def _whose(self, slot: int) -> int:
        answer = self.server.answer_at(slot)
        return -1 if answer is None else answer.request

    def begins(self, number: int, step: Step) -> None:
        """The step comes next."""
        self.ledger.begin(number)
        super().begins(number, step)

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """A request is answered."""
        judged = self.judged(number, request, answer)
        account = self.ledger.settle(
            number, answer.id_slot, prompt_of(request, answer), answer.cache_n, wrong=judged.equal_cold is False
        )
        if answer.status != 200 or answer.died:
            account = account._replace(charges=(), best=answer.cache_n, held=answer.cache_n)
        else:
            self.ledger.evaluated += [evaluated(request, one) for one in (answer, *answer.children)]
        self._found(number, request, answer, judged, account)

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        """A step that is no completion is done. What a restored slot holds is judged."""
        status, died = int(reply["status"]), not reply["status"]
        text = str(reply.get("error", ""))
        slot = action.id_slot % self.server.n_slots if action.id_slot > 0 else 0     # as the server counts
        answer = Answer(number, status or 200, text, id_slot=slot, died=died, done=True)
        judged = Judged(HOLDS, HOLDS)
        if died:
            judged.answer = broken("aborted", Kind.PROCESS_ENDED, error=answer.error)
        elif status != 200:
            self.failed(number, answer, judged)
        elif action.do == "restore":
            judged.state = self.judge.stored(self.server.live(slot))
        self._found(number, Request(()), answer, judged, NOTHING)

    def _found(self, number: int, request: Request, answer: Answer, judged: Judged, account: Account) -> None:
        lengths = self.server.checkpoints(answer.id_slot) if answer.id_slot >= 0 else []
        entries = sum(one.kind == "entry" for one in self.server.kept())
        self.found[number] = Judgement(request, answer, judged, account, lengths, entries)


def evaluated(request: Request, answer: Answer) -> Tokens:
    """What was evaluated in place, from the first token on: with a context shift inside, what stood before it."""
    if not answer.shifts:
        return answer.slot_tokens
    return (*prompt_of(request, answer), *answer.tokens)[: answer.shifts[0][0]]
