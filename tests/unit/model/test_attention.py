"""Tests of attention: reading the given rows, masking by position, independence of the blocking."""

import numpy as np
import pytest

from cachesim.base.errors import BadInput
from cachesim.model import KVRows
from cachesim.model.attention import SCORE, attend
from cachesim.model.attention_mask import View
from cachesim.model.grid import ROPE_UNIT, UNIT, Values


def some(n: int, heads: int, unit: float, seed: int) -> Values:
    return np.rint(np.random.default_rng(seed).standard_normal((n, heads, 16)) / unit)


def case(t: int, n: int) -> tuple[Values, KVRows]:
    rows = KVRows(np.zeros(n, np.uint64), some(n, 2, ROPE_UNIT, 1), some(n, 2, UNIT, 2))
    return some(t, 4, ROPE_UNIT, 3) * SCORE, rows


def textbook(q: Values, rows: KVRows, positions: list[int], asked: list[int], window: int) -> Values:
    """Return softmax(q.k / 4) v, with the library's exp."""
    assert rows.k is not None and rows.v is not None
    k, v = (np.repeat(x, 2, axis=1) for x in (rows.k * ROPE_UNIT, rows.v * UNIT))
    scores = np.einsum("thd,nhd->htn", q / SCORE * ROPE_UNIT, k) / 4.0
    distance = np.array(asked)[:, None] - np.array(positions)
    scores[:, (distance < 0) | ((window > 0) & (distance >= window))] = -np.inf
    p = np.exp(scores - scores.max(axis=2, keepdims=True))
    return np.einsum("htn,nhd->thd", p / p.sum(axis=2, keepdims=True), v).reshape(len(q), 64)


@pytest.mark.parametrize("window", [0, 1, 5, 64])
def test_it_is_attention(window: int) -> None:
    """Accuracy: near the textbook formula, as far as rounded scores allow."""
    q, rows = case(40, 100)
    positions, asked = list(range(100)), list(range(60, 100))
    found = attend(q, rows, View(np.array(positions), np.array(asked)).visible(window)) * UNIT
    assert np.abs(found - textbook(q, rows, positions, asked, window)).max() < 2e-3


@pytest.mark.parametrize("window", [0, 1, 7, 50])
def test_blocks_do_not_matter(window: int) -> None:
    q, rows = case(70, 190)
    visible = View(np.arange(190), np.arange(120, 190)).visible(window)
    whole = attend(q, rows, visible)
    assert all((attend(q[i : i + 1], rows, _one(visible, i))[0] == whole[i]).all() for i in range(70))


def _one(visible: object, i: int) -> object:
    return type(visible)(visible.lo[i : i + 1], visible.hi[i : i + 1])      # type: ignore[attr-defined, call-arg]


def test_a_hidden_row_does_not_matter_and_a_visible_one_does() -> None:
    q, rows = case(1, 10)
    positions = np.array([0, 1, 2, 3, 4, 5, 6, 20, 21, 22])
    view = View(positions, np.array([6]))
    before = attend(q, rows, view.visible(3))
    for row, matters in ((0, False), (3, False), (4, True), (6, True), (7, False), (9, False)):
        assert rows.k is not None and rows.v is not None
        changed = KVRows(rows.digest, rows.k.copy(), rows.v.copy())
        changed.v[row] += 2.0**20                                           # type: ignore[index]
        assert (attend(q, changed, view.visible(3)) == before).all() != matters


def test_nothing_to_see_is_zero() -> None:
    q, rows = case(3, 4)
    view = View(np.array([10, 11, 12, 13]), np.array([2, 3, 10]))
    found = attend(q, rows, view.visible(0))
    assert rows.v is not None and (found[:2] == 0).all()
    assert (found[2].reshape(4, 16) == np.repeat(rows.v[0], 2, axis=0)).all()       # a visible row: its V, by head
    empty = KVRows(np.zeros(0, np.uint64), np.zeros((0, 2, 16)), np.zeros((0, 2, 16)))
    assert (attend(q, empty, View(np.zeros(0, np.int64), np.array([2, 3, 10])).visible(0)) == 0).all()


def test_provenance_rows_are_not_enough() -> None:
    q, rows = case(1, 3)
    with pytest.raises(BadInput):
        attend(q, KVRows(rows.digest, None, None), View(np.arange(3), np.array([2])).visible(0))
