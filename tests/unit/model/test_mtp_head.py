"""Tests of the MTP head: what it carries from batch to batch, and what enters its layer."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.model import HiddenOutput, TokenRun, make_model
from cachesim.model.attention_mask import View
from cachesim.model.forward import TrunkOutput, before, carried, mtp_head
from cachesim.model.grid import add_residual
from cachesim.model.hash_mixing import STEP, mix, token_digests
from cachesim.model.provenance import RunTrail
from cachesim.model.weights import embed
from tests.unit.model.plain_store import PlainStore

DIGEST = np.array([3, 5, 2**63 + 7], np.uint64)
X = np.arange(96.0).reshape(3, 32) + 1
EXACT, BARE = HiddenOutput(DIGEST, X), HiddenOutput(DIGEST, None)


def test_the_output_after_a_token_is_carried():
    last = carried(EXACT, -1)
    assert last.digest == 2**63 + 7 and type(last.digest) is int and np.array_equal(last.x, X[2])
    assert carried(BARE, 1) == TrunkOutput(5, None)


@pytest.mark.parametrize(("first", "digest", "row"), [
    (None, 0, np.zeros(32)), (TrunkOutput(9, None), 9, np.zeros(32)), (TrunkOutput(9, X[1]), 9, X[1]),
])  # fmt: skip
def test_before_each_token_lies_the_output_of_the_token_before(first, digest, row):
    found = before(EXACT, first)
    assert found.digest.tolist() == [digest, 3, 5] and found.digest.dtype == np.uint64
    assert np.array_equal(found.x, np.stack((row, X[0], X[1])))
    bare = before(BARE, first)
    assert bare.digest.tolist() == [digest, 3, 5] and bare.x is None


def test_a_head_is_an_attention_layer_with_weights_of_its_own():
    trunk = make_model("GA", True, 4)
    assert mtp_head(trunk) is make_model("A", True, 5)
    assert mtp_head(make_model("GA", False, 4)) is make_model("A", False, 5)


@pytest.mark.parametrize("n", [3, 12])
def test_a_head_reads_the_token_and_the_output_before_it(n):
    head, tokens = make_model("A", False, 5), list(range(40, 40 + n))
    said = HiddenOutput(mix(np.arange(n, dtype=np.uint64)), None)
    store = PlainStore()
    store.begin([TokenRun(0, 2, tokens)])
    [found] = head.forward([TokenRun(0, 2, tokens)], store, [said])
    trail = RunTrail(mix(token_digests(tokens, 5) + said.digest * STEP), 2)
    positions = np.arange(2, 2 + n)
    trail.attend(trail.rows(head.keys[0]), View(positions, positions), 0)
    trail.leave(head.keys[0])
    assert found.digest.tolist() == trail.digest.tolist()


def test_the_numbers_before_a_token_are_added_to_its_embedding():
    head, run, numbers = make_model("A", True, 5), TokenRun(0, 0, [40, 41]), np.rint(np.linspace(-3e8, 3e8, 64))
    outputs = []
    for x in (None, np.zeros((2, 32)), numbers.reshape(2, 32)):
        store = PlainStore()
        store.begin([run])
        outputs += head.forward([run], store, [HiddenOutput(DIGEST[:2], x)])
    assert np.array_equal(outputs[0].x, outputs[1].x) and not (outputs[1].x == outputs[2].x).any()
    entered = embed(token_digests([40, 41], 5), head.weights)
    assert not np.array_equal(add_residual(entered, numbers.reshape(2, 32)), entered)
    assert len({tuple(one.digest.tolist()) for one in outputs}) == 1
