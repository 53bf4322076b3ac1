"""A run is watched: the verdicts about every step, and its recompute account."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping

from cachesim.base.errors import BadInput
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.base import Answer, Request, prompt_of
from cachesim.engines.contract import Server
from cachesim.engines.inspection import Key, Stored
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Event, Gained, Launch, Lost, Release, Settled
from cachesim.judging.compare_answer import Judge, Judged, unknown
from cachesim.judging.fault_kinds import Kind
from cachesim.judging.foreign_reads import evaluated
from cachesim.judging.judgement import Judgement, Slot
from cachesim.judging.recompute_ledger import HEARD, Account, Ledger
from cachesim.judging.verdict import HOLDS, Verdict, broken, undecided
from cachesim.scenarios.runner import Silent, groups, play
from cachesim.scenarios.schema import Action, Scenario, Step

# A request got an error instead of an answer: was it because of what the server had kept?
#
# The request, with those sent at the same time, goes to a fresh server with the same flags. If that one answers it, the
# error comes from what earlier requests left behind, and is as wrong as a wrong answer. If it does not (a prompt longer
# than the context), nothing was computed that could be compared: the request is refused, which is undecided unless the
# scenario expects the status.

def error_verdict(
    scenario: Scenario, number: int, answer: Answer, profile: str, table: RuleSet | None = None
) -> Verdict:
    """The verdict about a step that ended with a status other than 200, under a profile or a ``table`` of rules:
    broken on the rung "error", or undecided. A step that the scenario does not list cannot be repeated."""
    listed = number < len(scenario.steps) and scenario.steps[number].action is None
    if listed and cold_status(scenario, number, profile, table) == 200:
        return broken("error", Kind.WARM_ERROR, status=answer.status, error=answer.error)
    kind = Kind.REFUSED if answer.status < 500 else Kind.COLD_ERROR
    return undecided(kind, **answer.error_numbers, status=answer.status, error=answer.error)


def cold_status(scenario: Scenario, number: int, profile: str, table: RuleSet | None = None) -> int:
    """The HTTP status of a request that a fresh server gets, 0 if its process ends or it cannot be told."""
    first, group = next((i, steps) for i, steps in groups(scenario.steps) if i <= number < i + len(steps))
    options = dict(scenario.server)
    for step in scenario.steps[:first]:
        if step.action is not None and step.action.do == "restart":
            options |= step.action.server
    alone = replace(scenario, server=options, steps=(group[0].alone(), *group[1:]))
    heard = _Status(number - first)
    try:
        play(alone, profile, "none", heard, table)
    except BadInput:
        return 0
    return heard.status


class _Status(Silent):
    """Keeps the status of one step."""

    def __init__(self, number: int) -> None:
        self.number, self.status = number, 0

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        if number == self.number and answer.done and not answer.died:
            self.status = answer.status


# Who looks over the runner's shoulder? Judges every answer while the server still holds what it left behind.
#
# One observer for every purpose: ``Watch`` adds the recompute account of each request, the search checks of the memory.

JUDGED: frozenset[type[Event]] = frozenset((Gained, Lost, Release))
"""The events that an observer must be told of."""


ENDS_ELSEWHERE = broken("provenance", Kind.MEMORY_ELSEWHERE)


class Observer(Silent):
    """Judges the answers of a run under a profile, or a ``table`` of rules. ``judge`` may be shared between runs of one
    model; None = made when the first server starts."""

    judge: Judge
    server: Server

    def __init__(self, scenario: Scenario, profile: str, table: RuleSet | None, judge: Judge | None = None) -> None:
        self.scenario, self.profile, self.table, self.given = scenario, profile, table, judge
        self.left: dict[int, tuple[Stored, bool]] = {}     # what a request left behind, and does the memory agree
        self.new: dict[Key, None] = {}                     # kept objects that are to be judged
        self.corrupt: dict[Key, Verdict] = {}              # those that are not what they should be
        self.texts: dict[Key, Tokens] = {}                 # stored conversations
        self.starts = 0

    def started(self, server: Server) -> None:
        """A server has started, the first one or after a restart."""
        self.server, self.starts = server, self.starts + 1
        self.new, self.corrupt, self.texts = {}, {}, {}
        if self.starts == 1:
            self.judge = self.given or Judge(server.model)

    def hear(self, event: Event) -> None:
        """Told of kept objects that come and go, and of the release of a slot. This is copied at that moment: soon it
        may be another's."""
        if isinstance(event, Gained):
            key = event.point.key
            self.new[key] = None
            if key[0] == "entry":
                self.texts[key] = event.point.tokens
        elif isinstance(event, Lost):
            for known in (self.new, self.corrupt, self.texts):
                known.pop(event.key, None)
        elif isinstance(event, Release) and event.slot is not None and not self.server.is_further(event.slot):
            self._released(event.slot)

    def _released(self, slot: int) -> None:
        answer = self.server.answer_at(slot)
        if answer is not None and answer.status == 200:
            self.left[answer.request] = self.server.live(slot), self.server.memory_matches(slot)

    def begins(self, number: int, step: Step) -> None:
        """The step comes next: prefixes of what it asks for will be compared with a cold run."""
        if self.judge.model is not None:
            self.judge.colds.expect((*step.request.prompt, *(step.request.forced or ())))

    def judged(self, number: int, request: Request, answer: Answer) -> Judged:
        """The verdicts about an answer and what it left behind."""
        slot, agrees = self.left.pop(answer.request, (None, True))
        judged = self.judge.judge(request, answer, slot)
        try:
            judged.armed = self._armed()
        except Exception as error:      # a checker that raises has decided nothing
            judged = unknown(error)
        judged.window = _window(slot) if slot is not None else None
        if not (answer.done or answer.died):
            judged.answer = undecided(Kind.NEVER_ANSWERED)
            return judged
        if answer.status != 200 and not answer.died:
            self.failed(number, answer, judged)
        if not agrees:
            judged.state = ENDS_ELSEWHERE
        return judged

    def _armed(self) -> list[tuple[Stored, Verdict]]:
        """The kept objects that are not what the server believes them to be. Stored conversations get the numbers that
        they have now, counted from 0."""
        self.corrupt.update(self.judge.each_stored({key: self.server.stored(key) for key in self.new}))
        self.new = {}
        self.corrupt = {key: verdict for key, verdict in self.corrupt.items() if not verdict.holds}
        found, number = [], -1
        for key in self.server.kept() if self.corrupt else ():
            number += key[0] == "entry"
            if key in self.corrupt:
                stored = self.server.stored(key)
                found.append((stored if stored.owner >= 0 else stored._replace(owner=number), self.corrupt[key]))
        return found

    def failed(self, number: int, answer: Answer, judged: Judged) -> None:
        """The step ended with an error: because of what the server had kept, or in a cold run too?"""
        judged.answer = error_verdict(self.scenario, number, answer, self.profile, self.table)
        judged.refused = judged.answer.holds is None


def _window(slot: Stored) -> tuple[int, int] | None:
    """Positions lo .. hi-1 that the window layers of a slot hold: all of them, where several have different ones."""
    parts = [part.pos for part in slot.rows if part.window and len(part.pos)]
    return (max(int(pos.min()) for pos in parts), max(int(pos.max()) for pos in parts) + 1) if parts else None


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
            self.ledger.restart()
            return
        self.ledger = Ledger(
            look=lambda key, start: self.server.stored(key, start), cold=self.judge.colds.covering,
            believed=lambda slot: self.server.tokens_of(slot), whose=self._whose, covers=self.judge.colds.covers,
        )
        server.log.listener = self.hear
        server.log.kinds = HEARD | {Settled} if self.bills else JUDGED | {Launch}   # then nobody looks at each token

    def hear(self, event: Event) -> None:
        """Told of what the ledger must know."""
        super().hear(event)
        if self.bills:
            self.ledger.hear(event)
        if isinstance(event, Launch) and event.slot is not None:
            self._launched(event.slot)
        elif isinstance(event, Settled):
            self._cut(event.slot, event.n_tokens)

    def _launched(self, slot: int) -> None:
        answer, held = self.server.answer_at(slot), self.server.tokens_of(slot)
        if answer is not None and answer.request < len(self.scenario.steps):
            prompt = self.scenario.steps[answer.request].request.prompt
            self.slots.setdefault(answer.request, Slot(len(held), common_prefix(held, prompt)))

    def _cut(self, slot: int, n_tokens: int) -> None:
        """A slot is cut back to what is reused: the last time before anything is evaluated counts."""
        answer = self.server.answer_at(slot)
        if answer is not None and n_tokens:
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
        self._found(number, request, answer, judged, account, began)

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
        self._found(number, Request(()), answer, judged, NOTHING, None)

    def _found(
        self, number: int, request: Request, answer: Answer, judged: Judged, account: Account,
        began: Stored | None,
    ) -> None:
        has = answer.id_slot >= 0
        lengths = self.server.checkpoints(answer.id_slot) if has else []
        spans = self.server.checkpoint_spans(answer.id_slot) if has else []
        self.entries = [self.texts[key] for key in self.server.kept() if key in self.texts] if self.texts else []
        self.found[number] = Judgement(
            request, answer, judged, account, lengths, len(self.entries), self.slots.get(number), began,
            spans, [len(one) for one in self.entries],
        )  # fmt: skip
