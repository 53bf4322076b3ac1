"""Tests that sums are exact: the bounds are checked when a model is built, and hold in its results."""

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.model import grid
from cachesim.model.forward import make_weights
from cachesim.model.norms import rms_norm, unit
from cachesim.model.spec import parse
from tests.unit.model.plain_store import ALL_KINDS


def test_require() -> None:
    grid.require(2.0**53 - 1, "small")
    with pytest.raises(Crash, match=r"large: weights of the simulated model too large: sums may reach 9\.01e\+15"):
        grid.require(2.0**53, "large")


def test_a_weight_too_large_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NORM_BOUND", "DELTA_UNIT"):
        with monkeypatch.context() as patch:
            patch.setattr(grid, name, getattr(grid, name) * (2.0**14 if name == "NORM_BOUND" else 2.0**-6))
            with pytest.raises(Crash):
                make_weights(parse("AG"), 0)


@pytest.mark.parametrize("seed", range(20))
def test_every_seed_builds(seed: int) -> None:
    made = make_weights(parse(ALL_KINDS), seed)
    for layer in made.layers:
        for part in (layer.attention, layer.recurrence):
            for array in part or ():
                assert not array.flags.writeable


def test_a_layer_does_not_depend_on_its_neighbours() -> None:
    alone, among = make_weights(parse("G"), 1), make_weights(parse("GA"), 1)
    assert (alone.layers[0].recurrence.into == among.layers[0].recurrence.into).all()


@pytest.mark.parametrize("size", [2.0**-29, 2.0**-12, 1.0, 2.0**13])
def test_norms_stay_within_their_bounds(size: float) -> None:
    x = np.rint(np.linspace(-1, 1, 64).reshape(2, 32) ** 3 * size / grid.UNIT)
    u = rms_norm(x, np.full(32, 1.25)) * grid.UNIT
    assert (u == np.rint(u / grid.UNIT) * grid.UNIT).all()
    assert ((u**2).sum(axis=1) <= grid.NORM_BOUND**2).all()
    length = (unit(np.minimum(x, 9 / grid.UNIT).reshape(2, 2, 16)) ** 2).sum(axis=-1)
    assert (length <= (1.01 / grid.KEY_UNIT) ** 2).all()


def test_matmul_is_exact_at_its_bound() -> None:
    """The largest products within the bounds, summed by BLAS and by Python's integers."""
    rng = np.random.default_rng(1)
    u = rng.integers(-(2**41), 2**41, (40, 32)).astype(np.float64)
    w = rng.integers(-(2**7), 2**7, (32, 24)).astype(np.float64)
    wanted = [[sum(int(a) * int(b) for a, b in zip(row, col, strict=True)) for col in w.T] for row in u]
    assert (u @ w).tolist() == wanted
