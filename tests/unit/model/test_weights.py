"""Tests of weights and embeddings: their ranges, their grid, and the keys of tokens."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.base.keyed_tokens import IDS
from cachesim.base.limits import Limit
from cachesim.model import function_tables
from cachesim.model import weights as weights_module
from cachesim.model.forward import make_weights
from cachesim.model.grid import WEIGHT_UNIT, add_residual
from cachesim.model.hash_mixing import mix_int, token_digests
from cachesim.model.spec import parse
from cachesim.model.weights import (
    WeightDraw,
    draw_attention,
    draw_delta_net,
    draw_short_conv,
    draw_ssm,
    embed,
    embed_tokens,
    project_bound,
    require_product,
)

MADE = make_weights(parse("AGSC"), 0)


def on_grid(values):
    return np.array_equal(np.rint(values / WEIGHT_UNIT) * WEIGHT_UNIT, values)


def test_an_embedding_spans_minus_one_to_one():
    found = embed(np.arange(2000, dtype=np.uint64), MADE)
    assert found.shape == (2000, 32) and np.array_equal(np.rint(found / 2**10) * 2**10, found)
    assert -(2.0**30) <= found.min() < -0.999 * 2**30 and 0.999 * 2**30 < found.max() < 2.0**30
    lane = int(MADE.lanes[3])
    assert found[5, 3] == (mix_int(5 ^ lane) >> 43) * 2.0**10 - 2.0**30


def test_tokens_without_a_key_have_the_embedding_of_their_digest():
    tokens = [7, 8, 2**63]
    assert np.array_equal(embed_tokens(tokens, 4, MADE), embed(token_digests(tokens, 4), MADE))


def test_a_key_adds_the_update_of_its_adapters_to_its_own_tokens():
    tokens = [7, 8 + 5 * IDS, 7 + 5 * IDS, 9, 8 + 6 * IDS, 10 + 5 * IDS]
    plain = embed(token_digests([7, 8, 7, 9, 8, 10], 0), MADE)
    found = embed_tokens(tokens, 0, MADE)
    assert np.array_equal(found[[0, 3]], plain[[0, 3]])
    for key, rows in ((5, [1, 2, 5]), (6, [4])):
        draw = WeightDraw(key, -1)
        a, b = (np.where(draw.bits(32) & np.uint64(1), 1.0, -1.0) for _ in range(2))
        update = np.rint(plain[rows] @ a / 32)[:, None] * b
        assert np.array_equal(found[rows], add_residual(plain[rows], update)) and update.any()


def test_a_stream_of_numbers_depends_on_seed_and_layer_and_goes_on():
    draw, start = WeightDraw(3, 1), mix_int(mix_int(mix_int(4) + mix_int(3)) + 1)
    assert draw.bits(3).tolist() == [mix_int(start + i) for i in range(3)]
    assert draw.bits(3).tolist() == [mix_int(mix_int(start + 1) + i) for i in range(3)]


def test_uniform_numbers_lie_between_minus_one_and_one():
    found = WeightDraw(3, 1).uniform(50, 40)
    assert found.shape == (50, 40) and -1 <= found.min() < -0.99 and 0.99 < found.max() < 1
    assert abs(found.mean()) < 0.05 and WeightDraw(3, 1).uniform(4).tolist() == [
        (int(bits) >> 11) * 2.0**-52 - 1 for bits in WeightDraw(3, 1).bits(4)]  # fmt: skip


def test_weights_are_on_the_grid_and_in_their_ranges():
    draw = WeightDraw(0, 0)
    matrix, norm, taps = draw.matrix(64, 200), draw.norm(500), draw.taps(4, 500)
    assert on_grid(matrix) and on_grid(norm) and on_grid(taps)
    lengths = np.sqrt((matrix**2).sum(axis=0))
    assert 0.9 < lengths.mean() < 1.1 and abs(matrix).max() <= np.sqrt(3 / 64) + WEIGHT_UNIT
    assert 0.75 <= norm.min() < 0.76 and 1.24 < norm.max() <= 1.25
    sizes = abs(taps)
    assert sizes.min() + WEIGHT_UNIT >= 0.2 and sizes.max() <= 0.3 + WEIGHT_UNIT and (taps < 0).any()
    assert (abs(taps).sum(axis=0) <= 1.2 + 4 * WEIGHT_UNIT).all()


def test_a_model_has_weights_of_these_shapes():
    attention, delta, ssm, conv = (layer.attention or layer.recurrence for layer in MADE.layers)
    assert [part.shape for part in attention] == [(32, 128), (64, 32)]
    assert [part.shape for part in delta] == [(32, 264), (4, 192), (16,), (4, 1), (4 * 4097,), (3, 4 * 4097), (64, 32)]
    assert [part.shape for part in ssm] == [(32, 164), (4, 96), (64,), (4, 1), (4 * 4097,), (2, 4 * 4097), (64, 32)]
    assert [part.shape for part in conv] == [(32, 96), (3, 32), (32, 32)]
    assert (MADE.lanes.shape, MADE.norm.shape, MADE.readout.shape) == ((32,), (32,), (32, 64))
    assert on_grid(delta.skip) and 0.75 <= delta.skip.min() <= delta.skip.max() <= 1.25


def test_factors_are_those_of_the_decay_in_their_units():
    delta, ssm = draw_delta_net(WeightDraw(0, 0)), draw_ssm(WeightDraw(0, 0))
    assert np.array_equal(delta.factors[0], -delta.decay * 2.0**-16) and (delta.factors[1] == 2.0**-26).all()
    assert np.array_equal(delta.factors[2], np.rint(delta.decay * 2.0**16))
    assert np.array_equal(ssm.factors[0], np.tile(function_tables.softplus_table(), 4) * 2.0**-44)
    assert np.array_equal(ssm.factors[1], ssm.decay)


def test_a_projection_of_a_normed_vector_is_bounded_by_its_longest_column():
    into = np.zeros((32, 3))
    into[0, 0], into[:4, 1] = 1.0, 1.0
    assert project_bound(into) == 7.5 * 2 + 2.0**-30


@pytest.mark.parametrize(("norm", "fits"), [(2.0**12, False), (2.0**12 - 1, True)])
def test_products_must_stay_below_the_largest_exact_integer(norm, fits):
    """A column of length 2 in steps of 2**-10 times a vector in steps of 2**-30: 2**53 in units of both."""
    weight = np.zeros((32, 2))
    weight[:4, 1] = 1.0
    if fits:
        require_product(norm, weight)
        return
    with pytest.raises(Crash, match="projection: weights of the simulated model too large"):
        require_product(norm, weight)


def test_a_gate_beyond_its_table_is_refused(monkeypatch):
    monkeypatch.setattr(function_tables, "GATE_RANGE", 2.0)
    for draw in (draw_delta_net, draw_ssm):
        with pytest.raises(Crash, match=r"a gate may reach [\d.]+, its table ends at 2\.0"):
            draw(WeightDraw(0, 0))


class ScaledDraw(WeightDraw):
    """Weights larger than those of a model: by a factor for the input projection, the output projection, and taps."""

    def __init__(self, into, out, taps):
        super().__init__(0, 0)
        self.factors, self.of_taps = [into, out], taps

    def matrix(self, n_in, n_out):
        return super().matrix(n_in, n_out) * self.factors.pop(0)

    def taps(self, taps, channels):
        return super().taps(taps, channels) * self.of_taps


@pytest.mark.parametrize(("draw", "factors", "what"), [
    (draw_attention, (1.755, 1, 1), "sum over the keys of a softmax"), (draw_attention, (1, 100.9, 1), "projection"),
    (draw_delta_net, (1.237, 1, 1), "recurrent matrix of a delta net"), (draw_delta_net, (1, 70.4, 1), "projection"),
    (draw_delta_net, (1.392, 1, 0.5), "recurrent matrix of a delta net"), (draw_ssm, (1, 747, 1), "projection"),
    (draw_ssm, (1.610, 1, 1), "recurrent matrix of an SSM"), (draw_ssm, (1, 1, 1.610), "recurrent matrix of an SSM"),
    (draw_short_conv, (1.201, 1, 1), "projection"), (draw_short_conv, (1, 1, 1.727), "projection"),
    (draw_short_conv, (9.96, 2.0**-20, 1), "short convolution"),
])  # fmt: skip
def test_weights_are_refused_from_the_size_on_at_which_a_sum_is_inexact(draw, factors, what):
    draw(ScaledDraw(*(one / 1.02 if one > 1 else one for one in factors)))
    with pytest.raises(Crash, match=what):
        draw(ScaledDraw(*(one * 1.02 if one > 1 else one for one in factors)))


def test_scores_of_attention_are_bounded_too(monkeypatch):
    """With few rows the sum over the keys is small."""
    monkeypatch.setattr(weights_module, "EXACT_ROWS", Limit("exact attention", 1, "rows", "", ""))
    draw_attention(ScaledDraw(2.43, 1, 1))
    with pytest.raises(Crash, match="score of a query and a key"):
        draw_attention(ScaledDraw(2.53, 1, 1))
