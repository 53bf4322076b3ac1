"""A request got an error instead of an answer: was it because of what the server had kept?

The request, with those sent at the same time, goes to a fresh server with the same flags. If that one answers it, the
error comes from what earlier requests left behind, and is as wrong as a wrong answer. If it does not (a prompt longer
than the context), nothing was computed that could be compared: the request is refused, which is undecided unless the
scenario expects the status.
"""

from __future__ import annotations

from dataclasses import replace

from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer, Request
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging.fault_kinds import Kind
from cachesim.judging.verdict import Verdict, broken, undecided
from cachesim.scenarios.runner import Silent, groups, play
from cachesim.scenarios.schema import Scenario


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
