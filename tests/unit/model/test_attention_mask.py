"""Tests that visibility depends only on positions, whatever rows a memory returns."""

import numpy as np
import pytest

from cachesim.model.attention_mask import ByPosition, MaskView, StretchView, View

CASES = {
    "from the start": ([0, 1, 2], [0, 1, 2]),
    "appended": ([0, 1, 2, 3, 4], [3, 4]),
    "hole before": ([0, 1, 7, 8], [7, 8]),
    "stale rows after": ([0, 1, 2, 3, 9, 10], [2, 3]),
    "own row missing": ([0, 1, 3], [2, 3]),
    "own row twice": ([0, 1, 2, 2, 3], [2, 3]),
    "one own row twice, one missing": ([0, 1, 2, 2, 4], [2, 3, 4]),
    "nothing there": ([], [4, 5]),
    "one token": ([0, 1, 2, 3], [3]),
}


def is_seen(key: int, query: int, window: int) -> bool:
    """True if a token at ``query`` sees a row at ``key``; ``window`` < 0: chunks of so many positions."""
    if window < 0:
        return key <= query and key // -window == query // -window
    return key <= query and not (window and query - key >= window)


@pytest.mark.parametrize("window", [0, 1, 2, 3, 100, -1, -2, -3, -100])
@pytest.mark.parametrize("case", CASES)
def test_sees_what_the_rule_says(case: str, window: int) -> None:
    positions, asked = (np.array(part, np.int64) for part in CASES[case])
    digest = np.arange(1, len(positions) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    view = View(positions, asked)
    seen = [
        [i for i, key in enumerate(positions) if is_seen(key, query, window)]
        for query in asked
    ]
    visible = view.visible(window)
    assert [list(range(lo, hi)) for lo, hi in zip(visible.lo, visible.hi, strict=True)] == seen
    wanted = [sum(int(digest[i]) for i in rows) % 2**64 for rows in seen]
    assert view.visible_sum(digest, window).tolist() == wanted


def test_without_a_window_a_token_sees_all_rows_before_it_and_nothing_is_divided() -> None:
    with np.errstate(all="raise"):
        visible = View(np.array([-2, 0, 3, 9]), np.array([3, 4])).visible(0)
    assert (visible.lo.tolist(), visible.hi.tolist()) == ([0, 0], [3, 3])


def test_bounds_are_found_once() -> None:
    view = View(np.arange(9), np.arange(5, 9))
    assert view.visible(3) is view.visible(3)


@pytest.mark.parametrize("window", [0, 1, 4, 100, -4, -7])
@pytest.mark.parametrize("n, t", [(1, 1), (9, 1), (9, 4), (9, 9)])
def test_a_stretch_shows_what_its_positions_would(n: int, t: int, window: int) -> None:
    digest = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    first = 20 if window >= 0 else 0                                 # chunks are counted from position 0
    known, looked = StretchView(n, t), View(np.arange(first, first + n), np.arange(first + n - t, first + n))
    assert [bound.tolist() for bound in known.visible(window)] == [bound.tolist() for bound in looked.visible(window)]
    assert [*known.ranges(window)] == [*looked.ranges(window)]
    assert known.visible_sum(digest, window).tolist() == looked.visible_sum(digest, window).tolist()
    assert known.tail and looked.tail


def test_rows_have_the_positions_of_the_view() -> None:
    positions, asked = np.array([3, 4, 9]), np.array([9])
    assert View(positions, asked).places(asked).tolist() == [3, 4, 9]
    assert StretchView(3, 1).places(np.array([9])).tolist() == [7, 8, 9]
    assert StretchView(4, 2).places(np.array([8, 9])).tolist() == [6, 7, 8, 9]


@pytest.mark.parametrize("window", [0, 2, -2])
def test_the_ranges_of_a_mask_do_not_depend_on_the_window(window: int) -> None:
    view = MaskView(np.array([0, 1]), np.array([2, 4]), 4)
    assert [bound.tolist() for bound in view.visible(window)] == [[0, 1], [2, 4]]
    assert view.visible_sum(np.array([1, 10, 100, 2**64 - 1], np.uint64), window).tolist() == [11, 109]
    assert not view.tail and (view.n, view.t) == (4, 2)


@pytest.mark.parametrize(("positions", "asked", "tail"), [
    ([0, 1, 2], [2], True), ([0, 2, 2], [2], False), ([2], [2], True), ([0, 1, 3], [2], False), ([], [2], False),
    ([0, 2, 3], [2, 3], True), ([2, 3], [2, 3], True), ([2, 2, 3], [2, 3], False), ([3], [2, 3], False),
    ([0, 2, 4], [2, 3], False), ([5, 2, 3], [2, 3], False),
])  # fmt: skip
def test_own_rows_are_a_tail_if_they_are_last_complete_and_unique(positions, asked, tail) -> None:
    assert View(np.array(positions, np.int64), np.array(asked)).tail is tail


def test_a_store_of_positions_shows_what_they_say() -> None:
    class Store(ByPosition):
        def positions(self, part, run):
            return np.arange(run) + len(part)

    view = Store().view("base", 3, np.array([6]))
    assert view.positions.tolist() == [4, 5, 6] and view.asked.tolist() == [6] and view.tail
