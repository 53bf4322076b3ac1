"""Clean parts of a restore point: the lengths at which evaluation could resume without reading a foreign token."""

from __future__ import annotations

from typing import Iterable, Iterator, Mapping, Sequence

import numpy as np

from cachesim.engines.inspection import RestorePoint, RowsPart, StatePart, StoredContent
from cachesim.oracle.cold_run import ColdRun

Span = tuple[int, int]


def clean_spans(
    point: RestorePoint, stored: StoredContent, foreign: Mapping[int, Iterable[int]], cold: ColdRun
) -> tuple[Span, ...]:
    """Return the spans lo .. hi of the point's lengths at which everything that the next token reads equals a cold
    run's, ascending; their ends are lengths of the point; () without clean lengths. ``foreign``: positions of rows that
    differ from the cold run, by window (0 = full attention). Compares provenance only."""
    if point.lo > point.hi or (stored.state is not None and not clean_state(stored.state, cold, point.hi)):
        return ()
    hidden = [(q + 1, q + window - 1 if window else point.hi)
              for window, positions in foreign.items() for q in positions if q < point.hi]  # fmt: skip
    hidden.sort()
    spans = tuple(_without(hidden, point.lo, point.hi))
    return spans if point.step == 1 else tuple(_on_grid(spans, point.lo, point.step))


def clean_state(state: StatePart, cold: ColdRun, n: int) -> bool:
    """True if these are the states of a cold run after n tokens."""
    for layer, held in state.rows.items():
        want = cold.state_at(layer, n)
        if held is None or held.hash != want.hash or held.conv.tobytes() != want.conv.tobytes():
            return False
    return True


def _without(seen: Iterable[Span], lo: int, hi: int) -> Iterator[Span]:
    """Yield lo .. hi without the ``hidden`` spans, which are ascending; a span with last < first is empty."""
    for first, last in seen:
        if lo < first <= last:
            yield lo, first - 1
        lo = max(lo, last + 1) if first <= last else lo
    if lo <= hi:
        yield lo, hi


def _on_grid(spans: Iterable[Span], lo: int, step: int) -> Iterator[Span]:
    """Yield the spans cut to the lengths lo, lo + step, ... that they contain."""
    for first, last in spans:
        first, last = lo - (lo - first) // step * step, lo + (last - lo) // step * step
        if first <= last:
            yield first, last


def foreign_positions(
    point: RestorePoint, stored: StoredContent, cold: ColdRun, earlier: Mapping[int, Sequence[int]]
) -> dict[int, list[int]]:
    """Return the positions of rows that differ from the cold run, by window, without windows that have none.
    ``earlier``: those of the point that this point extends. They stay foreign before ``point.start``, but of a window
    only before its first row."""
    found: dict[int, list[int]] = {}
    if earlier:
        first = {part.window: int(part.pos.min()) for part in stored.rows if len(part.pos) and part.every == 1}
        for window, positions in earlier.items():
            stop = min(point.start, first.get(window, point.start))
            if kept := [q for q in positions if q < stop]:
                found[window] = kept
    for part in stored.rows:
        if own := foreign_rows(part, cold, point.n):
            found[part.window] = found.get(part.window, []) + own
    return found


def foreign_rows(part: RowsPart, cold: ColdRun, n: int) -> list[int]:
    """Return the positions below n whose row differs from the cold run's, ascending; of a row that stands for several
    tokens, that of the last."""
    pos, n = part.pos, n // part.every
    if not len(pos):
        return []
    mine: np.ndarray | slice = slice(None)
    first, stop = pos.item(0), pos.item(0) + len(pos)
    if stop <= n and pos.tobytes() == np.arange(first, stop).tobytes():
        at: np.ndarray | slice = slice(first, stop)             # the common case: a stretch without holes
        if all(rows.digest.tobytes() == cold.rows(layer).digest[at].tobytes() for layer, rows in part.rows.items()):
            return []
    else:
        mine = pos < n
        at = pos = pos[mine]
    wrong = np.zeros(len(pos), dtype=bool)
    for layer, rows in part.rows.items():
        wrong |= rows.digest[mine] != cold.rows(layer).digest[at]
    return sorted(((pos[wrong] + 1) * part.every - 1).tolist())
