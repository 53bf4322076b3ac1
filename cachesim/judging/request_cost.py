"""What a run shows of a request, and its cost: decode calls, memory of stored conversations, and counted drafts."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Sequence

from cachesim.engines.point_kinds import CHECKPOINT, CONVERSATION
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Decoded
from cachesim.judging.find_change import RequestOutcome, status_of
from cachesim.judging.judged_run import JudgedRuns, Run
from cachesim.judging.shared_runs import SharedRuns
from cachesim.scenarios.runner import AnswerCollector, groups, play
from cachesim.scenarios.schema import Scenario


class RequestCost(NamedTuple):
    """Cost of a request: its decode calls, the largest size of the prompt cache meanwhile [MiB], tokens drafted, tokens
    counted as accepted, and bytes that stored conversations keep alive afterwards beyond their own size, and
    prompt tokens evaluated for the second and later completions."""

    decodes: int = 0
    stored_mib: float = 0.0
    drafted: int = 0
    accepted: int = 0
    uncounted: int = 0
    repeated: int = 0

    def exceeds(self, cost: RequestCost) -> bool:
        """True if this cost has more decode calls, memory or repeated evaluation than ``cost``."""
        memory = self.stored_mib > cost.stored_mib or self.uncounted > cost.uncounted
        return self.decodes > cost.decodes or memory or self.repeated > cost.repeated

    def is_better(self, cost: RequestCost, gained: int) -> bool:
        """True if nothing is worse than with ``cost``, and something is another. ``gained``: tokens reused beyond."""
        return gained >= 0 and not self.exceeds(cost) and (gained > 0 or self != cost)


def cost_of(run: Run, number: int) -> RequestCost:
    """Return the cost of a request of a run."""
    events, one = run.events(number), run.requests[number]
    decodes = [type(event) for event in events].count(Decoded)
    stored = max([event.cached_mib for event in events if event.cached_mib is not None], default=0.0)
    repeated = sum(child.prompt_n - child.copied_n for child in one.answer.children)
    return RequestCost(decodes, stored, one.answer.draft_n, one.answer.draft_n_accepted, one.uncounted, repeated)


class ObservedRequest(NamedTuple):
    """A request as a run shows it. ``kept``: lengths of the slot's checkpoints and of the stored conversations."""

    outcome: RequestOutcome
    cost: RequestCost
    kept: frozenset[tuple[str, int]]

    def keeps(self, was: ObservedRequest) -> bool:
        """True if it reuses as many tokens as another run's request, and leaves everything that this one left."""
        return self.outcome.cache_n >= was.outcome.cache_n and self.kept >= was.kept


def observed(run: Run, number: int) -> ObservedRequest:
    """Return what a run shows of a request."""
    one = run.requests[number]
    outcome = RequestOutcome(one.answer.cache_n, one.judged.equal_cold, status_of(one))
    kept = {*((CHECKPOINT, n) for n in one.checkpoints), *((CONVERSATION, n) for n in one.stored)}
    return ObservedRequest(outcome, cost_of(run, number), frozenset(kept))


def up_to(scenario: Scenario, number: int) -> Scenario:
    """Return the scenario up to the requests that are sent together with this one."""
    stop = next(first + len(steps) for first, steps in groups(scenario.steps) if first + len(steps) > number)
    return replace(scenario, steps=scenario.steps[:stop], expect={}, lives=())


def observed_requests(runs: JudgedRuns, scenario: Scenario, profile: str,
                      table: RuleSet | None) -> list[ObservedRequest]:  # fmt: skip
    """Return what a run of a scenario, one of ``runs``, shows of its requests. Raise what ``run_judged`` raises."""
    run = runs.run(scenario, profile, table)
    return [observed(run, i) for i in range(len(run.requests))]


def reused_by_positions(scenario: Scenario, profile: str, rules: RuleSet) -> list[int]:
    """Return the prompt tokens that each step reuses, -1 for a step that is not a completion, in a run by positions
    only, which takes half of the time of a judged run. Raise what ``play`` raises."""
    answers = AnswerCollector()
    play(scenario, profile, "none", answers, rules, keeps_decisions=False)
    found = {number: answer.cache_n for number, (_, answer) in answers.found.items()}
    return [found.get(number, -1) for number in range(len(scenario.steps))]


class ObservedRuns(SharedRuns[Sequence[ObservedRequest]]):
    """Runs of a scenario under rule sets of the engine of ``profile``, and under mixtures of them."""

    def __init__(self, scenario: Scenario, profile: str, mode: str = "provenance") -> None:
        judged = JudgedRuns(mode)
        tables = engine_of(profile).profiles.values()
        super().__init__(lambda rules: observed_requests(judged, scenario, profile, rules), tables, log=False)
        self.by_positions = SharedRuns(lambda rules: reused_by_positions(scenario, profile, rules), tables, log=False)

    def reusing(
        self, rules: RuleSet, number: int, more_than: int, most_decisions: int = 0
    ) -> Sequence[ObservedRequest] | None:
        """Return the result under a rule set, or under a mixture with at most ``most_decisions``; None if request
        ``number`` does not reuse more tokens, which a run by positions tells before a run is judged. Raise what
        ``unshared`` raises."""
        shared = self.find(rules)
        if shared is not None:
            return shared
        quick = self.by_positions
        reused = quick.unshared(rules, most_decisions) if most_decisions else quick.result(rules)
        if reused[number] <= more_than:
            return None
        return self.unshared(rules, most_decisions) if most_decisions else self.result(rules)


def cost_change(old: RequestCost, new: RequestCost) -> str:
    """Return the parts of a cost that differ, in words: ``3 decode calls instead of 5``."""
    words = {"decodes": "decode calls", "stored_mib": "MiB of stored conversations", "drafted": "tokens drafted",
             "accepted": "tokens counted as accepted", "uncounted": "uncounted bytes kept in memory",
             "repeated": "prompt tokens evaluated for further completions"}  # fmt: skip
    return ", ".join(f"{getattr(new, name)} {noun} instead of {getattr(old, name)}"
                     for name, noun in words.items() if getattr(new, name) != getattr(old, name))  # fmt: skip
