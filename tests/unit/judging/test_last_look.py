"""Is what is new since the last look found, and nothing looked at twice?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.base.errors import Crash
from cachesim.engines.judge_view import Point, RowsPart, Shelf, StatePart, Stored
from cachesim.events import Changed
from cachesim.judging import last_look
from cachesim.judging.last_look import ENOUGH, Remembered, differing
from cachesim.judging.lost_tokens import Ledger
from cachesim.judging.texts import Texts
from cachesim.model import LayerState, Rows

SHELVES = [Shelf((n,), ()) for n in range(5)]
LISTS = st.lists(st.sampled_from(SHELVES), unique=True)
TOKENS = tuple(range(100, 120))


def state(n):
    """A recurrent state with this hash."""
    return LayerState(np.zeros(2, np.uint64), n, None, None)


class Cold:
    """A cold run whose row at position p has the digest p, and whose state after n tokens the hash n."""

    def __init__(self):
        self.asked = 0

    def rows(self, layer):
        return Rows(np.arange(30, dtype=np.uint64), None, None)

    def state_at(self, layer, n):
        self.asked += 1
        return state(n)


@given(LISTS, LISTS)
def test_shelves_that_came_and_those_that_went_are_told_in_order(was, now):
    gone, came = differing(was, now)
    assert gone == [one for one in was if one not in now]
    assert came == [one for one in now if one not in was]


def test_a_state_is_compared_once_for_each_place():
    known, cold, texts = Remembered(), Cold(), Texts()
    place, other = texts.place(TOKENS[:5], 0), texts.place(TOKENS[:6], 0)
    held = StatePart(4, {0: state(5)})
    assert known.clean(held, cold, place) and known.clean(held, cold, place)
    assert cold.asked == 1
    assert not known.clean(held, cold, other)                           # the same state after six tokens
    assert not known.clean(StatePart(4, {0: state(7)}), cold, place)    # another state after five
    assert not known.clean(StatePart(4, {0: None}), cold, place)
    assert cold.asked == 4
    assert known.clean(held, cold, texts.place((*TOKENS[:4], 1), 0)) and cold.asked == 5        # five other tokens


def test_states_that_are_forgotten_are_compared_again_and_not_mixed_up():
    known, cold, place = Remembered(), Cold(), Texts().place(TOKENS[:5], 0)
    first = StatePart(4, {0: state(5)})
    assert known.clean(first, cold, place)
    for _ in range(3 * ENOUGH):
        assert not known.clean(StatePart(4, {0: state(8)}), cold, place)    # each of them a new object
    before = cold.asked
    assert known.clean(first, cold, place) and cold.asked == before + 1
    assert len(known.recent) + len(known.older) <= 2 * ENOUGH


def rows(start, stop, wrong=()):
    return RowsPart(0, np.arange(start, stop), {0: Rows(np.array(
        [q + 1000 * (q in wrong) for q in range(start, stop)], np.uint64), None, None)})  # fmt: skip


def shelf(n, wrong=(), before=None, same=0, points=()):
    """A slot of n tokens, some rows of which are not a cold run's."""
    part = rows(same, n, wrong)
    live = Point(Stored("slot", 0, TOKENS[:n], n, (part,), None, same), 1, n)
    return Shelf(TOKENS[:n], (live,), before, same, part, tuple(points))


class Looks:
    """A ledger to which shelves are shown. ``covers``: may it go on with the cold run that it has?"""

    def __init__(self, covers=True):
        self.now, self.colds = [], []
        self.ledger = Ledger(look=lambda: self.now, cold=self.cold, believed=lambda slot: TOKENS,
                             covers=lambda run, tokens, same: covers)  # fmt: skip

    def cold(self, tokens):
        self.colds.append(len(tokens))
        return Cold()

    def show(self, *shelves):
        """What is usable now: lengths of tokens, lo, hi."""
        self.now = shelves
        self.ledger.hear(Changed(0, "evaluated", ""))
        return sorted((one.place.n, one.lo, one.hi) for one in self.ledger.present.values())


@pytest.mark.parametrize("covers", [True, False])
def test_a_slot_that_goes_on_is_what_a_new_one_would_be(covers):
    looks, fresh = Looks(covers), Looks(covers)
    first = shelf(6, {2, 4})
    assert looks.show(first) == [(6, 1, 2)] == fresh.show(shelf(6, {2, 4}))
    longer = shelf(9, (), first, 6)
    assert looks.show(longer) == fresh.show(shelf(9, {2, 4})) == [(9, 1, 2)]
    cut = shelf(8, {7}, longer, 4)                                  # back to four tokens, then on with others
    assert looks.show(cut) == fresh.show(shelf(8, {2, 7})) == [(8, 1, 2)]
    mended = shelf(8, (), cut, 2)
    assert looks.show(mended) == fresh.show(shelf(8)) == [(8, 1, 8)]
    assert looks.colds == ([6] if covers else [6, 9, 8, 8])
    assert [one.lost is None for one in looks.ledger.present.values()] == [True]


def test_a_point_that_is_still_there_is_not_looked_at_again(monkeypatch):
    looks, asked = Looks(), []
    plain = last_look.clean_rows
    monkeypatch.setattr(last_look, "clean_rows", lambda point, foreign: asked.append(point) or plain(point, foreign))
    part = rows(0, 6, {4})
    kept = Point(Stored("checkpoint", 0, TOKENS[:3], 3, (part,), None), 3, 3)
    first = Shelf(TOKENS[:6], (), None, 0, part, (kept,))
    assert looks.show(first) == [(3, 3, 3)]
    [known] = looks.ledger.present.values()
    second = shelf(7, (), first, 4, (kept,))
    assert looks.show(second) == [(3, 3, 3), (7, 1, 7)]
    assert asked.count(kept) == 1 and known in looks.ledger.present.values() and known.seen == 1
    assert looks.show(shelf(7)) == [(7, 1, 7)]
    assert known.lost is not None and known.seen == 0


def test_a_point_on_two_shelves_is_lost_with_the_second():
    looks = Looks()
    one, other = shelf(5), shelf(5)
    looks.show(one, other)
    [known] = looks.ledger.present.values()
    assert known.seen == 2
    looks.show(other)
    assert known.lost is None
    looks.show()
    assert known.lost is not None and not looks.ledger.present


def test_what_goes_on_from_an_unknown_shelf_is_refused():
    looks, unseen = Looks(), shelf(6)
    with pytest.raises(Crash, match="has not seen"):
        looks.show(shelf(7, (), unseen, 6))
