"""From which lengths could evaluation go on without a foreign token? Cuts a restore point down to its clean part."""

from __future__ import annotations

import numpy as np

from cachesim.engines.view import Point, RowsPart
from cachesim.oracle import ColdRun


def clean_span(point: Point, cold: ColdRun) -> tuple[int, int] | None:
    """(lo, hi) of the point's lengths at which everything that the next token reads is a cold run's; None = nowhere.
    Looks at provenance only."""
    lo, hi = point.lo, point.hi
    state = point.stored.state
    if state is not None:
        for layer, held in state.rows.items():
            want = cold.state_at(layer, hi)
            if held is None or held.hash != want.hash or not np.array_equal(held.conv, want.conv):
                return None
    for part in point.stored.rows:
        for q in _foreign(part, cold, hi):
            if part.window and q <= hi - part.window:
                lo = max(lo, q + part.window)       # out of sight from here on
            else:
                hi = min(hi, q)
    return (lo, hi) if lo <= hi else None


def _foreign(part: RowsPart, cold: ColdRun, n: int) -> list[int]:
    """Positions below n whose row is not a cold run's, ascending."""
    mine = part.pos < n
    pos = part.pos[mine]
    wrong = np.zeros(len(pos), dtype=bool)
    for layer, rows in part.rows.items():
        wrong |= rows.digest[mine] != cold.rows(layer).digest[pos]
    return sorted(int(q) for q in pos[wrong])
