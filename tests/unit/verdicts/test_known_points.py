"""Is the point that is found the one that a look at every point finds?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cachesim.tokens import common_prefix
from cachesim.verdicts.known_points import Known, best_of, decline, enter, nearest_decline
from cachesim.verdicts.texts import Texts

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
