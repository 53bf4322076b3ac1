"""Properties about what was lost: they read the recompute account of every request, or compare two runs. They are
slower than the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Iterator, Mapping

from cachesim.engines.registry import ENGINES
from cachesim.judging.judged_run import Run
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.runner import Silent, play
from cachesim.scenarios.schema import Scenario
from cachesim.tools.search.finding import CONSUMED, LESS, UNBALANCED, WASTED, PropertyFailure

LEAST = 4              # tokens that are worth a finding
Bill = Callable[[Run], Iterator[PropertyFailure]]


def balances(run: Run) -> Iterator[PropertyFailure]:
    """Every re-evaluated token is attributed to a decision."""
    for i, one in enumerate(run.requests):
        if not one.account.balanced:
            yield PropertyFailure("balances", i, UNBALANCED, {"account": str(one.account)}, one.answer.deciding)
            return


def no_lost_conversation(run: Run) -> Iterator[PropertyFailure]:
    """A stored conversation stays until a limit wants its room: nobody loses it by using it."""
    for i, one in enumerate(run.requests):
        for charge in one.account.charges:
            if charge.event == "consumed" and charge.at >= 0 and charge.tokens >= LEAST:
                numbers = {"tokens": charge.tokens, "at": charge.at}
                yield PropertyFailure("no-lost-conversation", i, CONSUMED, numbers, charge.rule)
                return


def nothing_needless(run: Run) -> Iterator[PropertyFailure]:
    """A checkpoint that would serve is used, and is not thrown away while it would."""
    for i, one in enumerate(run.requests):
        for charge in one.account.charges:
            if "checkpoint" in charge.kind and charge.event in ("not chosen", "erased") and charge.tokens >= LEAST:
                numbers = {"tokens": charge.tokens, "point": charge.kind, "event": charge.event}
                yield PropertyFailure("nothing-needless", i, WASTED, numbers, charge.rule)
                return


BILLS: Mapping[str, Bill] = {
    "balances": balances,
    "no-lost-conversation": no_lost_conversation,
    "nothing-needless": nothing_needless,
}
"""Those that need the recompute account."""


class _Counts(Silent):
    """What was reused by each request, and whether all is well enough to compare."""

    def __init__(self) -> None:
        self.reused: list[int] = []
        self.plain = True

    def answered(self, number: int, request: object, answer: object) -> None:
        self.reused.append(getattr(answer, "cache_n", 0))
        self.plain = self.plain and getattr(answer, "status", 200) == 200 and not getattr(answer, "died", False)


def monotone(scenario: Scenario, profile: str) -> Iterator[PropertyFailure]:
    """One conversation, one slot: with more checkpoints or more cache, never less is reused. Undecided, and silent, for
    requests that meet each other, and where a request fails."""
    manual, options = ENGINES[scenario.engine].manual, in_force(scenario.server, profile)
    if any(step.together or step.action for step in scenario.steps) or manual.slot_count(options) != 1:
        return
    before = _reused(scenario, profile, {})
    for name, plenty in manual.plenty.items():
        if options[name] in (plenty, -1):
            continue
        after = _reused(scenario, profile, {name: plenty})
        if before and after and sum(after) < sum(before):
            first = next(i for i, (a, b) in enumerate(zip(before, after, strict=True)) if b < a)
            numbers = {"some": options[name], "option": name, "plenty": plenty,
                       "before": before[first], "after": after[first]}  # fmt: skip
            yield PropertyFailure("monotone", first, LESS, numbers, name)
            return


def _reused(scenario: Scenario, profile: str, more: Mapping[str, int]) -> list[int]:
    counts = _Counts()
    play(replace(scenario, server={**scenario.server, **more}), profile, "none", counts)
    return counts.reused if counts.plain else []

