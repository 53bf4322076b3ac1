"""Tests of the shifting cold run: without a shift it equals the cold run, with a shift it forgets exactly the cut
rows."""

import numpy as np
import pytest

from cachesim.model import make_model
from cachesim.oracle.cold_run import cold
from cachesim.oracle.shifted_run import CutAt, cold_shifted

PROMPT, GENERATED = tuple(range(100, 130)), tuple(range(200, 206))


@pytest.mark.parametrize("spec", ["AA", "SS", "GA", "W8 A", "C W8", "H"])
@pytest.mark.parametrize("exact", [False, True])
def test_without_a_cut_it_is_the_cold_run(spec, exact):
    model = make_model(spec, exact)
    said, _ = cold_shifted(model, PROMPT, GENERATED, [])
    whole = cold(model, PROMPT + GENERATED, logits_at=range(29, 36))
    assert [one.digest for one in said] == [int(whole.digests[pos]) for pos in range(29, 36)]
    if exact:
        assert all(np.array_equal(one.logits, whole.logits[pos]) for one, pos in zip(said, range(29, 36), strict=True))


@pytest.mark.parametrize("spec", ["AA", "SS", "GA"])
def test_a_cut_shows_from_its_token_on(spec):
    model = make_model(spec, False)
    plain, _ = cold_shifted(model, PROMPT, GENERATED, [])
    cut, store = cold_shifted(model, PROMPT, GENERATED, [CutAt(32, 4, 10)])
    assert [a.digest == b.digest for a, b in zip(plain, cut, strict=True)] == [True] * 3 + [spec == "SS"] * 4
    assert store.n == 36 - 10


def test_rows_keep_their_order_and_number():
    model = make_model("A", False)
    _, store = cold_shifted(model, PROMPT, (), [])
    before = store.rows(0).digest.copy()
    store.cut(model, CutAt(30, 5, 7))
    after = store.rows(0).digest
    assert len(after) == 23
    assert (after[:5] == before[:5]).all()
    undone = model.shift_rows(0, store.rows(0)._replace(digest=after[5:]), np.arange(5, 23), np.arange(12, 30))
    assert (undone.digest == before[12:]).all()


def test_a_store_keeps_the_last_state_of_each_layer_with_states():
    model = make_model("GA", False)
    _, store = cold_shifted(model, PROMPT, (), [])
    _, longer = cold_shifted(model, PROMPT, GENERATED, [])
    assert store.state_at(0, 30) is store.get_state(0, 0) is not None and store.state_at(1, 30) is None
    assert longer.state_at(0, 36).hash != store.state_at(0, 30).hash
