"""From which lengths could evaluation go on without a foreign token? Cuts a restore point down to its clean parts."""

from __future__ import annotations

from typing import Iterable, Iterator

import numpy as np

from cachesim.engines.judge_view import Point, RowsPart
from cachesim.oracle import ColdRun

Span = tuple[int, int]


def clean_spans(point: Point, cold: ColdRun) -> tuple[Span, ...]:
    """The stretches lo .. hi of the point's lengths at which everything that the next token reads is a cold run's,
    ascending, with ends that are lengths of the point; () = there is none. Looks at provenance only."""
    state = point.stored.state
    if state is not None:
        for layer, held in state.rows.items():
            want = cold.state_at(layer, point.hi)
            if held is None or held.hash != want.hash or not np.array_equal(held.conv, want.conv):
                return ()
    seen = sorted(
        (q + 1, q + part.window - 1 if part.window else point.hi)
        for part in point.stored.rows for q in _foreign(part, cold, point.hi)
    )
    spans = tuple(_without(seen, point.lo, point.hi))
    return spans if point.step == 1 else tuple(_on_grid(spans, point.lo, point.step))


def _without(seen: Iterable[Span], lo: int, hi: int) -> Iterator[Span]:
    """What is left of lo .. hi without these stretches, which come in ascending order; last < first is an empty one."""
    for first, last in seen:
        if lo < first <= last:
            yield lo, first - 1
        lo = max(lo, last + 1) if first <= last else lo
    if lo <= hi:
        yield lo, hi


def _on_grid(spans: Iterable[Span], lo: int, step: int) -> Iterator[Span]:
    """The spans cut back to the lengths lo, lo + step, .. that lie in them."""
    for first, last in spans:
        first, last = lo - (lo - first) // step * step, lo + (last - lo) // step * step
        if first <= last:
            yield first, last


def _foreign(part: RowsPart, cold: ColdRun, n: int) -> list[int]:
    """Positions below n whose row is not a cold run's, ascending."""
    mine = part.pos < n
    pos = part.pos[mine]
    wrong = np.zeros(len(pos), dtype=bool)
    for layer, rows in part.rows.items():
        wrong |= rows.digest[mine] != cold.rows(layer).digest[pos]
    return sorted(int(q) for q in pos[wrong])
