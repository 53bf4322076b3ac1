"""How many bytes do the K/V rows and the states of a real model weigh?

row     bytes of one token's K row and V row in one attention layer, F16
state   bytes of the recurrent state of one layer, F32: inputs of the short convolution, and the matrices
Source: llama.cpp src/llama-hparams.cpp n_embd_r, n_embd_s, n_embd_k_gqa (b11549).
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.shared.declared_sizes import HEAD, Declared, with_sizes
from cachesim.model.spec import Spec, parse

F16, F32 = 2, 4


class ModelSizes(NamedTuple):
    """A real model: how many of its layers have K/V rows and how many have a state, what each of them weighs in bytes,
    and from where that is known. ``layers`` in our notation, shortened to a run that repeats; ``head``: the width of
    an attention head in numbers."""

    layers: str
    attention: int
    recurrent: int
    row: int
    state: int
    source: str
    head: int = HEAD

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's rows in all layers."""
        return self.attention * self.row

    @property
    def state_bytes(self) -> int:
        """Bytes of the states of all layers: what one checkpoint of a hybrid or recurrent model weighs."""
        return self.recurrent * self.state

    def declared(self, model: str, scale: int = 1) -> str:
        """A model of few layers that weighs as much as the real one, where one token stands for ``scale`` of its."""
        return with_sizes(model, self._per_layer(parse(model.rpartition("-")[2]), scale))

    def _per_layer(self, spec: Spec, scale: int) -> Declared:
        rows = sum(1 for layer in spec.layers if layer.part)
        states = sum(1 for layer in spec.layers if layer.taps)
        row, state = self.token_bytes * scale // rows if rows else 0, self.state_bytes // states if states else 0
        windows = any(layer.window for layer in spec.layers)
        return Declared(row, state, self.head if windows and scale == 1 else HEAD)      # kernels count real cells


def attention_row(kv_heads: int, key: int, value: int) -> int:
    """Bytes of a K row and a V row."""
    return kv_heads * (key + value) * F16


def delta_state(taps: int, key_heads: int, value_heads: int, key: int, value: int) -> int:
    """Bytes of a gated delta net's state: the inputs of its convolution, one matrix for each value head."""
    return F32 * ((taps - 1) * (2 * key_heads * key + value_heads * value) + value_heads * key * value)


def mamba_state(taps: int, inner: int, state: int, groups: int) -> int:
    """Bytes of a Mamba-2 layer's state."""
    return F32 * ((taps - 1) * (inner + 2 * groups * state) + inner * state)
