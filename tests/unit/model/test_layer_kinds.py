"""Tests that a row of the table declares the results of its functions."""

import numpy as np
import pytest

from cachesim.base.errors import BadInput
from cachesim.model import Layer
from cachesim.model.forward import make_weights
from cachesim.model.grid import UNIT, frozen
from cachesim.model.layer_kinds import KINDS
from cachesim.model.spec import parse
from tests.unit.model.plain_store import every_kind

RECURRENT = [letter for letter, kind in KINDS.items() if kind.recurrence]


@pytest.mark.parametrize("letter", RECURRENT)
@pytest.mark.parametrize("n", [1, 100])
def test_a_state_has_the_declared_shapes(letter: str, n: int) -> None:
    form = KINDS[letter].recurrence
    assert form is not None and 1 <= form.taps <= 4
    u = frozen(np.rint(np.random.default_rng(0).standard_normal((n, 32)) / UNIT))
    step = form.run(u, make_weights(parse(letter), 0).layers[0].recurrence, None)
    assert step.conv_x.shape == (form.taps - 1, form.channels) and step.h.shape == (form.matrix or (0, 0, 0))
    assert sum(form.state_numbers) == step.conv_x.size + step.h.size
    assert len(form.state_numbers) == (2 if form.matrix else 1)


@pytest.mark.parametrize("notation", every_kind(8))
def test_a_layer_has_the_parts_of_its_kind(notation: str) -> None:
    layer, = parse(notation).layers
    kind = KINDS[layer.kind]
    assert (layer.attention, layer.recurrence) == (kind.attention, kind.recurrence) != (None, None)
    assert layer.part == (kind.attention.part if kind.attention else "")
    assert (layer.window > 0) == (layer.part in ("swa", "chunk"))


@pytest.mark.parametrize("letter", KINDS)
def test_a_window_is_given_where_there_is_one(letter: str) -> None:
    kind = KINDS[letter]
    with pytest.raises(BadInput):
        Layer(letter, 0 if kind.attention and kind.attention.part != "base" else 8)
