"""Tests that recurrent layers match their papers and never modify their inputs."""

from typing import Any

import numpy as np
import pytest

from cachesim.model import LayerState, function_tables
from cachesim.model.forward import make_weights
from cachesim.model.grid import UNIT, Values, frozen
from cachesim.model.layer_kinds import KINDS
from cachesim.model.recurrent import RecurrentStep
from cachesim.model.spec import parse

HALF_LIVES = np.array([16, 80, 400, 2000])
RECURRENT = [letter for letter, kind in KINDS.items() if kind.recurrence]


def some(*shape: int, unit: float = UNIT, seed: int = 0) -> Values:
    return frozen(np.rint(np.random.default_rng(seed).standard_normal(shape) / unit))


def run(kind: str, u: Values, state: LayerState | None) -> RecurrentStep:
    form = KINDS[kind].recurrence
    assert form is not None
    return form.run(u, make_weights(parse(kind), 0).layers[0].recurrence, state)


@pytest.mark.parametrize("kind", RECURRENT)
def test_states_are_never_modified(kind: str) -> None:
    u = some(100, 32)
    step = run(kind, u, None)
    assert not step.conv_x.flags.writeable and not step.h.flags.writeable
    state = LayerState(np.zeros(3, np.uint64), 0, step.conv_x, step.h)
    kept = step.conv_x.copy(), step.h.copy()
    again = run(kind, u, state)                             # u and the state are frozen: a write would raise
    assert (kept[0] == step.conv_x).all() and (kept[1] == step.h).all()
    assert again.h.base is None and again.conv_x.base is None       # a checkpoint holds no larger array alive


@pytest.mark.parametrize("kind", RECURRENT)
def test_zeroed_state_is_no_state(kind: str) -> None:
    u = some(9, 32)
    step = run(kind, u, None)
    zeroed = LayerState(np.zeros(3, np.uint64), 0, np.zeros_like(step.conv_x), np.zeros_like(step.h))
    assert all((a == b).all() for a, b in zip(run(kind, u, zeroed), step, strict=True))


def test_heads_forget_at_their_rate() -> None:
    decay = make_weights(parse("S"), 0).layers[0].recurrence.decay
    at_zero = decay.reshape(4, -1)[:, len(function_tables.softplus_table()) // 2]
    assert np.abs(at_zero**HALF_LIVES - 0.5).max() < 1e-2


def silu(x: Values) -> Values:
    return x / (1 + np.exp(-x))


def convolved(x: Values, taps: Values) -> Values:
    padded = np.concatenate((np.zeros((len(taps) - 1, x.shape[1])), x))
    return sum(tap * padded[len(taps) - 1 - back :][: len(x)] for back, tap in enumerate(taps))


def plain_delta_net(u: Values, w: Any) -> tuple[Values, Values]:
    """h = a (h - b k (k.h)) + b k v, y = rms(q.h) silu(z)."""
    qkv, z, b, gate = np.split(u @ w.into, (192, 256, 260), axis=1)
    q, k, v = np.moveaxis(silu(convolved(qkv, w.taps)).reshape(-1, 3, 4, 16), 1, 0)
    q, k = (x / np.sqrt((x**2).sum(-1, keepdims=True) + 2.0**-20) for x in (q, k))
    beta = 1 / (1 + np.exp(-b - np.array([0.0, -0.5, -1.0, -2.0])))
    keep = np.minimum(np.exp(-np.log1p(np.exp(gate)) / HALF_LIVES), 1 - 1 / 2896)
    h, read = np.zeros((4, 16, 16)), np.empty_like(v)
    for t, (a, bk) in enumerate(zip(keep[..., None, None], (beta[..., None] * k)[..., None], strict=True)):
        h = a * (h - bk * (k[t, :, None] @ h)) + bk * v[t, :, None]
        read[t] = (q[t, :, None] @ h)[:, 0]
    read *= w.norm / np.sqrt((read**2).mean(-1, keepdims=True) + 2.0**-16)
    return read.reshape(-1, 64) * silu(z), h


def plain_ssm(u: Values, w: Any) -> tuple[Values, Values]:
    """h = a h + dt x B, y = rms((h.C + D x) silu(z))."""
    xbc, z, gate = np.split(u @ w.into, (96, 160), axis=1)
    x, b, c = np.split(silu(convolved(xbc, w.taps)), (64, 80), axis=1)
    x, dt = x.reshape(-1, 4, 16), np.log1p(np.exp(gate))
    keep = np.minimum(np.exp(-dt / HALF_LIVES), 1 - 1 / 2896)
    h, read = np.zeros((4, 16, 16)), np.empty_like(x)
    for t, a in enumerate(keep[..., None, None]):
        h = a * h + (dt[t, :, None] * x[t])[..., None] * b[t]
        read[t] = h @ c[t]
    y = (read + w.skip * x).reshape(-1, 64) * silu(z)
    return y * w.norm / np.sqrt((y**2).mean(-1, keepdims=True) + 2.0**-16), h


@pytest.mark.parametrize(("kind", "plain", "unit"), [("G", plain_delta_net, 2.0**-20), ("S", plain_ssm, 2.0**-16)])
def test_recurrent_layers_are_near_the_formulas_of_their_papers(kind: str, plain: Any, unit: float) -> None:
    u, weights = some(90, 32), make_weights(parse(kind), 0).layers[0].recurrence
    step = run(kind, u, None)
    y, h = plain(u * UNIT, weights)
    assert np.abs(step.y * UNIT - y).max() < 5e-2 and np.abs(step.h * unit - h).max() < 5e-3


def test_a_short_convolution_is_near_the_formula_of_its_paper() -> None:
    """y = C conv(B x)."""
    u, weights = some(90, 32), make_weights(parse("C"), 0).layers[0].recurrence
    b, c, x = np.split(u * UNIT @ weights.into, 3, axis=1)
    assert np.abs(run("C", u, None).y * UNIT - c * convolved(b * x, weights.taps)).max() < 1e-6
