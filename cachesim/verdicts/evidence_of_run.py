"""Dependence of a run on outcomes that no real server was seen to have.

A verdict or a charge depends on an outcome if it changes when the outcome is replaced by another admissible answer.
Only answers that no recording and no comparison refutes are tried, and only where an answer is wrong or tokens were
charged.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from cachesim.engines.registry import engine_of
from cachesim.engines.shared.outcomes import Outcome, Variants, listening, replacing, variants_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shipped import SHIPPED
from cachesim.errors import BadInput
from cachesim.verdicts.evidence import is_unseen, table_of
from cachesim.verdicts.judged_run import Run, run_judged
from cachesim.verdicts.lost_tokens import Charge

MODE = "provenance"
MOST = 40                # other answers that are tried for one run
TOKENS = 60_000          # and tokens of prompts in all these tries


class Dependence(NamedTuple):
    """What request ``request`` owes to an outcome that was read and not seen: its ``what``, a "verdict" or a "charge".
    With the answer ``instead`` it would be another."""

    request: int
    what: str
    rule: str
    case: str
    instead: str


def predicted(run: Run) -> list[Dependence]:
    """What of a run depends on outcomes that were only read, each request and kind once. [] where nothing is wrong and
    nothing was charged, and for rules that are not graded."""
    charged = any(one.account.charges for one in run.requests)
    if not (run.broken or charged) or table_of(run.profile.partition("@")[0]) is None:
        return []
    engine = engine_of(run.profile)
    if run.profile not in engine.profiles:
        return []
    again = _Again(run, engine.rules(run.profile), variants_of_engine(engine.name), charged)
    return again.dependences()


@cache
def variants_of_engine(engine: str) -> Variants:
    """The rules of the rule sets that come with cachesim, by field."""
    return variants_of(SHIPPED[engine].profiles.values())


class _Again:
    """A run that is repeated with other answers."""

    def __init__(self, run: Run, rules: RuleSet, variants: Variants, charged: bool) -> None:
        self.run, self.rules, self.variants, self.charged = run, rules, variants, charged
        self.engine = run.profile.partition("@")[0]

    def dependences(self) -> list[Dependence]:
        """Each request and kind with the first outcome that it depends on."""
        unseen: dict[tuple[Outcome, str], None] = {}

        def hear(outcome: Outcome, others: dict[str, object]) -> None:
            unseen.update({(outcome, other): None for other in others if is_unseen(self.engine, outcome, other)})

        base = self._judged(listening(self.rules, self.variants, hear))
        found: dict[tuple[int, str], Dependence] = {}
        size = sum(len(step.request.prompt) for step in self.run.scenario.steps)
        for outcome, other in sorted(unseen)[: min(MOST, TOKENS // max(1, size))]:
            for request, what in self._changed(base, outcome, other):
                found.setdefault((request, what), Dependence(request, what, *outcome, other))
        return [found[key] for key in sorted(found)]

    def _judged(self, rules: RuleSet) -> Run:
        return run_judged(self.run.scenario, self.run.profile, MODE, table=rules, bills=self.charged)

    def _changed(self, base: Run, outcome: Outcome, other: str) -> list[tuple[int, str]]:
        """The wrong answers that would be right, and the requests that would be charged otherwise."""
        try:
            run = self._judged(replacing(self.rules, self.variants, outcome, other))
        except BadInput:
            raise
        except Exception:               # the server cannot go on with that answer: it is not admissible
            return []
        pairs = list(enumerate(zip(base.requests, run.requests, strict=True)))
        right = [(i, "verdict") for i, (was, now) in pairs
                 if was.judged.equal_cold is False and now.judged.equal_cold is not False]  # fmt: skip
        return right + [(i, "charge") for i, (was, now) in pairs if _less(was.account.charges, now.account.charges)]


def _less(was: tuple[Charge, ...], now: tuple[Charge, ...]) -> bool:
    """True if a request was charged, and would be charged with other tokens or for another event."""
    return bool(was) and [one[:3] for one in was] != [one[:3] for one in now]
