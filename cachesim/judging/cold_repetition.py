"""Verdict about a request that got an error instead of an answer: it is sent again, with those sent at the same time,
to a fresh server with the same flags and adapter scales.

If that server answers, earlier requests caused the error, which counts as a wrong answer. Otherwise the request is
refused. Requests that share the context and together need more than it has are refused, too: which of them finds no
room depends on slots and order.
"""

from __future__ import annotations

from dataclasses import replace

from cachesim.base.errors import BadInput
from cachesim.engines.base import NO_ROOM, Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.verdict import Verdict, undecided, wrong
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.runner import SilentObserver, groups, play
from cachesim.scenarios.schema import Scenario, Step


def error_verdict(
    scenario: Scenario, number: int, answer: Answer, profile: str, table: RuleSet | None = None
) -> Verdict:
    """Return the verdict about a step that ended with a status other than 200, under a profile or a ``table`` of rules:
    broken at level "error", or undecided. A step that the scenario does not list cannot be repeated."""
    listed = number < len(scenario.steps) and scenario.steps[number].action is None
    cold = repeat_cold(scenario, number, profile, table) if listed else None
    if cold is not None and answer.error_kind == NO_ROOM and answer.status >= 500 and cold.needs > cold.room:
        return undecided(FaultKind.CROWDED, status=answer.status, needs=cold.needs, room=cold.room, error=answer.error)
    if cold is not None and cold.status == 200:
        return wrong("error", FaultKind.WARM_ERROR, status=answer.status, error=answer.error)
    kind = FaultKind.REFUSED if answer.status < 500 else FaultKind.COLD_ERROR
    return undecided(kind, **answer.error_numbers, status=answer.status, error=answer.error)


def repeat_cold(scenario: Scenario, number: int, profile: str, table: RuleSet | None = None) -> ColdRepetition:
    """Send a request again to a fresh server."""
    first, group = next((i, steps) for i, steps in groups(scenario.steps) if i <= number < i + len(steps))
    options, scales = dict(scenario.server), list[Step]()
    for step in scenario.steps[:first]:
        if step.action is not None and step.action.do == "restart":
            options |= step.action.server
            scales = []
        elif step.action is not None and step.action.scales:
            scales = [step]
    context = engine_of(profile).manual.context
    shares = context is not None and context.parts(in_force(options, profile)) == 1
    alone = replace(scenario, server=options, steps=(*scales, group[0].alone(), *group[1:]))
    cold = ColdRepetition(number - first + len(scales), shares)
    try:
        play(alone, profile, "none", cold, table)
    except BadInput:
        cold.status = 0
    return cold


class ColdRepetition(SilentObserver):
    """HTTP status of a step; 0 if the process ends or the step cannot be run. ``needs``: tokens of the step, or of all
    steps if their slots share the context (``shares``); the last generated token needs no room. ``room``: tokens for
    which a slot has room."""

    def __init__(self, number: int, shares: bool) -> None:
        self.number = number
        self.shares = shares
        self.status = 0
        self.needs = 0
        self.room = 0

    def started(self, server: Server) -> None:
        """Note the room of the server."""
        self.room = server.sizes.n_ctx_slot

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """Note the status of the step, and what each step needs."""
        if self.shares or number == self.number:
            self.needs += len(request.prompt) + request.n_cmpl * max(0, request.n_predict - 1)
        if number == self.number and answer.done and not answer.died:
            self.status = answer.status
