"""Tests that the index finds the same restore point as a scan of all points."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from operator import sub
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachesim.base.tokens import common_prefix
from cachesim.engines.llama_cpp.rules.checkpoint_restore import CheckpointNeed
from cachesim.events import Decided, Lost
from cachesim.judging.restore_point_index import (
    MANY,
    KnownPoint,
    add_point,
    declining_rule,
    find_best_point,
    index_of,
    nearest_decline,
    record_decline,
)
from cachesim.judging.token_radix import RadixPlace, TokenRadix
from tests.unit.judging.ledger_story import LOAD, NEED, PICK, SELECT

TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=7).map(tuple)
POINTS = st.lists(st.tuples(TOKENS, st.integers(1, 7), st.integers(1, 7), st.integers(1, 3), st.integers(0, 2)),
                  max_size=14)  # fmt: skip
KEY = ("slot", 0, 0)
FAILS = "LC-MEDIA-CUT"
"""A rule that reacts to a failure."""


@settings(max_examples=50)
@given(POINTS, TOKENS, st.integers(0, 7))
def test_the_best_point_is_that_of_all_points(points, prompt, most):
    texts, every = TokenRadix(), []
    for number, (tokens, lo, hi, step, worth) in enumerate(points):
        lo, hi = min(lo, hi, len(tokens)), min(max(lo, hi), len(tokens))
        place = texts.place(tokens)
        last = lo + (hi - lo) // step * step
        known = KnownPoint(number, ("", 0, 0, 0, 0, 0), "slot", place, lo, last, step, 0, worth)
        every.append((tokens, known))
        add_point(known, lambda: -1)
    want, rank = None, (0, -1)
    for tokens, known in every:
        far = known.reach(min(most, common_prefix(tokens, prompt)))
        if far >= known.lo and known.owner and (far, known.owner) > rank:
            want, rank = known, (far, known.owner)
    found = find_best_point(texts.longest_known(prompt), most, lambda one: (one.owner,) if one.owner else None)
    assert found == (want, rank[0])


def drawn_list(rng, lists, most):
    """Return a prefix of a former list, or nothing, followed by some tokens."""
    begin = rng.choice(lists)[: rng.randint(0, 5)] if lists else ()
    return (*begin, *(rng.randint(0, 1) for _ in range(rng.randint(1, most))))


def drawn_points(rng, texts, lists):
    """Yield restore points of conversations that share prefixes, each with its tokens. Half of them have a single
    length."""
    for number in range(rng.randint(1, 10)):
        lists.append(tokens := drawn_list(rng, lists, 3))
        place = texts.place(tokens)
        if rng.random() < 0.8:
            lo, hi = sorted(rng.choices(range(1, len(tokens) + 1), k=2))
            hi, step = rng.choice([lo, hi]), rng.choice([1, 1, 2])
            hi -= (hi - lo) % step
            yield tokens, KnownPoint(number, ("", 0, 0, 0, 0, 0), "", place, lo, hi, step, 0, rng.randint(0, 2))


def test_the_best_point_is_that_of_all_points_of_a_tree():
    """If two points reach equally far, the higher rank wins, then the first: on the node itself, on a branch, or on an
    ancestor."""
    ties = 0
    for seed in range(800):
        rng, texts, lists = Random(seed), TokenRadix(), []
        every = list(drawn_points(rng, texts, lists))
        for _, known in every:
            add_point(known, lambda: -1)
        prompt, most = drawn_list(rng, lists, 2), rng.randint(0, 8)
        ranked = [((far, known.owner, -known.number), known) for tokens, known in every
                  if (far := known.reach(min(most, common_prefix(tokens, prompt)))) >= known.lo and known.owner]
        want = max(ranked, key=lambda pair: pair[0], default=((0,), None))
        ties += sum(rank[:2] == want[0][:2] for rank, _ in ranked) > 1
        found = find_best_point(texts.longest_known(prompt), most, lambda one: (one.owner,) if one.owner else None)
        assert found == (want[1], want[0][0])
    assert ties > 80


@settings(max_examples=50)
@given(st.lists(TOKENS, max_size=8), TOKENS, st.integers(0, 7))
def test_the_nearest_decline_is_that_of_all(lists, prompt, most):
    texts = TokenRadix()
    for number, tokens in enumerate(lists):
        record_decline(texts.place(tokens), str(number))
    near = [(len(one), -number) for number, one in enumerate(lists) if one == prompt[: len(one)] and len(one) <= most]
    assert nearest_decline(texts.longest_known(prompt), most) == (str(-max(near)[1]) if near else "")


def history(rng, wait):
    """Points of a conversation that come and go; no request began more than ``wait`` before the present time."""
    place, every = TokenRadix().place((1,) * 6), []
    for number in range(rng.choice([20, 40, 70])):
        lo, hi, step = rng.choice([(4, 4, 1), (2, 6, 1), (2, 6, 2), (3, 6, 1), (1, 5, 2), (1, 3, 1)])
        durable = rng.choice([False, False, True])
        known = KnownPoint(number, ("", 0, 0, 0, 0, 0), "", RadixPlace(place.node, hi), lo, hi, step, born=number,
                           is_durable=durable, has_rested=rng.random() < 0.3)  # fmt: skip
        add_point(known, past=partial(sub, number, wait))
        every.append(known)
        for one in every:
            if one.lost is None and rng.random() < 0.4:
                one.lost, one.lost_clock, one.lost_at = Lost(0, KEY, "erased", ""), number, number // 9
    return place, every


@pytest.mark.parametrize("wait", [0, 3, 15])
def test_what_is_forgotten_would_never_have_been_found(wait):
    dropped = 0
    for seed in range(20):
        place, every = history(Random(seed), wait)
        kept = [*index_of(place.node).ranged, *index_of(place.node).single.get(4, [])]
        dropped += len(every) - len(kept)
        for start, most, lasting in product(range(len(every) - wait, len(every) + 1), range(1, 7), (False, True)):

            def worth(known, start=start, lasting=lasting):
                if known.born > start or (lasting and not known.is_lasting):
                    return None
                return known.lost is None or known.lost_clock > start, known.is_durable, known.lost_at

            ranked = [((far, *worth(one), -one.number), one) for one in every
                      if (far := one.reach(min(most, one.place.n))) >= one.lo and worth(one) is not None]  # fmt: skip
            want = max(ranked, key=lambda pair: pair[0], default=((0,), None))
            assert find_best_point(RadixPlace(place.node, 6), most, worth) == (want[1], want[0][0])
    assert dropped > 100


def ranged(number, place, lo, hi):
    return KnownPoint(number, ("", 0, 0, 0, 0, 0), "slot", place, lo, hi, 1, born=0)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_every_branch_that_leaves_behind_the_prompt_is_searched(order):
    """Two lists part behind the end of the common prefix; one of them is usable there."""
    texts = TokenRadix()
    texts.place((1, 2, 5, 6))
    texts.place((1, 2, 7, 8))
    lists = [(1, 2, 7, 8, 9), (1, 2, 7, 4, 4)]
    places = [texts.place(lists[at]) for at in order]
    near, far = (places[order.index(at)] for at in (0, 1))
    points = ranged(0, near, 1, 5), ranged(1, far, 4, 5)
    for known in points:
        add_point(known, lambda: -1)
    found = find_best_point(texts.longest_known((1, 2, 3)), 5, lambda known: (0,))
    assert found == (points[0], 2)


@pytest.mark.parametrize("order", [(3, 1), (1, 3)])
def test_a_branch_without_a_usable_point_hides_no_other_one(order):
    """A list has two continuations. The prompt ends before them, where only one is usable."""
    texts = TokenRadix()
    texts.place((1, 2, 5, 6))
    texts.place((1, 2, 7, 8, 9))
    points = []
    for lo in order:
        points.append(ranged(lo, texts.place((1, 2, 7, lo, lo)), lo, 5))
        add_point(points[-1], lambda: -1)
    found = find_best_point(texts.longest_known((1, 2)), 5, lambda known: (0,))
    assert found == (points[order.index(1)], 2)


def test_points_that_were_lost_long_ago_are_not_kept():
    texts = TokenRadix()
    place = texts.place(tuple(range(6)))
    for number in range(1000):
        for lo in (3, 6):
            known = KnownPoint(number, ("", 0, 0, 0, 0, 0), "slot", place, lo, 6, 1, born=number)
            add_point(known, past=partial(sub, number, 1))
            known.lost, known.lost_clock, known.lost_at = Lost(0, KEY, "evaluated", ""), number, number
    notes = index_of(place.node)
    assert len(notes.ranged) < 2 * MANY and len(notes.single[6]) < 2 * MANY


def point(lost_at=-1, lost_clock=-1, **fields):
    """Return a point; ``lost_at``: request that removed it."""
    lost = Lost(0, KEY, "erased", "R") if lost_at >= 0 else None
    known = KnownPoint(0, ("", 0, 0, 0, 0, 0), "slot", place=None, lo=4, hi=12, step=1, born=0)
    return replace(known, lost=lost, lost_at=lost_at, lost_clock=lost_clock, **fields)


@pytest.mark.parametrize("step, most, reach", [(1, 20, 12), (1, 7, 7), (1, 3, 3), (3, 20, 10), (3, 9, 7), (3, 3, 1),
                                              (2, 7, 6), (2, 6, 6)])  # fmt: skip
def test_a_point_reaches_its_longest_usable_length(step, most, reach):
    assert replace(point(), step=step).reach(most) == reach


@pytest.mark.parametrize("known, is_lasting", [
    (point(), True), (point(lost_at=1, is_durable=False), False), (point(is_durable=False), True),
    (point(lost_at=1, is_durable=False, has_rested=True), True), (point(lost_at=1), True),
])  # fmt: skip
def test_stored_copies_last_and_live_states_if_a_request_ended_in_them(known, is_lasting):
    assert known.is_lasting is is_lasting


@pytest.mark.parametrize("known, earlier, outlived", [
    (point(), point(lost_at=1, lost_clock=3), True), (point(lost_at=1, lost_clock=3), point(), False),
    (point(), point(), False), (point(lost_at=2, lost_clock=9), point(lost_at=1, lost_clock=5), True),
    (point(lost_at=2, lost_clock=4), point(lost_at=1, lost_clock=3), True),
    (point(lost_at=1, lost_clock=4), point(lost_at=1, lost_clock=3), False),
    (point(lost_at=2, lost_clock=4, is_durable=False), point(lost_at=1, lost_clock=3), False),
    (point(lost_at=2, lost_clock=4, is_durable=False), point(lost_at=1, lost_clock=3, is_durable=False), True),
])  # fmt: skip
def test_a_point_outlives_one_that_was_lost_by_an_earlier_request(known, earlier, outlived):
    assert known.outlived(earlier, clock=5) is outlived


def test_of_lost_points_copies_come_first_then_the_latest_loss_then_the_oldest_point():
    live, early, late = point(lost_at=9, is_durable=False), point(lost_at=1), point(lost_at=2)
    newer = replace(late, number=3)
    assert sorted((late, newer, early, live), key=lambda known: known.rank) == [live, early, newer, late]


@pytest.mark.parametrize(("kind", "decided", "rule"), [
    ("entry", [], ""),
    ("entry", [(SELECT, None)], SELECT),
    ("entry", [(SELECT, None), (LOAD, None)], LOAD),
    ("slot", [(SELECT, None), (NEED, CheckpointNeed(0, False))], SELECT),
    ("slot", [(SELECT, None), (NEED, CheckpointNeed(0, True))], NEED),
    ("slot", [(SELECT, True), (NEED, CheckpointNeed(0, False))], SELECT),
    ("checkpoint", [(SELECT, True), (NEED, CheckpointNeed(0, True))], SELECT),
    ("checkpoint", [(NEED, CheckpointNeed(0, True)), (PICK, None)], PICK),
    ("checkpoint", [(NEED, CheckpointNeed(0, False)), (PICK, None)], NEED),
    ("block", [(LOAD, 3), (SELECT, 1)], LOAD),
    ("entry", [(LOAD, 0), (FAILS, 5)], FAILS), ("block", [(LOAD, 3), (FAILS, 0)], FAILS),
    ("entry", [(LOAD, None), (FAILS, 5)], LOAD), ("entry", [(LOAD, 3), (SELECT, 1), (FAILS, 5)], LOAD),
    ("checkpoint", [(NEED, CheckpointNeed(0, True)), (PICK, 3), (FAILS, 5)], PICK),
    ("slot", [(LOAD, 3), (FAILS, 5), (SELECT, 1)], SELECT),
])  # fmt: skip
def test_the_rule_that_could_have_used_a_point_declined_it(kind, decided, rule):
    assert declining_rule(kind, [Decided(0, name, value, {}) for name, value in decided]) == rule
