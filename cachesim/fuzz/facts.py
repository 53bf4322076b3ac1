"""A conversation is played, and what the properties ask about is noted on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from cachesim.engines.base import Answer, Request
from cachesim.engines.registry import EngineKit
from cachesim.engines.view import Stored
from cachesim.errors import Crash
from cachesim.events import Compared, Event, Log, Release
from cachesim.judge.judge import Judge, Judged
from cachesim.judge.refusal import error_verdict
from cachesim.judge.verdict import Verdict
from cachesim.scenarios.runner import play
from cachesim.scenarios.schema import Action, Scenario, Step
from cachesim.tokens import POS_INF

SHARED_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where the small slot files of conversations are written: a disk is slower than everything else here."""


class Fact(NamedTuple):
    """One step that is over. ``armed``: stored objects that are not what the server believes them to be; ``over``:
    limits that are exceeded, in words."""

    number: int
    request: Request
    answer: Answer
    said: Verdict
    state: Verdict
    armed: tuple[tuple[Stored, Verdict], ...]
    over: tuple[str, ...]


@dataclass(slots=True)
class Played:
    """A conversation that is over. ``torn`` are removals that were refused and changed something all the same, or were
    done and left something, in words; ``unsound`` what a memory found when it checked itself after a step, or what an
    erased slot left; ``unset``: the server read a number that nobody wrote."""

    scenario: Scenario
    profile: str
    log: Log
    facts: list[Fact] = field(default_factory=list)
    torn: list[tuple[int, str]] = field(default_factory=list)
    unsound: list[tuple[int, str]] = field(default_factory=list)

    @property
    def unset(self) -> bool:
        return any(isinstance(event, Compared) for event in self.log.events)


class Notes:
    """Watches a run under the profile, or a ``table`` of rules. ``judges`` may be shared between conversations."""

    def __init__(self, played: Played, judges: dict[str, Judge], table: Any | None = None) -> None:
        self.played, self.judges, self.table = played, judges, table
        self.left: dict[int, tuple[Stored, bool]] = {}

    def started(self, kit: EngineKit, server: Any, log: Log) -> None:
        """A server has started."""
        self.kit, self.server = kit, server
        self.played.log = log
        model = server.context.model
        self.judge = self.judges.setdefault(f"{self.played.scenario.engine} {self.played.scenario.model}", Judge(model))
        self._guard()
        log.listener, log.kinds = self._hear, frozenset({Release})

    def _guard(self) -> None:
        """Look before and after every removal."""
        memory = getattr(self.server, "memory", None)
        if memory is None:
            return
        inner = memory.seq_rm

        def seq_rm(seq: int, p0: int, *rest: int) -> bool:
            before = self.kit.held(self.server, seq)
            ok = bool(inner(seq, p0, *rest))
            after = self.kit.held(self.server, seq)
            stop = rest[0] if rest else POS_INF
            want = before[(before < p0) | (before >= stop)] if ok else before
            if after.tobytes() != want.tobytes():
                said = "done" if ok else "refused"
                where = f"seq_rm({seq}, {p0}, {stop}) was {said}: {len(before)} rows before, {len(after)} after"
                self.played.torn.append((len(self.played.log.marks) - 1, where))
            return ok

        memory.seq_rm = seq_rm

    def _hear(self, event: Event) -> None:
        if isinstance(event, Release) and event.slot is not None and not self.server.slots[event.slot].child:
            answer = self.server.slots[event.slot].task.answer
            if answer.status == 200:
                agrees = self.kit.agrees(self.server, Answer(answer.request, id_slot=event.slot))
                self.left[answer.request] = self.kit.live(self.server, event.slot), agrees

    def begins(self, number: int, step: Step) -> None:
        """The step comes next: what it will ask for is evaluated coldly once, all prefixes with it. With numbers that
        would say nothing of prefixes."""
        if self.judge.model is not None and not self.judge.model.exact:
            self.judge.cold((*step.request.prompt, *(step.request.forced or ())))

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """A request is answered."""
        slot, agrees = self.left.pop(answer.request, (None, True))
        judged: Judged = self.judge.judge(request, answer, slot, self.kit.kept(self.server))
        if not (answer.done or answer.died):
            judged.answer = Verdict(None, why="the request was never answered")
        if answer.status != 200 and not answer.died:
            judged.answer = error_verdict(self.played.scenario, number, answer, self.played.profile, self.table)
        if not agrees:
            judged.state = Verdict(False, "provenance", "the memory does not end where the slot's tokens end")
        self._check(number)
        over = tuple(self.kit.over(self.server))
        self.played.facts.append(
            Fact(number, request, answer, judged.answer, judged.state, tuple(judged.armed), over)
        )

    def _check(self, number: int) -> None:
        """The memory looks at itself, where it can; and no sequence has a hole, whoever was shifted or restored."""
        memory = getattr(self.server, "memory", None)
        if memory is None:
            return
        try:
            memory.check()
        except Crash as crash:
            self.played.unsound.append((number, str(crash)))
        for seq in range(len(self.server.slots)):
            held = self.kit.held(self.server, seq)
            steps = held[1:] - held[:-1]
            if (steps > 1).any():
                self.played.unsound.append((number, f"positions of sequence {seq} have a gap of {steps.max() - 1}"))

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        """A step that is no completion is done, unless the server has ended before."""
        if action.do == "restart" or not reply["status"]:
            return
        self._check(number)
        if action.do == "erase" and (left := len(self.kit.held(self.server, action.id_slot))):
            self.played.unsound.append((number, f"slot {action.id_slot} was erased and has {left} rows"))


def played(
    scenario: Scenario, profile: str, judges: dict[str, Judge], table: Any | None = None, mode: str = "provenance"
) -> Played:
    """Play a conversation. ``judges`` keeps cold runs between conversations, but not the numbers of "exact" ones;
    ``table`` replaces the profile's rules. Raises BadInput for what the engine cannot do."""
    one = Played(scenario, profile, Log())
    notes = Notes(one, judges if mode == "provenance" else {}, table)
    play(scenario, profile, mode, notes, table, SHARED_MEMORY)
    return one
