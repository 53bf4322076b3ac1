"""Observers of a run that judge every answer while the server still holds its state.

``AnswerObserver`` judges; ``JudgingObserver`` adds the recompute ledger of each request, the search adds checks of the
memory. A request that got an error instead of an answer is sent again, with those sent at the same time, to a fresh
server with the same flags. If that server answers, earlier requests caused the error, which counts as a wrong answer.
Otherwise (e.g. a prompt longer than the context) the request is refused, which is undecided unless the scenario expects
the status.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Container, Mapping

from cachesim.base.errors import OverLimit
from cachesim.base.keyed_tokens import plain_tokens, with_keys
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.base import Answer, Request, prompt_of, with_identities
from cachesim.engines.contract import Server
from cachesim.engines.inspection import Key, StoredObject
from cachesim.engines.point_kinds import CONVERSATION
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Decided, Event, Gained, Launch, Lost, Release, Settled
from cachesim.judging.cold_repetition import error_verdict
from cachesim.judging.compare_answer import NOTHING_COMPUTED, Judge, RequestVerdict, undecided_by
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.foreign_reads import evaluated
from cachesim.judging.judgement import Judgement, SlotAtLaunch
from cachesim.judging.recompute_ledger import LEDGER_EVENTS, RecomputeLedger, RequestLedger
from cachesim.judging.request_events import LaunchPlace
from cachesim.judging.verdict import CORRECT, Verdict, undecided, wrong
from cachesim.judging.verdict_text import sentence
from cachesim.scenarios.runner import SilentObserver
from cachesim.scenarios.schema import Action, Scenario, Step

OBSERVED_EVENTS: frozenset[type[Event]] = frozenset((Gained, Lost, Release))
"""The events that an ``AnswerObserver`` needs."""


ENDS_ELSEWHERE = wrong("provenance", FaultKind.MEMORY_ELSEWHERE)


class AnswerObserver(SilentObserver):
    """Judges the answers of a run under a profile, or a ``table`` of rules. ``judge`` may be shared between runs of the
    same model; None = created when the first server starts. ``only``: numbers of the requests that are judged, without
    the stored objects; None = all requests, with these objects."""

    judge: Judge
    server: Server

    def __init__(self, scenario: Scenario, profile: str, table: RuleSet | None, judge: Judge | None = None,
                 only: Container[int] | None = None) -> None:  # fmt: skip
        self.scenario = scenario
        self.profile = profile
        self.table = table
        self.given = judge
        self.only = only
        self.left: dict[int, tuple[StoredObject, bool]] = {}  # slot after each request, and whether the memory agrees
        self.new: dict[Key, None] = {}                     # stored objects to be judged
        self.corrupt: dict[Key, Verdict] = {}              # stored objects that differ from a cold run
        self.texts: dict[Key, Tokens] = {}                 # stored conversations
        self.starts = 0

    def started(self, server: Server) -> None:
        """Attach to a server that has started, also after a restart."""
        self.server, self.starts = server, self.starts + 1
        self.new = {}
        self.corrupt = {}
        self.texts = {}
        judge = self.given if self.starts == 1 else self.judge
        same = judge is not None and judge.model in (None, server.model)        # flags may change what a model reads
        self.judge = judge if judge is not None and same else Judge(server.model)
        if self.starts == 1 and self.judge.model is not None:
            self.judge.cold_runs.work = 0

    def on_event(self, event: Event) -> None:
        """Record stored objects that appear and disappear, and copy the state of a slot at its release: the next
        request may overwrite it."""
        if isinstance(event, Gained):
            key = event.point.key
            self.new[key] = None
            if key[0] == CONVERSATION:
                self.texts[key] = event.point.tokens
        elif isinstance(event, Lost):
            for known in (self.new, self.corrupt, self.texts):
                known.pop(event.key, None)
        elif isinstance(event, Release) and event.slot is not None:
            self._record_release(event.slot)

    def _record_release(self, slot: int) -> None:
        inspection = self.server.inspection
        if inspection.is_further(slot):
            return
        answer = inspection.answer_at(slot)
        if answer is not None and answer.status == 200 and self.is_judged(answer.request):
            self.left[answer.request] = inspection.live(slot), inspection.memory_matches(slot)

    def begins(self, number: int, step: Step) -> None:
        """Announce the prompt of the next step to the cold runs."""
        if self.judge.model is not None:
            self.judge.cold_runs.expect((*step.request.prompt, *(step.request.forced or ())))

    def is_judged(self, number: int) -> bool:
        """True if a request is judged."""
        return self.only is None or number in self.only

    def judged(self, number: int, request: Request, answer: Answer) -> RequestVerdict:
        """Return the verdicts about an answer and the state that it left behind, undecided if it is not judged."""
        if not self.is_judged(number):
            return RequestVerdict(NOTHING_COMPUTED, NOTHING_COMPUTED)
        slot, agrees = self.left.pop(answer.request, (None, True))
        judged = self.judge.judge(request, answer, slot)
        try:
            judged.armed = self._armed() if self.only is None else []
        except OverLimit:
            raise
        except Exception as error:      # a check that raises leaves the verdict undecided
            judged = undecided_by(error)
        judged.window = _window(slot) if slot is not None else None
        if not (answer.done or answer.died):
            judged.answer = self._unanswered(request, answer)
            return judged
        if answer.status != 200 and not answer.died:
            self.failed(number, answer, judged)
        if not agrees:
            judged.state = ENDS_ELSEWHERE
        return judged

    def _unanswered(self, request: Request, answer: Answer) -> Verdict:
        """Return the verdict about a request without an answer: wrong if the server goes on, undecided if the client
        left or the server ended. ``decision``: the server's last one with an effect, which may be about another request
        that waits before this one."""
        if answer.cancelled or request.cancel_at is not None:
            return undecided(FaultKind.CLIENT_LEFT)
        if self.server.dead:
            return undecided(FaultKind.NEVER_ANSWERED)
        decided = (event for event in reversed(self.server.log.events) if isinstance(event, Decided))
        said = (sentence(event.rule, event.value, event.because) for event in decided)
        return wrong("unanswered", FaultKind.UNANSWERED, decision=next(filter(None, said), "none"))

    def _armed(self) -> list[tuple[StoredObject, Verdict]]:
        """Return the stored objects that differ from a cold run of their tokens. Stored conversations are numbered from
        0 in their present order."""
        self.corrupt.update(self.judge.each_stored({key: self.server.inspection.stored(key) for key in self.new}))
        self.new = {}
        self.corrupt = {key: verdict for key, verdict in self.corrupt.items() if not verdict.equal_cold}
        found, number = [], -1
        for key in self.server.inspection.kept() if self.corrupt else ():
            if key[0] == CONVERSATION:
                number += 1
            if key in self.corrupt:
                stored = self.server.inspection.stored(key)
                found.append((stored if stored.owner >= 0 else stored._replace(owner=number), self.corrupt[key]))
        return found

    def failed(self, number: int, answer: Answer, judged: RequestVerdict) -> None:
        """Judge a step that ended with an error: wrong if a cold run answers it, refused otherwise."""
        judged.answer = error_verdict(self.scenario, number, answer, self.profile, self.table)
        judged.is_refused = judged.answer.equal_cold is None


def _window(slot: StoredObject) -> tuple[int, int] | None:
    """Return positions lo .. hi-1 that all window layers of a slot hold; None without window layers."""
    parts = [part.pos for part in slot.rows if part.window and len(part.pos)]
    return (max(int(pos.min()) for pos in parts), max(int(pos.max()) for pos in parts) + 1) if parts else None


JUDGED = 2                 # looks at each stored object after a request
NOTHING = RequestLedger(0, 0, 0, ())
"""Recompute ledger of a step that is not a completion."""


NO_REPLY: Mapping[str, Any] = MappingProxyType({})


class JudgingObserver(AnswerObserver):
    """Judges the steps of a run. ``with_ledger``: also keep the recompute ledger; without it only answers and the state
    that they leave behind are judged, which is less than half of the work."""

    ledger: RecomputeLedger
    n_ctx: int                                             # context of a slot, until a step has reported it

    def __init__(
        self, scenario: Scenario, profile: str, table: RuleSet | None, judge: Judge | None = None,
        with_ledger: bool = True, only: Container[int] | None = None,
    ) -> None:
        super().__init__(scenario, profile, table, judge, only)
        self.with_ledger = with_ledger
        self.has_slots = engine_of(profile).manual.slots
        self.found: dict[int, Judgement] = {}              # by step
        self.slots: dict[int, SlotAtLaunch] = {}           # by request
        self.found_in_slot: dict[int, Tokens] = {}         # the tokens in its slot, of a request that was launched
        self.launches: list[LaunchPlace] = []
        self.began: dict[int, StoredObject] = {}                 # slot at the start of evaluation, by request
        self.entries: list[Tokens] = []                    # conversations in the prompt cache

    def started(self, server: Server) -> None:
        """Attach to a server that has started. A restart loses all restore points of the previous server."""
        super().started(server)
        self.n_ctx = server.sizes.n_ctx_slot
        if self.starts > 1:
            self.ledger.restart()
            return
        self.ledger = RecomputeLedger(
            inspect=lambda key, start: self.server.inspection.content(key, start), cold=self.judge.cold_runs.covering,
            slot_prefix=lambda slot: self.server.inspection.prefix_of(slot), slot_request=self._request_in,
            covers=self.judge.cold_runs.covers,
        )
        server.log.listener = self.on_event
        server.log.kinds = LEDGER_EVENTS | {Settled} if self.with_ledger else OBSERVED_EVENTS | {Launch}

    def on_event(self, event: Event) -> None:
        """Record an event for the verdicts and, if there is one, in the recompute ledger. Record the slot when a
        request starts and when the slot is cut back."""
        kind = type(event)
        if kind in OBSERVED_EVENTS:
            super().on_event(event)
        if self.with_ledger and kind in LEDGER_EVENTS:
            self.ledger.record(event)
        if isinstance(event, Launch) and event.slot is not None:
            self._record_launch(event.slot)
        elif isinstance(event, Settled):
            self._record_cut(event.slot, event.n_tokens)

    def _record_launch(self, slot: int) -> None:
        """Record the place of a launch, and the slot as the request finds it."""
        inspection = self.server.inspection
        answer = inspection.answer_at(slot)
        if answer is not None and answer.request < len(self.scenario.steps):
            self.launches.append(LaunchPlace(len(self.server.log.events) - 1, slot, answer.request))
            if not inspection.is_further(slot):
                self.found_in_slot.setdefault(answer.request, inspection.tokens_of(slot))

    def _record_cut(self, slot: int, n_tokens: int) -> None:
        """Record the slot after it was cut back to its reused tokens; the last cut before evaluation counts."""
        answer = self.server.inspection.answer_at(slot)
        if answer is not None and n_tokens:
            held = self.server.inspection.live(slot)
            self.began[answer.request] = held._replace(tokens=with_keys(plain_tokens(held.tokens), answer.keys)) \
                if answer.keys else held

    def _request_in(self, slot: int) -> int:
        answer = self.server.inspection.answer_at(slot)
        return -1 if answer is None else answer.request

    def begins(self, number: int, step: Step) -> None:
        """Begin the next step."""
        self.ledger.begin(number)
        super().begins(number, step)

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """Judge an answered request and settle its ledger."""
        judged = self.judged(number, request, answer)
        asked, said = with_identities(request, answer)
        prompt = prompt_of(asked, said)
        if (held := self.found_in_slot.pop(number, None)) is not None:
            self.slots[number] = SlotAtLaunch(len(held), common_prefix(held, prompt))
        prompt = prompt[: answer.cache_n + answer.prompt_n + 1]        # what was not evaluated is not re-evaluated
        ledger = self.ledger.settle(
            number, answer.id_slot, prompt, answer.first_evaluated, wrong=judged.equal_cold is False
        )
        ledger = ledger.within_unit(self.server.inspection.resume_unit).without_reading(answer.unread)
        if answer.status != 200 or answer.died:
            ledger = ledger._replace(charges=(), best=answer.cache_n, held=answer.cache_n)
        else:
            self.ledger.evaluated += [evaluated(asked, completion) for completion in (said, *said.children)]
        began = self.began.pop(number, None)
        began = began if judged.equal_cold is False else None
        self._store(number, request, answer, judged, ledger, began)

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        """Judge a step that is not a completion; after a restore the slot is judged."""
        status, died = int(reply["status"]), not reply["status"]
        text = str(reply.get("error", ""))
        slot = self.server.inspection.slot_with_id(action.id_slot)
        answer = Answer(number, status or 200, text, id_slot=slot, died=died, done=True)
        judged = RequestVerdict(CORRECT, CORRECT)
        if not self.is_judged(number):
            judged = RequestVerdict(NOTHING_COMPUTED, NOTHING_COMPUTED)
        elif died:
            judged.answer = wrong("aborted", FaultKind.PROCESS_ENDED, error=answer.error)
        elif status != 200:
            self.failed(number, answer, judged)
        elif action.do == "restore":
            judged.state = self.judge.stored(self.server.inspection.live(slot))
        self._store(number, Request(()), answer, judged, NOTHING, None, reply)

    def _store(
        self, number: int, request: Request, answer: Answer, judged: RequestVerdict, ledger: RequestLedger,
        began: StoredObject | None, reply: Mapping[str, Any] = NO_REPLY,
    ) -> None:
        has = answer.id_slot >= 0
        n_ctx = self.n_ctx
        self.n_ctx = 0
        inspection = self.server.inspection
        sequences = self.server.sequences
        sizes = self.server.sizes
        lengths = inspection.checkpoints(answer.id_slot) if has else []
        spans = sequences.checkpoint_spans(answer.id_slot) if has else []
        self.entries = [self.texts[key] for key in inspection.kept() if key in self.texts] if self.texts else []
        self.found[number] = Judgement(
            request, answer, judged, ledger, lengths, len(self.entries), self.slots.get(number), began,
            spans, [len(tokens) for tokens in self.entries], reply,
            sizes.stored_sizes() if self.with_ledger else (),
            sequences.draft_memory(answer.id_slot) if has and self.with_ledger else None, len(self.found), n_ctx,
            sum(sizes.stored_bytes()), sizes.uncounted_bytes(),
            len(inspection.tokens_of(answer.id_slot)) if has and self.has_slots and not answer.died else None,
        )  # fmt: skip
        self.server.log.look(JUDGED * len(self.found[number].sizes))
