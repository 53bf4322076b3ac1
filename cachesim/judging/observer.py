"""Who looks over the runner's shoulder? Judges every answer while the server still holds what it left behind.

One observer for every purpose: ``Watch`` adds the recompute account of each request, the search checks of the memory.
"""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.judge_view import Stored
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Event, Release
from cachesim.judging.cold_comparison import Judge, Judged
from cachesim.judging.fault_kinds import Kind
from cachesim.judging.refusal import error_verdict
from cachesim.judging.verdict import broken, undecided
from cachesim.scenarios.runner import Silent
from cachesim.scenarios.schema import Scenario, Step

ENDS_ELSEWHERE = broken("provenance", Kind.MEMORY_ELSEWHERE)


class Observer(Silent):
    """Judges the answers of a run under a profile, or a ``table`` of rules. ``judge`` may be shared between runs of one
    model; None = made when the first server starts."""

    judge: Judge
    server: Server

    def __init__(self, scenario: Scenario, profile: str, table: RuleSet | None, judge: Judge | None = None) -> None:
        self.scenario, self.profile, self.table, self.given = scenario, profile, table, judge
        self.left: dict[int, tuple[Stored, bool]] = {}     # what a request left behind, and does the memory agree
        self.kept: Sequence[Stored] = ()                   # when the last answer was judged
        self.starts = 0

    def started(self, server: Server) -> None:
        """A server has started, the first one or after a restart."""
        self.server, self.starts = server, self.starts + 1
        if self.starts == 1:
            self.judge = self.given or Judge(server.model)

    def hear(self, event: Event) -> None:
        """Told of the release of a slot. It is copied at that moment: soon it may be another's."""
        if not isinstance(event, Release) or event.slot is None or self.server.is_further(event.slot):
            return
        answer = self.server.answer_at(event.slot)
        if answer is not None and answer.status == 200:
            self.left[answer.request] = self.server.live(event.slot), self.server.agrees(event.slot)

    def begins(self, number: int, step: Step) -> None:
        """The step comes next: prefixes of what it asks for will be compared with a cold run."""
        if self.judge.model is not None:
            self.judge.colds.expect((*step.request.prompt, *(step.request.forced or ())))

    def judged(self, number: int, request: Request, answer: Answer) -> Judged:
        """The verdicts about an answer and what it left behind."""
        slot, agrees = self.left.pop(answer.request, (None, True))
        self.kept = self.server.kept()
        judged = self.judge.judge(request, answer, slot, self.kept)
        judged.window = _window(slot) if slot is not None else None
        if not (answer.done or answer.died):
            judged.answer = undecided(Kind.NEVER_ANSWERED)
            return judged
        if answer.status != 200 and not answer.died:
            self.failed(number, answer, judged)
        if not agrees:
            judged.state = ENDS_ELSEWHERE
        return judged

    def failed(self, number: int, answer: Answer, judged: Judged) -> None:
        """The step ended with an error: because of what the server had kept, or in a cold run too?"""
        judged.answer = error_verdict(self.scenario, number, answer, self.profile, self.table)
        judged.refused = judged.answer.holds is None


def _window(slot: Stored) -> tuple[int, int] | None:
    """Positions lo .. hi-1 that the window layers of a slot hold: all of them, where several have different ones."""
    parts = [part.pos for part in slot.rows if part.window and len(part.pos)]
    return (max(int(pos.min()) for pos in parts), max(int(pos.max()) for pos in parts) + 1) if parts else None
