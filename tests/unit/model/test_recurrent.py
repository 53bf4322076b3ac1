"""Tests that recurrent layers match their papers and never modify their inputs."""

import numpy as np
import pytest

from cachesim.model import LayerState, function_tables
from cachesim.model.forward import make_weights
from cachesim.model.grid import UNIT, Values, frozen
from cachesim.model.layer_kinds import KINDS
from cachesim.model.recurrent import RecurrentStep
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


def test_heads_forget_at_their_rate() -> None:
    decay = make_weights(parse("S"), 0).layers[0].recurrence.decay
    at_zero = decay.reshape(4, -1)[:, len(function_tables.SOFTPLUS) // 2]
    assert np.abs(at_zero ** np.array([16, 80, 400, 2000]) - 0.5).max() < 1e-2
