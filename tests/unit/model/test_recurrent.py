"""Tests that recurrent layers match their papers and never modify their inputs."""

import numpy as np
import pytest

from cachesim.model import LayerState, function_tables
from cachesim.model.forward import make_weights
from cachesim.model.grid import DELTA_UNIT, KEY_UNIT, SSM_UNIT, UNIT, Values, frozen
from cachesim.model.layer_kinds import KINDS
from cachesim.model.recurrent import RecurrentStep, _delta_scan, _ssm_scan
from cachesim.model.spec import parse

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


def test_delta_rule() -> None:
    """Accuracy: h = a (h - b k (k.h)) + b k v, o = q.h, in plain float64."""
    q, k, v = (some(50, 4, 16, seed=s) * UNIT for s in (1, 2, 3))
    q, k = (x / np.sqrt((x**2).sum(-1, keepdims=True)) for x in (q, k))
    a, b = np.full((50, 4), 0.97), np.full((50, 4), 0.5)
    h, wanted = np.zeros((4, 16, 16)), []
    for t in range(50):
        h = a[t, :, None, None] * (h - b[t, :, None, None] * k[t, :, :, None] * (k[t, :, None, :] @ h))
        h = h + b[t, :, None, None] * k[t, :, :, None] * v[t, :, None, :]
        wanted.append((q[t, :, None, :] @ h)[:, 0])
    keys = np.rint(k / KEY_UNIT)
    qkv, room = np.stack((np.rint(q / KEY_UNIT), keys, v / UNIT), axis=1), np.empty((2, 50, 4, 16, 16))
    factors = np.stack((a * -KEY_UNIT, np.full_like(a, KEY_UNIT * UNIT / DELTA_UNIT), np.rint(a / KEY_UNIT)))
    found, last = _delta_scan(qkv, factors, b, np.zeros((4, 16, 16)), room)
    assert np.abs(found * DELTA_UNIT - np.array(wanted)).max() < 1e-3
    assert np.abs(last * DELTA_UNIT - h).max() < 1e-3


def test_state_space_dual() -> None:
    """Accuracy: h = a h + dt x B, y = h.C, in plain float64."""
    x, b, c = (some(50, *shape, seed=s) * UNIT for s, shape in ((1, (4, 16)), (2, (16,)), (3, (16,))))
    a, dt = np.full((50, 4), 0.97), np.full((50, 4, 1), 0.5)
    h, wanted = np.zeros((4, 16, 16)), []
    for t in range(50):
        h = a[t, :, None, None] * h + (dt[t] * x[t])[:, :, None] * b[t]
        wanted.append(h @ c[t])
    dx, room = dt * x / UNIT * (UNIT**2 / SSM_UNIT), np.empty((2, 50, 4, 16, 16))
    found, last = _ssm_scan(dx, b / UNIT, c / UNIT, a, np.zeros((4, 16, 16)), room)
    assert np.abs(found * UNIT - np.array(wanted)).max() < 2e-2
    assert np.abs(last * SSM_UNIT - h).max() < 1e-3


def test_heads_forget_at_their_rate() -> None:
    decay = make_weights(parse("S"), 0).layers[0].recurrence.decay
    at_zero = decay.reshape(4, -1)[:, len(function_tables.SOFTPLUS) // 2]
    assert np.abs(at_zero ** np.array([16, 80, 400, 2000]) - 0.5).max() < 1e-2
