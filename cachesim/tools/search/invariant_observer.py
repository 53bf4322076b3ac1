"""A conversation is played, and what the properties ask about is noted on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from cachesim.base.errors import Crash
from cachesim.base.tokens import POS_INF
from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Removal, Server
from cachesim.engines.inspection import Excess, Stored
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Compared, Log
from cachesim.judging.compare_answer import Judge
from cachesim.judging.judging_observer import JUDGED, Observer
from cachesim.judging.verdict import Verdict
from cachesim.scenarios.runner import play
from cachesim.scenarios.schema import Action, Scenario
from cachesim.tools.search.property_failure import ERASED, GAP, INCONSISTENT

SHARED_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where the small slot files of conversations are written: a disk is slower than everything else here."""

Numbers = Mapping[str, Any]


class Fact(NamedTuple):
    """One step that is over. ``armed``: stored objects that are not what the server believes them to be; ``over``:
    limits that are exceeded."""

    number: int
    request: Request
    answer: Answer
    said: Verdict
    state: Verdict
    armed: tuple[tuple[Stored, Verdict], ...]
    over: tuple[Excess, ...]


@dataclass(slots=True)
class PlayedConversation:
    """A conversation that is over. ``torn`` are removals that were refused and changed something all the same, or were
    done and left something: step and numbers; ``unsound`` what a memory found when it checked itself after a step, or
    what an erased slot left: step, kind and numbers; ``unset``: the server read a number that nobody wrote."""

    scenario: Scenario
    profile: str
    log: Log
    facts: list[Fact] = field(default_factory=list)
    torn: list[tuple[int, Numbers]] = field(default_factory=list)
    unsound: list[tuple[int, str, Numbers]] = field(default_factory=list)

    @property
    def unset(self) -> bool:
        return Compared in map(type, self.log.events)


class InvariantObserver(Observer):
    """Watches a run under the profile, or a ``table`` of rules, and checks its memory besides. ``judges`` may be
    shared between conversations."""

    def __init__(self, played: PlayedConversation, judges: dict[str, Judge], table: RuleSet | None = None) -> None:
        super().__init__(played.scenario, played.profile, table)
        self.played, self.judges = played, judges

    def started(self, server: Server) -> None:
        """A server has started."""
        key = f"{self.scenario.engine} {self.scenario.model}"
        self.given = self.judges.get(key)
        super().started(server)
        self.judges[key] = self.judge
        self.played.log = server.log
        server.observe_removals(self._removed)
        server.log.listener, server.log.kinds = self.hear, JUDGED

    def _removed(self, done: Removal) -> None:
        """A removal that is refused changes nothing; one that is done leaves nothing of its range."""
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
        """A request is answered."""
        judged = self.judged(number, request, answer)
        self._check(number)
        armed, over = tuple(judged.armed), tuple(self.server.exceeded_limits())
        self.played.facts.append(Fact(number, request, answer, judged.answer, judged.state, armed, over))

    def _check(self, number: int) -> None:
        """The memory looks at itself, where it can; and no sequence has a hole, whoever was shifted or restored."""
        try:
            self.server.check()
        except Crash as crash:
            self.played.unsound.append((number, INCONSISTENT, {"error": str(crash)}))
        for seq in self.server.occupied_slots():
            held = self.server.held(seq)
            steps = held[1:] - held[:-1]
            if (steps > 1).any():
                self.played.unsound.append((number, GAP, {"seq": seq, "gap": int(steps.max()) - 1}))

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        """A step that is no completion is done, unless the server has ended before."""
        if action.do == "restart" or not reply["status"]:
            return
        self._check(number)
        if action.do == "erase" and (left := len(self.server.held(action.id_slot))):
            self.played.unsound.append((number, ERASED, {"slot": action.id_slot, "rows": left}))


def played(
    scenario: Scenario, profile: str, judges: dict[str, Judge], table: RuleSet | None = None, mode: str = "provenance"
) -> PlayedConversation:
    """Play a conversation. ``judges`` keeps cold runs between conversations, but not the numbers of "exact" ones;
    ``table`` replaces the profile's rules. Raises BadInput for what the engine cannot do."""
    one = PlayedConversation(scenario, profile, Log())
    notes = InvariantObserver(one, judges if mode == "provenance" else {}, table)
    play(scenario, profile, mode, notes, table, SHARED_MEMORY)
    return one
