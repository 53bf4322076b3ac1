"""Sentences and plain data about the rule that decided."""

from __future__ import annotations

from typing import Any, Iterator

from cachesim.base.errors import counted
from cachesim.judging.deciding_rule import CuringRule, DecidingRule, FailureKind
from cachesim.judging.request_cost import cost_change

GONE = {FailureKind.FAULT: "the fault", FailureKind.REFUSED: "the refusal", FailureKind.LOSS: "the loss",
        FailureKind.COST: "the cost"}  # fmt: skip


def decided_data(found: DecidingRule | None) -> dict[str, Any] | None:
    """Return the rule that decided as plain data, None for a request without a failure. ``says``: its sentences."""
    if found is None:
        return None
    return {
        "what": found.what,
        "rule": found.rule,
        "cures": [{**one._asdict(), "cost": one.cost._asdict()} for one in found.cures],
        "together": [one._asdict() for one in found.together],
        "source": found.source,
        "tried": found.tried,
        "complete": found.complete,
        "cost": found.cost._asdict(),
        "says": list(decided_sentences(found)),
    }


def decided_sentences(found: DecidingRule) -> Iterator[str]:
    """Yield a sentence with the rule that decided, then one with the other rules that suffice alone."""
    gone = GONE[found.what]
    if not found.cures:
        yield from _none(found, gone)
        return
    first = found.cures[0]
    when = "at the start of the server" if first.request < 0 else f"at request {first.request}"
    yield f"{first.rule} decided {when}: {_effect(found, first)} with {first.variant} of {first.variant_of}"
    if found.others:
        others = ", ".join(f"{one.rule} -> {one.variant}" for one in found.others)
        yield f"also sufficient alone: {others}"


def _effect(found: DecidingRule, cure: CuringRule) -> str:
    if found.what is FailureKind.FAULT:
        return "the answer is correct" if cure.status == 200 else f"an error {cure.status} takes the place of the fault"
    if found.what is FailureKind.REFUSED:
        return "the request is answered"
    if found.what is FailureKind.COST:
        return cost_change(found.cost, cure.cost) or _reused(cure.cache_n)
    return _reused(cure.cache_n)


def _reused(tokens: int) -> str:
    return f"{counted(tokens, 'token')} {'is' if tokens == 1 else 'are'} reused"


def _none(found: DecidingRule, gone: str) -> Iterator[str]:
    left = "" if found.complete else "; not all were tried"
    if not found.together:
        yield f"no single rule of another rule set removes {gone} ({counted(found.tried, 'variant')} tried{left})"
        return
    rules, profile = ", ".join(one.old for one in found.together), found.together[0].profile
    source = f", changed by {found.source}" if found.source else ""
    yield f"no single rule removes {gone}; these do together, as in {profile}{source}: {rules}{left}"


