"""How many bytes do the K/V rows and the states of a real model weigh?

row     bytes of one token's K row and V row in one attention layer, F16
state   bytes of the recurrent state of one layer, F32: inputs of the short convolution, and the matrices
Source: llama.cpp src/llama-hparams.cpp n_embd_r, n_embd_s, n_embd_k_gqa (b11549).
"""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple

from cachesim.base.errors import BadInput, quoted
from cachesim.model.spec import Spec, parse

# How many bytes do rows and states weigh, where a model is given the sizes of a real one?
#
# ``GGGA@24576/26345472`` is the model GGGA, of which a K row plus a V row of one attention layer weighs 24,576 bytes
# and the state of one recurrent layer 26,345,472: limits in bytes then bind where they would with the real model.
# Without ``@`` a model has the sizes of the recorded tiny ones. ``W32 A@24576/0/64``: an attention head is 64 numbers
# wide, not 16 as in the recorded models; some kernels of real servers work on wide heads only.

HEAD = 16
"""Width of a head in the recorded models, and in ours."""

_SIZES = re.compile(r"(\d{1,15})/(\d{1,15})(?:/(\d{1,4}))?")


class DeclaredSizes(NamedTuple):
    """Bytes of one token's K and V rows in one attention layer, and of the state of one recurrent layer; ``head``: the
    width of an attention head in numbers, that of the recorded models without one."""

    row: int
    state: int
    head: int = HEAD


def name_with_sizes(model: str, sizes: DeclaredSizes) -> str:
    """The name of a model with these sizes."""
    head = f"/{sizes.head}" if sizes.head != HEAD else ""
    return f"{model}@{sizes.row}/{sizes.state}{head}"


def split_sizes(name: str) -> tuple[str, DeclaredSizes | None]:
    """The model that a name means, and the sizes that it declares (None = none). Raises BadInput."""
    model, at, text = name.partition("@")
    if not at:
        return name, None
    found = _SIZES.fullmatch(text)
    if found is None:
        raise BadInput(f"model {quoted(name)}: sizes are two numbers of bytes", hint="for example GGGA@24576/26345472")
    return model, DeclaredSizes(int(found[1]), int(found[2]), int(found[3] or HEAD))


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
        layers = parse(model.rpartition("-")[2]).layers
        rows, states = sum(bool(one.part) for one in layers), sum(bool(one.recurrence) for one in layers)
        row, state = self.token_bytes * scale // rows if rows else 0, self.state_bytes // states if states else 0
        wide = scale == 1 and any(one.window for one in layers)                   # kernels count real cells
        return name_with_sizes(model, DeclaredSizes(row, state, self.head if wide else HEAD))


def states_bytes(spec: Spec, recorded: Mapping[str, int], declared: int) -> int:
    """Bytes of all states: as declared for each layer, as recorded for its kind, or those of our own numbers."""
    return sum(declared or recorded.get(layer.kind, F32 * sum(layer.recurrence.state_numbers))
               for layer in spec.layers if layer.recurrence)  # fmt: skip


def attention_row(kv_heads: int, key: int, value: int) -> int:
    """Bytes of a K row and a V row."""
    return kv_heads * (key + value) * F16


def delta_state(taps: int, key_heads: int, value_heads: int, key: int, value: int) -> int:
    """Bytes of a gated delta net's state: the inputs of its convolution, one matrix for each value head."""
    return F32 * ((taps - 1) * (2 * key_heads * key + value_heads * value) + value_heads * key * value)


def mamba_state(taps: int, inner: int, state: int, groups: int) -> int:
    """Bytes of a Mamba-2 layer's state."""
    return F32 * ((taps - 1) * (inner + 2 * groups * state) + inner * state)
