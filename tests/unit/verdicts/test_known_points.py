"""Is the point that is found the one that a look at every point finds?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cachesim.events import Changed
from cachesim.tokens import common_prefix
from cachesim.verdicts.known_points import MANY, Known, best_of, decline, enter, nearest_decline, notes_of
from cachesim.verdicts.texts import Place, Texts

TOKENS = st.lists(st.integers(0, 1), min_size=1, max_size=7).map(tuple)
POINTS = st.lists(st.tuples(TOKENS, st.integers(1, 7), st.integers(1, 7), st.integers(1, 3), st.integers(0, 2)),
                  max_size=14)  # fmt: skip


@given(POINTS, TOKENS, st.integers(0, 7))
def test_the_best_point_is_that_of_all_points(points, prompt, most):
    texts, every = Texts(), []
    for number, (tokens, lo, hi, step, worth) in enumerate(points):
        lo, hi = min(lo, hi, len(tokens)), min(max(lo, hi), len(tokens))
        place = texts.place(tokens, -1)
        known = Known(number, ("", 0, 0, 0, 0, 0), "slot", place, lo, lo + (hi - lo) // step * step, step, 0, worth)
        every.append((tokens, known))
        enter(known)
    want, rank = None, (0, -1)
    for tokens, known in every:
        far = known.reach(min(most, common_prefix(tokens, prompt)))
        if far >= known.lo and known.owner and (far, known.owner) > rank:
            want, rank = known, (far, known.owner)
    assert best_of(texts.path(prompt, -1), most, lambda one: (one.owner,) if one.owner else None) == (want, rank[0])


@given(st.lists(TOKENS, max_size=8), TOKENS, st.integers(0, 7))
def test_the_nearest_decline_is_that_of_all(lists, prompt, most):
    texts = Texts()
    for number, tokens in enumerate(lists):
        decline(texts.place(tokens, -1), str(number))
    near = [(len(one), -number) for number, one in enumerate(lists) if one == prompt[: len(one)] and len(one) <= most]
    assert nearest_decline(texts.path(prompt, -1), most) == (str(-max(near)[1]) if near else "")


LIVES = st.lists(st.tuples(
    st.integers(1, 6), st.integers(1, 6), st.integers(1, 2), st.sampled_from(["slot", "checkpoint"]), st.booleans(),
    st.integers(0, 3), st.integers(0, 2)), min_size=8, max_size=40)  # fmt: skip


@given(LIVES, st.integers(1, 7), st.booleans(), st.integers(0, 3))
def test_what_is_forgotten_would_never_have_been_found(lives, most, lasting, wait):
    """Points of one conversation come and go; requests begin at the present time, or ``wait`` earlier."""
    texts, every = Texts(), []
    place = texts.place((1, 1, 1, 1, 1, 1), -1)
    for number, (lo, hi, step, kind, rested, at, life) in enumerate(lives):
        lo, hi = min(lo, hi), max(lo, hi)
        known = Known(number, ("", 0, 0, 0, 0, 0), kind, Place(place.text, hi), lo, lo + (hi - lo) // step * step, step,
                      born=number, rested=rested)  # fmt: skip
        enter(known, past=number - wait)
        every.append(known)
        for one in every:
            if one.lost is None and one.number + life <= number and one.number % 5:
                one.lost, one.lost_clock, one.lost_at = Changed(0, "erased", ""), number, at
    for start in range(len(lives) - wait, len(lives) + 1):

        def worth(known, start=start):
            if known.born > start or (lasting and not known.lasting):
                return None
            return known.lost is None or known.lost_clock > start, known.kind != "slot", known.lost_at

        ranked = [((far, *worth(one), -one.number), one) for one in every
                  if (far := one.reach(min(most, one.place.n))) >= one.lo and worth(one) is not None]  # fmt: skip
        want = max(ranked, key=lambda pair: pair[0], default=((0,), None))
        assert best_of(Place(place.text, 6), most, worth) == (want[1], want[0][0])


def test_points_that_were_lost_long_ago_are_not_kept():
    texts = Texts()
    place = texts.place(tuple(range(6)), -1)
    for number in range(1000):
        for lo in (3, 6):
            known = Known(number, ("", 0, 0, 0, 0, 0), "slot", place, lo, 6, 1, born=number)
            enter(known, past=number - 1)
            known.lost, known.lost_clock, known.lost_at = Changed(0, "evaluated", ""), number, number
    notes = notes_of(place.text)
    assert len(notes.ranged) < 2 * MANY and len(notes.single[6]) < 2 * MANY
