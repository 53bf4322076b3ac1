"""Search for facts that a recording does not contain: the time of a slot action within a group, the arrival of a
request between iterations that are not logged, and the value of uninitialised numbers.

A recording is replayed under suppositions, depth first, until every step agrees. Verdicts are taken from all
suppositions about slot actions under which every step agrees: if they differ, the step is undecided.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from cachesim.base.limits import ORDER_WORK
from cachesim.replay.recorded_trace import Trace
from cachesim.replay.replay_result import ReplayResult
from cachesim.replay.schedule_search import SearchPlace

MOST = 48                     # suppositions tried until all steps agree
OTHERS = 4                    # further suppositions about slot actions, for the verdicts
LARGE = 1 << 40               # uninitialised number above every token count
SUPPOSITIONS_LEFT = "{} suppositions about what the recording does not contain were tried, not all"


class Supposition(NamedTuple):
    """``unset``: values of uninitialised numbers, 0 by default; ``passed``: by step, how many agreeing orders to
    skip; ``places``: by step, where the searches stand that have passed them under the same numbers; ``spent``: work of
    the searches under earlier suppositions."""

    unset: Mapping[tuple[int, int], int] = MappingProxyType({})
    passed: Mapping[int, int] = MappingProxyType({})
    places: Mapping[int, Sequence[SearchPlace]] = MappingProxyType({})
    spent: int = 0


NOTHING = Supposition()


def settled(
    trace: Trace, play: Callable[[Supposition], ReplayResult], open_steps: list[int], *, judged: bool
) -> ReplayResult:
    """Return the replay under the supposition that agrees best. ``open_steps``: steps with an unrecorded time;
    ``judged``: verdicts are compared, too."""
    acting = [step.number for step in trace.steps if step.acts]
    case: Supposition | None = NOTHING
    best: ReplayResult | None = None
    agreeing: list[ReplayResult] = []
    tried = 0
    work = 0
    while case is not None and tried < MOST and work <= ORDER_WORK.now:
        found, tried = play(case._replace(spent=work)), tried + 1
        work += found.work
        best = found if best is None or found.steps_agree > best.steps_agree else best
        if found.first is None and found.unsearched is None:
            agreeing.append(found)
            case = _other_way(case, found, acting) if judged and len(agreeing) <= OTHERS else None
        else:
            case = _other_numbers(case, found) or _other_way(case, found, acting if agreeing else open_steps)
    assert best is not None
    if not agreeing:
        if case is not None and best.first is not None:
            best.leave_differences_open(SUPPOSITIONS_LEFT.format(tried))
        return best
    first = agreeing[0]
    for step in first.verdicts:
        if any(one.verdicts[step] != first.verdicts[step] for one in agreeing):
            first.leave_open(step, "the verdict depends on when a slot action of a group was done")
    return first


def _other_numbers(case: Supposition, found: ReplayResult) -> Supposition | None:
    """Return the supposition with other uninitialised numbers, None if none is suggested: a number that decided
    something becomes large; a logged number becomes the recorded value."""
    if more := sorted(found.unset - case.unset.keys()):
        large = {number: LARGE + len(case.unset) + i for i, number in enumerate(more)}
        return case._replace(unset={**case.unset, **large}, places={})
    ours, recorded = (_logged(found, name) for name in ("ours", "recorded"))
    supposed, n_tokens = ours.pop("n_tokens", None), recorded.pop("n_tokens", 0)
    logged = [number for number, value in case.unset.items() if value == supposed]
    if not logged or ours != recorded:
        return None
    return case._replace(unset={**case.unset, logged[0]: n_tokens}, places={})


def _logged(found: ReplayResult, name: str) -> dict[str, Any]:
    event = (found.first or {}).get(name)
    return dict(event) if isinstance(event, Mapping) else {}


def _other_way(case: Supposition, found: ReplayResult, steps: list[int]) -> Supposition | None:
    """Return the supposition in which the last of these steps before the first difference takes another order, None if
    there was no such step. If the difference is in such a step, all its agreeing orders were tried."""
    wrong = found.unsearched if found.first is None else found.first["step"]
    before = [step for step in steps if wrong is None or step < wrong]
    if not before:
        return None
    last = before[-1]
    kept = {step: n for step, n in case.passed.items() if step < last}
    places = {step: place for step, place in case.places.items() if step < last}
    if last in found.places:
        places[last] = found.places[last]
    return case._replace(passed={**kept, last: case.passed.get(last, 0) + 1}, places=places)
