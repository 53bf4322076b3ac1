"""Recompute ledger that also lists every lost checkpoint or passing state that a request could have resumed from.

The ledger charges re-evaluated tokens to the loss of the longest restore point alone. The loss of a shorter one was a
cause, too: without it, the request would have evaluated less.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, NamedTuple

from cachesim.base.tokens import Tokens
from cachesim.judging.recompute_ledger import RecomputeLedger, RequestLedger
from cachesim.judging.restore_point_index import KnownPoint, find_best_point
from cachesim.judging.token_radix import RadixPlace

MOST = 200  # lost restore points of a kind for a request


class LostPoint(NamedTuple):
    """A lost restore point after the first ``reach`` tokens of a request's prompt: cause, rule and request of its loss.
    """

    reach: int
    event: str
    rule: str
    at: int
    kind: str


@dataclass
class PointLedger(RecomputeLedger):
    """Recompute ledger with the removed checkpoints of each request."""

    lost_points: dict[int, list[LostPoint]] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)  # requests with a wrong answer: their restore points are unknown

    def settle(self, request: int, slot: int, prompt: Tokens, n_past: int, wrong: bool) -> RequestLedger:
        start = self.starts.get(request, self.chosen)
        place, most = self.radix.longest_known(prompt), min(
            self._evaluated_prefix(prompt, start.evaluated), max(0, len(prompt) - 1)
        )

        self.lost_points[request] = [] if wrong else [
            *self._lost(place, most, n_past, start.clock, "checkpoint"),
            *self._lost(place, most, n_past, start.clock, "slot"),
        ]
        self.unknown |= {request} if wrong else set()
        return super().settle(request, slot, prompt, n_past, wrong)

    def _lost(self, place: RadixPlace, most: int, n_past: int, clock: int, kind: str) -> Iterator[LostPoint]:
        """Yield the points of a kind that were lost before a time, the longest first, each length once."""

        def worth(known: KnownPoint) -> tuple[int, ...] | None:
            gone = known.lost is not None and known.lost_clock <= clock
            return (known.lost_at,) if gone and known.kind == kind and known.born <= clock else None

        for _ in range(MOST):
            point, reach = find_best_point(place, most, worth)
            if point is None or point.lost is None or reach <= n_past:
                return
            cause = "advanced" if point.lost.cause == "evaluated" else point.lost.cause
            yield LostPoint(reach, cause, point.lost.rule, point.lost_at, kind)
            most = reach - 1
