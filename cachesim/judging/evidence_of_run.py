"""Dependence of a run on outcomes that no real server was seen to have.

A verdict, or the tokens that are charged, depend on an outcome if they change when the outcome is replaced by another
admissible answer. Only answers that no recording and no comparison refutes are tried, and only where an answer is wrong
or tokens were charged.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Mapping, NamedTuple

from cachesim.base.errors import Terminated
from cachesim.engines.base import Answer, Request
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.outcomes import (
    NEGATED,
    Endless,
    Outcome,
    Variants,
    ending,
    listening,
    replacing,
    variants_of,
)
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shipped import SHIPPED
from cachesim.judging.evidence import is_unseen, table_of
from cachesim.judging.judged_run import Run, Stopped, run_judged
from cachesim.scenarios.runner import Silent, play

MODE = "provenance"
MOST = 16                # other answers that are tried for one run
TOKENS = 60_000          # and tokens of prompts in all these tries
ENDLESS = 20             # times as many decisions as the run asked for: with another answer it does not come to an end


class Dependence(NamedTuple):
    """What request ``request`` owes to an outcome that was read and not seen: its ``what``, a "verdict" or a "charge".
    With the answer ``other`` it would be another."""

    request: int
    what: str
    rule: str
    case: str
    other: str


def predicted(run: Run, rules: RuleSet | None = None) -> list[Dependence]:
    """What of a run depends on outcomes that were only read, each request and kind once. [] where nothing is wrong and
    nothing was charged, and for rules that are not graded. ``rules``: those of a workload's server, which is repeated
    whatever its size and for its verdicts only; None = those of the run's profile."""
    charged = rules is None and any(one.account.charges for one in run.requests)
    name = run.profile.partition("@")[0]
    if not (run.broken or charged) or table_of(name) is None:
        return []
    known = ENGINES[name].profiles
    if rules is None and run.profile not in known:
        return []
    size = sum(len(step.request.prompt) for step in run.scenario.steps)
    most = MOST if rules is not None else min(MOST, TOKENS // max(1, size))
    return _Again(run, rules or known[run.profile], variants_of_engine(name)).dependences(most)


@cache
def variants_of_engine(engine: str) -> Variants:
    """The rules of the rule sets that come with cachesim, by field."""
    return variants_of(SHIPPED[engine].profiles.values())


class _Answers(Silent):
    """Tokens that each request reused."""

    def __init__(self) -> None:
        self.reused: dict[int, int] = {}

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """A request is answered."""
        self.reused[number] = answer.cache_n


class _Again:
    """A run that is repeated with other answers: judged where it has wrong answers, else by positions only, which is
    enough for the tokens that are evaluated again."""

    def __init__(self, run: Run, rules: RuleSet, variants: Variants) -> None:
        self.run, self.rules, self.variants = run, rules, variants
        self.profile = run.profile.removesuffix(" (changed)")
        self.asked = 0

    def dependences(self, most: int) -> list[Dependence]:
        """Each request and kind with the first outcome that it depends on; ``most`` other answers are tried, those of
        rules that charges and requests name first."""
        charged = [i for i, one in enumerate(self.run.requests) if one.account.charges]
        wanted = {(i, "verdict") for i in self.run.broken} | {(i, "charge") for i in charged}
        cited = {charge.rule for i in charged for charge in self.run.requests[i].account.charges}
        cited |= {self.run.requests[i].answer.deciding for i, _ in wanted}
        found: dict[tuple[int, str], Dependence] = {}
        for outcome, other in sorted(self._unseen(), key=lambda pair: pair[0].rule not in cited)[:most]:
            for request, what in self._changed(outcome, other):
                found.setdefault((request, what), Dependence(request, what, *outcome, other))
            if wanted <= found.keys():
                break
        return [found[key] for key in sorted(found)]

    def _unseen(self) -> list[tuple[Outcome, str]]:
        """The outcomes of the run with each other answer that nothing refutes, those that are the same once."""
        asked: Counter[Outcome] = Counter()
        met: Counter[tuple[Outcome, str]] = Counter()

        def hear(outcome: Outcome, others: Mapping[str, object]) -> None:
            asked[outcome] += 1
            met.update((outcome, other) for other in others)

        self._played(listening(self.rules, self.variants, hear))
        self.asked = sum(asked.values())
        engine = self.profile.partition("@")[0]
        return [(outcome, other) for (outcome, other), n in sorted(met.items()) if is_unseen(engine, outcome, other)
                and (other == NEGATED or n < asked[outcome] or (outcome, NEGATED) not in met)]  # fmt: skip

    def _played(self, rules: RuleSet) -> dict[int, int]:
        watcher = _Answers()
        play(self.run.scenario, self.profile, "none", watcher, rules)
        return watcher.reused

    def _changed(self, outcome: Outcome, other: str) -> list[tuple[int, str]]:
        """The wrong answers that would be right, and the charged requests that would reuse more or fewer tokens."""
        rules = ending(replacing(self.rules, self.variants, outcome, other), ENDLESS * self.asked)
        right: list[tuple[int, str]] = []
        try:
            if self.run.broken:
                again = run_judged(self.run.scenario, self.profile, MODE, table=rules, bills=False).requests
                right = [(i, "verdict") for i in self.run.broken if again[i].judged.equal_cold is not False]
                reused = {i: one.answer.cache_n for i, one in enumerate(again)}
            else:
                reused = self._played(rules)
        except Stopped as stopped:      # of a repetition nothing is shown
            raise KeyboardInterrupt if stopped.number is None else Terminated(stopped.number) from None
        except (Exception, Endless):    # the server cannot go on with that answer: it is not admissible
            return []
        return right + [(i, "charge") for i, one in enumerate(self.run.requests)
                        if one.account.charges and reused.get(i, -1) != one.answer.cache_n]  # fmt: skip
