"""Checks of the rule that decided, by runs of their own: nothing of the search is used but its answer."""

from __future__ import annotations

from typing import Any, Iterator

from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.contract import Server
from cachesim.engines.registry import engine_of, rules_of
from cachesim.engines.rule_outcomes import limit_decisions
from cachesim.judging.compare_answer import Judge
from cachesim.judging.compare_stored import compare_stored
from cachesim.judging.deciding_rule import DecidingRule, FailureKind, deciding_rule
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.rule_exchange import is_compatible
from cachesim.judging.unused_point import unused_points
from cachesim.scenarios.runner import SilentObserver, play
from cachesim.scenarios.schema import Scenario, Step

MOST = 200_000           # decisions of a run with an exchanged rule


def again(scenario: Scenario, profile: str, field: str, variant_of: str) -> Run | None:
    """Run a scenario with one field of another rule set; None if the server cannot continue with it."""
    table = rules_of(profile).mixed(rules_of(variant_of), [field])
    try:
        return run_judged(scenario, profile, "provenance", table=limit_decisions(table, MOST))
    except Exception:
        return None


def run_whole(scenario: Scenario, profile: str) -> Run | None:
    """Run a scenario under another rule set; None if it cannot run it."""
    try:
        return run_judged(scenario, profile, "provenance")
    except Exception:
        return None


def is_better(what: FailureKind, was: Run, now: Run, number: int, whole: Run | None = None) -> bool:
    """True if the failure of a request is gone and no request up to it is wrong that was correct. If ``whole``, the run
    under the other rule set, gives an error in a cold run, too, such an error takes the place of a fault."""
    old, new = was.requests[number], now.requests[number]
    spoilt = any(a.judged.equal_cold and not b.judged.equal_cold
                 for a, b in list(zip(was.requests, now.requests, strict=True))[: number + 1])  # fmt: skip
    if what is FailureKind.FAULT and whole is not None and whole.requests[number].judged.is_refused:
        return not spoilt and (new.judged.is_refused or new.judged.equal_cold is True)
    if spoilt or new.judged.equal_cold is not True:
        return False
    return what is not FailureKind.LOSS or new.answer.cache_n > old.answer.cache_n


def false_statements(scenario: Scenario, profile: str, numbers: list[int] | None = None) -> Iterator[str]:
    """Yield what ``deciding_rule`` states wrongly about the failures of a run; ``numbers``: requests, None = all that
    are broken or lost tokens."""
    was = run_judged(scenario, profile, "provenance")
    for number in range(len(was.requests)) if numbers is None else numbers:
        found = deciding_rule(was, number)
        if found is not None and found.what is not FailureKind.COST:
            yield from (f"{scenario.id} {profile} {number}: {text}" for text in _false(scenario, profile, was, found))


def _false(scenario: Scenario, profile: str, was: Run, found: DecidingRule) -> Iterator[str]:
    fields: Any = rules_of(profile).fields()
    for cure in found.cures:
        new: Any = rules_of(cure.variant_of).fields()[cure.field]
        if getattr(fields[cure.field], "rule", cure.field) != cure.rule:
            yield f"{cure.rule} is not a rule of {profile}"
        if getattr(new, "rule", f"{cure.field} {new}") != cure.variant:
            yield f"{cure.variant} is not a rule of {cure.variant_of}"
        now = again(scenario, profile, cure.field, cure.variant_of)
        whole = None if cure.status == 200 else run_whole(scenario, cure.variant_of)
        if now is None or not is_better(found.what, was, now, found.failing, whole):
            yield f"{cure.variant} does not remove the {found.what}"
        elif now.requests[found.failing].answer.cache_n != cure.cache_n:
            yield f"{cure.variant} reuses another number of tokens"
        elif now.requests[found.failing].answer.status != cure.status:
            yield f"{cure.variant} gives another status"
    if not found.cures and found.complete:
        yield from (f"{name} was skipped" for name in skipped(scenario, profile, was, found))


def skipped(scenario: Scenario, profile: str, was: Run, found: DecidingRule) -> Iterator[str]:
    """Yield the rules that remove a failure alone, tried without regard to whether they are asked."""
    fields, tried = rules_of(profile).fields(), set()
    for name, table in engine_of(profile).profiles.items():
        for field, new in table.fields().items():
            if is_compatible(fields[field], new) and (field, new.rule) not in tried:     # type: ignore[attr-defined]
                tried.add((field, new.rule))                                             # type: ignore[attr-defined]
                now = None if new is fields[field] else again(scenario, profile, field, name)
                if now is not None and is_better(found.what, was, now, found.failing):
                    yield new.rule                                                       # type: ignore[attr-defined]


class _Memory(SilentObserver):
    """Reads the memory of a server when one of these requests arrives: the objects, each with the usable lengths."""

    def __init__(self, prompts: dict[int, Tokens]) -> None:
        self.prompts = prompts
        self.found: dict[int, list[tuple[str, int, int, list[int]]]] = {number: [] for number in prompts}

    def started(self, server: Server) -> None:
        self.server, self.judge = server, Judge(server.model)

    def begins(self, number: int, step: Step) -> None:
        if number not in self.prompts:
            return
        prompt, server = self.prompts[number], self.server
        slots = [server.inspection.live(slot) for slot in server.inspection.occupied_slots()]
        for stored in [*slots, *map(server.inspection.stored, server.inspection.kept())]:
            shared = common_prefix(stored.tokens[: stored.length], prompt)
            most = min(shared, len(prompt) - 1)
            cold = self.judge.cold_runs.covering(stored.tokens)
            usable = [n for n in range(1, most + 1) if compare_stored(stored._replace(resume=n), cold).equal_cold]
            slot = stored.owner if stored.kind in ("slot", "checkpoint") else -1
            self.found[number].append((stored.kind, slot, shared, usable))


def false_about_stored(scenario: Scenario, profile: str) -> Iterator[str]:
    """Yield what ``unused_points`` states wrongly about the requests of a run, by the rows and states of the memory."""
    run = run_judged(scenario, profile, "provenance")
    if run.unsettled:
        return
    points = {number: found for number in range(len(run.requests))
              if (found := unused_points(run, number)) is not None}  # fmt: skip
    memory = _Memory({number: run.requests[number].request.prompt for number in points})
    if points:
        play(scenario, profile, "provenance", memory)
    for number, found in points.items():
        reused, stored = run.requests[number].answer.cache_n, memory.found[number]
        for point in found:
            same = [(shared, usable) for kind, slot, shared, usable in stored
                    if (kind, slot) == (point.kind, point.slot) and shared >= point.shared]  # fmt: skip
            if not same or (point.usable and not any(point.usable in usable for _, usable in same)):
                yield f"{scenario.id} {profile} {number}: {point} {same}"
            resumable = not point.usable and point.obstacle != "the server cannot resume there"
            if resumable and same and all(usable and usable[-1] > reused for _, usable in same):
                yield f"{scenario.id} {profile} {number}: {point} {same}"
        if not found and (left := [one for one in stored if one[2] > reused]):
            yield f"{scenario.id} {profile} {number}: {left} stored"
