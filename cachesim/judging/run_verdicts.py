"""A run is watched: the verdicts about every step, and its recompute account."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.base import Answer, Request, prompt_of
from cachesim.engines.contract import Server
from cachesim.engines.judge_view import Stored
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Changed, Event, Launch, Release
from cachesim.judging.cold_comparison import Judge, Judged
from cachesim.judging.fault_kinds import Kind
from cachesim.judging.foreign_reads import evaluated
from cachesim.judging.lost_tokens import HEARD, Account, Ledger
from cachesim.judging.observer import Observer
from cachesim.judging.request_judgement import Judgement, Slot
from cachesim.judging.verdict import HOLDS, broken
from cachesim.scenarios.schema import Action, Scenario, Step

NOTHING = Account(0, 0, 0, ())
"""The recompute account of a step that is no completion."""


class Watch(Observer):
    """Judges the steps of a run; ``found`` holds them by number, ``entries`` what the prompt cache has. ``bills``: with
    the recompute account of each request. Without it only its answer and what it left behind are judged, which is less
    than half of the work."""

    ledger: Ledger

    def __init__(
        self, scenario: Scenario, profile: str, table: RuleSet | None, judge: Judge | None = None, bills: bool = True
    ) -> None:
        super().__init__(scenario, profile, table, judge)
        self.bills = bills
        self.found: dict[int, Judgement] = {}
        self.slots: dict[int, Slot] = {}
        self.began: dict[int, Stored] = {}
        self.entries: list[Tokens] = []

    def started(self, server: Server) -> None:
        """A server has started. After a restart nothing of what the old one held is there."""
        super().started(server)
        if self.starts > 1:
            self.ledger.hear(Changed(None, "restarted", ""))
            return
        self.ledger = Ledger(
            look=lambda: self.server.shelves() if self.bills else (), cold=self.judge.colds.covering,
            believed=lambda slot: self.server.tokens_of(slot), whose=self._whose, covers=self.judge.colds.covers,
        )
        server.log.listener = self.hear
        server.log.kinds = HEARD if self.bills else frozenset({Launch, Release})    # then nobody looks at each token

    def hear(self, event: Event) -> None:
        """Told of what the ledger must know."""
        self.ledger.hear(event)
        if isinstance(event, Release):
            super().hear(event)
        elif isinstance(event, Launch) and event.slot is not None:
            self._launched(event.slot)
        elif isinstance(event, Changed) and self.bills and event.cause == "truncated" and event.slot is not None:
            self._cut(event.slot)

    def _launched(self, slot: int) -> None:
        answer, held = self.server.answer_at(slot), self.server.tokens_of(slot)
        if answer is not None and answer.request < len(self.scenario.steps):
            prompt = self.scenario.steps[answer.request].request.prompt
            self.slots.setdefault(answer.request, Slot(len(held), common_prefix(held, prompt)))

    def _cut(self, slot: int) -> None:
        """A slot is cut back to what is reused: the last time before anything is evaluated counts."""
        answer = self.server.answer_at(slot)
        if answer is not None and answer.cache_n and len(self.server.tokens_of(slot)) == answer.cache_n:
            self.began[answer.request] = self.server.live(slot)

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
        began = self.began.pop(number, None)
        began = began if judged.equal_cold is False else None
        self._found(number, request, answer, judged, account, began, self.kept)

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
        self._found(number, Request(()), answer, judged, NOTHING, None, self.server.kept())

    def _found(
        self, number: int, request: Request, answer: Answer, judged: Judged, account: Account,
        began: Stored | None, kept: Sequence[Stored],
    ) -> None:
        has = answer.id_slot >= 0
        lengths = self.server.checkpoints(answer.id_slot) if has else []
        spans = self.server.checkpoint_spans(answer.id_slot) if has else []
        self.entries = [one.tokens for one in kept if one.kind == "entry"]
        self.found[number] = Judgement(
            request, answer, judged, account, lengths, len(self.entries), self.slots.get(number), began,
            spans, [len(one) for one in self.entries],
        )  # fmt: skip
