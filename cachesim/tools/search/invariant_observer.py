"""Observer that records per step what the properties need: verdicts, removals, self-checks of the memory, limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple

from cachesim.base.errors import Crash
from cachesim.base.garbage_collection import free_last_run
from cachesim.base.tokens import POS_INF
from cachesim.base.untrusted_files import FOLDER, kind
from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Removal, Server
from cachesim.engines.inspection import ExceededLimit, StoredObject
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Compared, Log
from cachesim.judging.compare_answer import Judge
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.judging_observer import OBSERVED_EVENTS, AnswerObserver
from cachesim.judging.verdict import Verdict
from cachesim.scenarios.runner import play
from cachesim.scenarios.schema import Action, Scenario

SHARED_MEMORY = "/dev/shm" if kind("/dev/shm") == FOLDER else None
"""Folder for the small slot files of conversations: writing to a disk would dominate the run time."""

Numbers = Mapping[str, Any]


class StepRecord(NamedTuple):
    """Record of a completed step."""

    number: int
    request: Request
    answer: Answer
    verdict: Verdict                                    # on the answer
    state: Verdict                                      # on the memory that the answer leaves
    armed: tuple[tuple[StoredObject, Verdict], ...]           # stored objects that differ from what the server records
    over: tuple[ExceededLimit, ...]                            # limits that are exceeded


@dataclass(slots=True)
class CheckedRun:
    """Record of a completed run. ``torn``: removals that were refused but changed the memory, or that left a part of
    their range: step and numbers. ``unsound``: errors of a memory's self-check after a step, and rows left by an erased
    slot: step, kind and numbers. ``unset``: True if the server read a number that was never written."""

    scenario: Scenario
    profile: str
    log: Log
    steps: list[StepRecord] = field(default_factory=list)
    torn: list[tuple[int, Numbers]] = field(default_factory=list)
    unsound: list[tuple[int, str, Numbers]] = field(default_factory=list)

    @property
    def unset(self) -> bool:
        return Compared in map(type, self.log.events)


class InvariantObserver(AnswerObserver):
    """Observer of a run under the profile, or a ``table`` of rules, that also checks the memory. ``judges`` may be
    shared between conversations."""

    def __init__(self, played: CheckedRun, judges: dict[str, Judge], table: RuleSet | None) -> None:
        super().__init__(played.scenario, played.profile, table)
        self.played, self.judges = played, judges

    def started(self, server: Server) -> None:
        """Attach to a started server."""
        key = f"{self.scenario.engine} {self.scenario.model}"
        self.given = self.judges.get(key)
        super().started(server)
        self.judges[key] = self.judge
        self.played.log = server.log
        server.sequences.observe_removals(self._removed)
        server.log.listener, server.log.kinds = self.on_event, OBSERVED_EVENTS

    def _removed(self, done: Removal) -> None:
        """Record a refused removal that changed the memory, or a removal that left a part of its range."""
        want = done.before
        if done.ok:
            stays = want < done.p0
            want = want[stays if done.p1 == POS_INF else stays | (want >= done.p1)]
        if done.after.tobytes() != want.tobytes():
            self.played.torn.append((len(self.played.log.marks) - 1, {
                "seq": done.seq, "p0": done.p0, "p1": done.p1, "answer": "done" if done.ok else "refused",
                "before": len(done.before), "after": len(done.after),
            }))  # fmt: skip

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """Judge and record an answered request."""
        judged = self.judged(number, request, answer)
        self._check(number)
        armed, over = tuple(judged.armed), tuple(self.server.inspection.exceeded_limits())
        self.played.steps.append(StepRecord(number, request, answer, judged.answer, judged.state, armed, over))

    def _check(self, number: int) -> None:
        """Run the memory's self-check, if any, and record position gaps in any sequence."""
        try:
            self.server.inspection.check()
        except Crash as crash:
            self.played.unsound.append((number, FaultKind.INCONSISTENT, {"error": str(crash)}))
        for seq in self.server.inspection.occupied_slots():
            held = self.server.sequences.held(seq)
            steps = held[1:] - held[:-1]
            if (steps > 1).any():
                self.played.unsound.append((number, FaultKind.GAP, {"seq": seq, "gap": int(steps.max()) - 1}))

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        """Check the memory after a step that is not a completion, unless the server has ended before it."""
        if action.do == "restart" or not reply["status"]:
            return
        self._check(number)
        # The ids of requests may exceed the slots: the server wraps or refuses them.
        known = action.id_slot in self.server.inspection.occupied_slots()
        if action.do == "erase" and known and (left := len(self.server.sequences.held(action.id_slot))):
            self.played.unsound.append((number, FaultKind.ERASED, {"slot": action.id_slot, "rows": left}))


def observe_run(
    scenario: Scenario, profile: str, judges: dict[str, Judge], table: RuleSet | None = None, mode: str = "provenance"
) -> CheckedRun:
    """Run a conversation and return its record. ``judges`` caches cold runs between conversations, except in mode
    "exact". ``table`` replaces the profile's rules. Raise BadInput if the engine does not support the conversation."""
    free_last_run()
    one = CheckedRun(scenario, profile, Log())
    notes = InvariantObserver(one, judges if mode == "provenance" else {}, table)
    play(scenario, profile, mode, notes, table, SHARED_MEMORY)
    return one
