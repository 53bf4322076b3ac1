"""Comparison of a stored copy with a cold run, row by row and state by state.

Only data that the next token would read counts: the last ``window - 1`` positions of a window, every position of full
attention, the state of a recurrent layer; of an object that several conversations share, only its own range.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np

from cachesim.engines.inspection import RowsPart, StatePart, StoredObject
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.verdict import CORRECT, Verdict, wrong
from cachesim.model import KVRows, LayerState, same_state
from cachesim.model.store import layer_of


class ColdMemory(Protocol):
    """Rows by position and states by length, as a cold run has them."""

    def rows(self, layer: int) -> KVRows:
        """Return the K/V rows of an attention layer by position."""

    def state_at(self, layer: int, n: int) -> LayerState | None:
        """Return the state of a recurrent layer after n tokens."""


def compare_stored(stored: StoredObject, cold: ColdMemory) -> Verdict:
    """Compare a stored object with the cold run of its tokens (or of a longer list that begins with them)."""
    n = stored.resume
    if stored.state is not None and not (verdict := _states(stored.state, cold, n)).equal_cold:
        return verdict
    verdicts = (_rows(part, cold, n, stored.start) for part in stored.rows)
    return next((verdict for verdict in verdicts if not verdict.equal_cold), CORRECT)


def _states(state: StatePart, cold: ColdMemory, n: int) -> Verdict:
    if state.pos != n - 1:
        return wrong("provenance", FaultKind.STATE_ELSEWHERE, n - 1, position=int(state.pos), wanted=n - 1)
    for layer, held in state.rows.items():
        want = cold.state_at(layer, n)
        if not same_state(held, want):
            same = same_state(digests_only(held), digests_only(want))
            rung = "bits" if same else "provenance"
            return wrong(rung, FaultKind.STATE, n - 1, layer=layer, tokens=n)
    return CORRECT


def digests_only(state: LayerState | None) -> LayerState | None:
    """Return the state without its numbers; None for None."""
    return None if state is None else state._replace(conv_x=None, h=None)


def _rows(part: RowsPart, cold: ColdMemory, n: int, start: int) -> Verdict:
    n, start = n // part.every, start // part.every
    first = max(start, n - part.window + 1) if part.window else start
    want = np.arange(first, n)
    order: np.ndarray | slice = slice(None)
    if part.pos.tobytes() != want.tobytes():                 # not exactly the wanted rows in their order
        order = _order(part.pos, first, n)
        have = part.pos[order]
        if len(have) != len(want) or (have != want).any():
            missing = np.setdiff1d(want, have)
            where = int(missing[0]) if len(missing) else -1
            verdict = wrong("provenance", FaultKind.ROWS_MISSING, where, rows=len(missing), position=where)
            return _at_tokens(verdict, part.every)
    verdicts = (_layer_rows(layer, rows, order, cold.rows(layer), first, n) for layer, rows in part.rows.items())
    return next((_at_tokens(verdict, part.every) for verdict in verdicts if not verdict.equal_cold), CORRECT)


def _at_tokens(verdict: Verdict, every: int) -> Verdict:
    """Return the verdict with the position of the last token of a row that stands for several."""
    if "position" not in verdict.numbers:
        return verdict
    where = (verdict.numbers["position"] + 1) * every - 1
    return replace(verdict, numbers={**verdict.numbers, "position": where}, where=where)


def _order(pos: np.ndarray, first: int, n: int) -> np.ndarray:
    """Return the indices of the rows at positions first .. n-1, ascending."""
    order = np.argsort(pos, kind="stable")
    return order[(pos[order] >= first) & (pos[order] < n)]


def _layer_rows(layer: int, rows: KVRows, order: np.ndarray | slice, want: KVRows, first: int, n: int) -> Verdict:
    held, wanted = rows.digest[order], want.digest[first:n]
    if held.tobytes() != wanted.tobytes():
        where = first + int(np.flatnonzero(held != wanted)[0])
        return wrong("provenance", FaultKind.ROW, where, layer=layer_of(layer), position=where)
    for mine, theirs in ((rows.k, want.k), (rows.v, want.v)):
        if mine is not None and theirs is not None and not np.array_equal(mine[order], theirs[first:n]):
            return wrong("bits", FaultKind.ROW_BITS, layer=layer_of(layer))
    return CORRECT
