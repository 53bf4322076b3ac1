"""Properties that a cache must have. Each check reads the record of a run and yields findings with their rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Iterator, Mapping

from cachesim.engines.base import Answer, Request
from cachesim.engines.point_kinds import is_copy
from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import Role, has_effect, role_of
from cachesim.events import Decided, SeqRm
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.judged_run import Run
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.runner import SilentObserver, play
from cachesim.scenarios.schema import Scenario
from cachesim.scenarios.server_settings import assumed_options, server_options
from cachesim.tools.search.invariant_observer import CheckedRun, StepRecord
from cachesim.tools.search.property_failure import PropertyFailure, masked

Check = Callable[[CheckedRun], Iterator[PropertyFailure]]


def warm_equals_cold(run: CheckedRun) -> Iterator[PropertyFailure]:
    """Yield the first answer that differs from that of a cold run, in itself or in the memory after it."""
    for at, step in enumerate(run.steps):
        if step.answer.died:
            return
        verdicts = (one for one in (step.verdict, step.state) if one.equal_cold is False)
        wrong = next((one for one in verdicts if one.rung not in ("error", "unanswered")), None)
        if wrong is not None:
            yield PropertyFailure("warm-equals-cold", step.number, str(wrong.kind), wrong.numbers, step.answer.deciding,
                          _first_wrong_kind(run, at), _causes(run, at))
            return


def stored_equals_cold(run: CheckedRun) -> Iterator[PropertyFailure]:
    """Every checkpoint and stored conversation equals what a cold run of its tokens would store. At the first step with
    wrong objects, a finding of each kind is reported."""
    for at, step in enumerate(run.steps):
        wrong = {(stored.kind, str(verdict.kind)): {**verdict.numbers, "stored_tokens": stored.length}
                 for stored, verdict in reversed(step.armed) if verdict.equal_cold is False}
        for (stored, kind), numbers in wrong.items():
            yield PropertyFailure("stored-equals-cold", step.number, kind, numbers, _made_by(run, step), stored,
                          _causes(run, at))
        if wrong:
            return


def survives(run: CheckedRun) -> Iterator[PropertyFailure]:
    """Yield the first request that the server does not survive."""
    for step in run.steps:
        if step.answer.died:
            yield PropertyFailure("survives", step.number, _kind(step.answer), _error_numbers(step.answer))
            return


def _kind(answer: Answer) -> str:
    """Return the kind of an error; if the engine does not name a kind, its text without numbers."""
    return answer.error_kind or masked(answer.error.partition(":")[0])


def _error_numbers(answer: Answer) -> dict[str, int | str]:
    return {**answer.error_numbers, "error": answer.error}


def answered(run: CheckedRun) -> Iterator[PropertyFailure]:
    """Yield the first request that is never answered, or that ends in a server error although a cold run answers it or
    there is room. There is no room if the requests sent at the same time need more than the context."""
    for step in run.steps:
        answer = step.answer
        if step.verdict.rung == "unanswered":
            numbers = {**step.verdict.numbers, "error": step.verdict.why, "status": 0}
            yield PropertyFailure("answered", step.number, str(step.verdict.kind), numbers, answer.deciding,
                                  causes=_causes(run, run.steps.index(step)))
            return
        if step.verdict.rung == "error" or (answer.status == 500 and step.verdict.kind != FaultKind.CROWDED):
            numbers = {**_error_numbers(answer), "status": answer.status}
            yield PropertyFailure("answered", step.number, _kind(answer), numbers, answer.deciding,
                          causes=_causes(run, run.steps.index(step)))
            return


def seq_rm_atomic(run: CheckedRun) -> Iterator[PropertyFailure]:
    """Yield the first removal that was refused and changed something, or was executed and left something of its
    range."""
    for step, numbers in run.torn[:1]:
        yield PropertyFailure("seq-rm-atomic", step, FaultKind.TORN, numbers)


def memory_sound(run: CheckedRun) -> Iterator[PropertyFailure]:
    """Yield the first step after which the memory's tables are inconsistent: counted rows are missing, positions have
    gaps, or an erased slot is not empty."""
    for step, kind, numbers in run.unsound[:1]:
        yield PropertyFailure("memory-sound", step, kind, numbers)


def accounting(run: CheckedRun) -> Iterator[PropertyFailure]:
    """Yield the first request whose reused and evaluated tokens do not add up to the prompt, or that evaluates more
    tokens than a cold run."""
    for step in run.steps:
        answer, n = step.answer, len(step.request.prompt)
        if answer.status != 200 or answer.died or answer.cancelled or answer.truncated or not answer.done:
            continue
        if answer.first_evaluated + answer.prompt_n != n or answer.prompt_n > n:
            numbers = {"found": answer.first_evaluated, "evaluated": answer.prompt_n, "prompt": n}
            yield PropertyFailure("accounting", step.number, FaultKind.MISCOUNTED, numbers, answer.deciding)
            return


def limits(run: CheckedRun) -> Iterator[PropertyFailure]:
    """Yield the first limit set by a flag that is exceeded at the end of a request."""
    for step in run.steps:
        for one in step.over:
            yield PropertyFailure("limits", step.number, FaultKind.EXCEEDED, one._asdict(), one.what)
            return


PROPERTIES: Mapping[str, Check] = {
    "warm-equals-cold": warm_equals_cold,
    "stored-equals-cold": stored_equals_cold,
    "survives": survives,
    "answered": answered,
    "seq-rm-atomic": seq_rm_atomic,
    "memory-sound": memory_sound,
    "accounting": accounting,
    "limits": limits,
}
"""Properties that can be checked in a single run."""


def _first_wrong_kind(run: CheckedRun, at: int) -> str:
    """Return the kind of the first stored object that was wrong, "" if all were correct."""
    armed = (one for step in run.steps[: at + 1] for one in step.armed)
    return next((stored.kind for stored, verdict in armed if verdict.equal_cold is False), "")


def _made_by(run: CheckedRun, step: StepRecord) -> str:
    """Return the rule that last decided to make, use or keep a stored object in this step."""
    found = [event.rule for event in run.log.of(step.number) if isinstance(event, Decided) and _stores(event)]
    return found[-1] if found else step.answer.deciding


STORING = (Role.CREATE, Role.PUBLISH, Role.READ_FILE, Role.STORE, Role.RESUME, Role.LOAD, Role.HAND)


def _stores(decision: Decided) -> bool:
    """True if the decision makes, uses or keeps a stored object. Entry number 0 counts as found, an entry that
    stays in the cache as kept."""
    role = role_of(decision.rule)
    return role in STORING and has_effect(role, decision.value)


def _causes(run: CheckedRun, at: int) -> tuple[str, ...]:
    """Return the causes step by step: tokens reused by which rule, refused removals, corrupt objects, wrong answers."""
    out = []
    for step in run.steps[: at + 1]:
        answer = step.answer
        out.append(f"request {step.number}: {answer.cache_n} of {len(step.request.prompt)} tokens reused"
                   f" by {answer.deciding or 'no rule'}")
        out += [f"  seq_rm({e.seq}, {e.p0}) fails" for e in run.log.of(step.number)
                if isinstance(e, SeqRm) and not e.ok]
        out += [f"  leaves a corrupt {stored.kind} of {stored.length} tokens: {verdict.why}"
                for stored, verdict in step.armed[:2] if verdict.equal_cold is False]
    wrong = [one.why for one in (run.steps[at].verdict, run.steps[at].state) if one.equal_cold is False]
    return (*out[-12:], *(f"  wrong: {why}" for why in wrong))


# Properties of re-evaluation: they read the recompute ledger of every request, or compare two runs, and are slower.

LEAST = 4              # tokens: smaller losses are not reported
LedgerCheck = Callable[[Run], Iterator[PropertyFailure]]


def balances(run: Run) -> Iterator[PropertyFailure]:
    """Yield the first request with re-evaluated tokens that are not attributed to a decision."""
    for i, one in enumerate(run.requests):
        if not one.ledger.is_balanced:
            yield PropertyFailure("balances", i, FaultKind.UNBALANCED, {"account": str(one.ledger)},
                                  one.answer.deciding)  # fmt: skip
            return


def no_lost_conversation(run: Run) -> Iterator[PropertyFailure]:
    """A stored conversation stays until a limit requires its room; using it does not remove it."""
    for i, one in enumerate(run.requests):
        for charge in one.ledger.charges:
            if charge.event == "consumed" and charge.at >= 0 and charge.tokens >= LEAST:
                numbers = {"tokens": charge.tokens, "at": charge.at}
                yield PropertyFailure("no-lost-conversation", i, FaultKind.CONSUMED, numbers, charge.rule)
                return


def nothing_needless(run: Run) -> Iterator[PropertyFailure]:
    """A usable stored copy is used, and is not erased while it is usable: a checkpoint, a stored conversation, a block,
    a node or its state. The state of a request in progress is not a copy."""
    for i, one in enumerate(run.requests):
        for charge in one.ledger.charges:
            if is_copy(charge.kind) and charge.event in ("not chosen", "erased") and charge.tokens >= LEAST:
                numbers = {"tokens": charge.tokens, "point": charge.kind, "event": charge.event}
                rule = charge.rule or one.answer.deciding
                yield PropertyFailure("nothing-needless", i, FaultKind.WASTED, numbers, rule)
                return


LEDGER_PROPERTIES: Mapping[str, LedgerCheck] = {
    "balances": balances,
    "no-lost-conversation": no_lost_conversation,
    "nothing-needless": nothing_needless,
}
"""Properties that need the recompute ledger."""


class _Counts(SilentObserver):
    """Observer that counts reused tokens by request. ``plain``: every request was answered normally."""

    def __init__(self) -> None:
        self.reused: list[int] = []
        self.plain = True

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        self.reused.append(answer.cache_n)
        self.plain = self.plain and answer.status == 200 and not answer.died


def monotone(scenario: Scenario, profile: str) -> Iterator[PropertyFailure]:
    """In a conversation on a single slot, more checkpoints or more cache never reduce reuse. Conversations with
    simultaneous requests, actions or failing requests are not judged."""
    manual, options = ENGINES[scenario.engine].manual, in_force(server_options(scenario), profile)
    if any(step.together or step.action for step in scenario.steps) or manual.slot_count(options) != 1:
        return
    before = _reused(scenario, profile, {})
    assumed = assumed_options(scenario)
    for name, plenty in manual.plenty.items():
        if name in assumed or options[name] in (plenty, -1):
            continue
        after = _reused(scenario, profile, {name: plenty})
        if before and after and sum(after) < sum(before):
            first = next(i for i, (a, b) in enumerate(zip(before, after, strict=True)) if b < a)
            numbers = {"some": options[name], "option": name, "plenty": plenty,
                       "before": before[first], "after": after[first]}  # fmt: skip
            yield PropertyFailure("monotone", first, FaultKind.LESS, numbers, name)
            return


def _reused(scenario: Scenario, profile: str, more: Mapping[str, int]) -> list[int]:
    counts = _Counts()
    play(replace(scenario, server={**scenario.server, **more}), profile, "none", counts)
    return counts.reused if counts.plain else []
