"""Search for what a recording leaves open: when a slot action within a group was done, when a request came that waited
for a slot, and the value of numbers that the server never initialised.

A recording is replayed under one supposition after another, depth first, until every step agrees. Verdicts are taken
from all suppositions about slot actions under which every step agrees: where they differ, the step is undecided.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Callable, Mapping, NamedTuple

from cachesim.replay.recorded_trace import Trace
from cachesim.replay.replay_result import Replayed

MOST = 48                     # suppositions until all steps agree
OTHERS = 4                    # suppositions more about slot actions, for the verdicts
LARGE = 1 << 40               # an uninitialised number that no count of tokens exceeds


class Supposed(NamedTuple):
    """``unset``: values of uninitialised numbers, 0 where nothing is said; ``passed``: by number of a step, how many of
    the ways in which it agrees are passed over."""

    unset: Mapping[tuple[int, int], int] = MappingProxyType({})
    passed: Mapping[int, int] = MappingProxyType({})


NOTHING = Supposed()


def settled(trace: Trace, play: Callable[[Supposed], Replayed], judged: bool) -> Replayed:
    """The replay under the supposition that agrees best; ``judged``: verdicts are compared, too."""
    acting = [step.number for step in trace.steps if step.acts]
    waiting = [step.number for step in trace.steps if step.acts or step.waits]
    case: Supposed | None = NOTHING
    best: Replayed | None = None
    agreeing: list[Replayed] = []
    tried = 0
    while case is not None and tried < MOST:
        found, tried = play(case), tried + 1
        best = found if best is None or found.steps_agree > best.steps_agree else best
        if found.first is None:
            agreeing.append(found)
            case = _other_way(case, found, acting) if judged and len(agreeing) <= OTHERS else None
        else:
            case = _other_numbers(case, found) or _other_way(case, found, acting if agreeing else waiting)
    assert best is not None
    if not agreeing:
        return best
    first = agreeing[0]
    for step in first.verdicts:
        if any(one.verdicts[step] != first.verdicts[step] for one in agreeing):
            first.leave_open(step, "the verdict depends on when a slot action of a group was done")
    return first


def _other_numbers(case: Supposed, found: Replayed) -> Supposed | None:
    """The supposition with other uninitialised numbers, None if no others suggest themselves: those that decided
    something are large; one that is logged is what the recording has."""
    if more := sorted(found.unset - case.unset.keys()):
        large = {number: LARGE + len(case.unset) + i for i, number in enumerate(more)}
        return case._replace(unset={**case.unset, **large})
    ours, recorded = (_logged(found, name) for name in ("ours", "recorded"))
    supposed, n_tokens = ours.pop("n_tokens", None), recorded.pop("n_tokens", 0)
    logged = [number for number, value in case.unset.items() if value == supposed]
    return case._replace(unset={**case.unset, logged[0]: n_tokens}) if logged and ours == recorded else None


def _logged(found: Replayed, name: str) -> dict[str, Any]:
    event = (found.first or {}).get(name)
    return dict(event) if isinstance(event, Mapping) else {}


def _other_way(case: Supposed, found: Replayed, steps: list[int]) -> Supposed | None:
    """The supposition in which the last of these steps before the first difference went another way, None if there is
    none. If the difference is in such a step, every way in which it agrees has been tried."""
    wrong = None if found.first is None else found.first["step"]
    before = [step for step in steps if wrong is None or step < wrong]
    if not before:
        return None
    kept = {step: n for step, n in case.passed.items() if step < before[-1]}
    return case._replace(passed={**kept, before[-1]: case.passed.get(before[-1], 0) + 1})
