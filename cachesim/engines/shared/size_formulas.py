"""Byte sizes of K/V rows and recurrent states of real models.

row     bytes of a token's K row and V row in an attention layer, F16
state   bytes of the recurrent state of a layer, F32: inputs of the short convolution, and the matrices

A model name may declare sizes: ``GGGA@24576/26345472`` is the model GGGA in which a K row plus a V row of an attention
layer has 24,576 bytes and the state of a recurrent layer 26,345,472 bytes, so that limits in bytes apply as for the
real model. Without ``@`` a model has the sizes of the recorded tiny models. ``W32 A@24576/0/64``: an attention head has
64 numbers instead of 16 as in the recorded models; some kernels of real servers support wide heads only.
``W32 A@24576/0/64/4096``: a layer with a window has rows of 4,096 bytes. Source: llama.cpp src/llama-hparams.cpp
n_embd_r, n_embd_s, n_embd_k_gqa (b11549).
"""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple

from cachesim.base.errors import BadInput, quoted
from cachesim.model.spec import Spec, parse

HEAD = 16
"""Width of an attention head in the recorded models and, by default, in the simulated ones [numbers]."""

_SIZES = re.compile(r"(\d{1,15})/(\d{1,15})(?:/(\d{1,4})(?:/(\d{1,15}))?)?")


class DeclaredSizes(NamedTuple):
    """Declared bytes of a token's K and V rows in an attention layer, and of the state of a recurrent layer;
    ``head``: width of an attention head [numbers]; ``window``: bytes of the rows in a layer with a window, -1 = as in
    the others."""

    row: int
    state: int
    head: int = HEAD
    window: int = -1

    @property
    def window_row(self) -> int:
        """Bytes of a token's rows in a layer with a window."""
        return self.row if self.window < 0 else self.window


def name_with_sizes(model: str, sizes: DeclaredSizes) -> str:
    """Return the name of a model with these sizes."""
    name = f"{model}@{sizes.row}/{sizes.state}"
    if sizes.window_row != sizes.row:
        return f"{name}/{sizes.head}/{sizes.window}"
    return f"{name}/{sizes.head}" if sizes.head != HEAD else name


def split_sizes(name: str) -> tuple[str, DeclaredSizes | None]:
    """Return the model in a name, and the sizes that the name declares (None = none). Raise BadInput."""
    model, at, text = name.partition("@")
    if not at:
        return name, None
    found = _SIZES.fullmatch(text)
    if found is None:
        raise BadInput(f"model {quoted(name)}: expected two sizes in bytes after '@'",
                       hint="for example GGGA@24576/26345472")  # fmt: skip
    row, state, head, window = found.groups()
    return model, DeclaredSizes(int(row), int(state), int(head or HEAD), int(window or -1))


F16, F32 = 2, 4


class ModelSizes(NamedTuple):
    """Sizes of a real model [bytes]."""

    layers: str         # notation of the layers, shortened to their repeating run
    full: int           # of a token's rows in all layers with full attention
    window: int         # of a token's rows in all layers with a window
    state_bytes: int    # of the states of all layers: the size of a checkpoint of a hybrid or recurrent model
    source: str         # origin of the data
    head: int = HEAD    # width of an attention head [numbers]

    @property
    def token_bytes(self) -> int:
        """Bytes of a token's rows in all layers."""
        return self.full + self.window

    def declared(self, model: str, scale: int = 1) -> str:
        """Return the name of a small model with the total sizes of the real model, where a token stands for ``scale``
        real tokens. A small model without windows, or with nothing else, has the rows of all layers in its own."""
        layers = parse(model.rpartition("-")[2]).layers
        windows = sum(bool(layer.window) for layer in layers)
        full = sum(bool(layer.part) for layer in layers) - windows
        states = sum(bool(layer.recurrence) for layer in layers)
        row = self.token_bytes * scale // (full + windows) if full + windows else 0
        window = -1
        if full and windows and self.full and self.window:
            row = self.full * scale // full
            window = self.window * scale // windows
        state = self.state_bytes // states if states else 0
        wide = scale == 1 and windows                                             # kernels count real cells
        return name_with_sizes(model, DeclaredSizes(row, state, self.head if wide else HEAD, window))


def states_bytes(spec: Spec, recorded: Mapping[str, int], declared: int) -> int:
    """Return the bytes of all states: as declared for each layer, as recorded for its kind, or the size of the
    simulated numbers."""
    return sum(declared or recorded.get(layer.kind, F32 * sum(layer.recurrence.state_numbers))
               for layer in spec.layers if layer.recurrence)  # fmt: skip


class LayerSize(NamedTuple):
    """Numbers that a layer of a real model keeps, and how they are divided among devices."""

    kind: str               # letter in the notation, "" = a layer without memory
    key: int = 0            # of a token's K row
    value: int = 0          # of a token's V row
    conv: int = 0           # inputs of the convolution
    matrix: int = 0         # recurrent matrix
    kv_heads: int = 0       # heads of a row; a device has at least one
    inputs: int = 0         # tokens whose inputs the convolution keeps
    groups: int = 0         # groups of Mamba-2, which devices may share
    width: int = 0          # numbers of a group in an input, twice
    numbers: str = ""       # that follow the kind in the notation, other than a window
    index_key: int = 0      # of a token's index row, or of the index row of a compressed row
    index_value: int = 0    # of a V row in the index cache
    ratio: int = 0          # tokens for which a compressed row stands, 0 = there are none
    history: int = 0        # of the history of n-gram embeddings

    @property
    def row(self) -> int:
        """Bytes of a K row and a V row, F16."""
        return (self.key + self.value) * F16

    @property
    def index_row(self) -> int:
        """Bytes of the index row of a token, F16; 0 for a layer whose compressed rows have them."""
        return 0 if self.ratio else (self.index_key + self.index_value) * F16

    @property
    def state(self) -> int:
        """Bytes of the state, F32."""
        return (self.conv + self.matrix) * F32


def attention(kv_heads: int, key: int, value: int, kind: str = "A") -> LayerSize:
    """Return an attention layer; ``value`` 0 = the V row is part of the K row (MLA)."""
    return LayerSize(kind, kv_heads * key, kv_heads * value, kv_heads=kv_heads)


def delta_net(taps: int, key_heads: int, value_heads: int, key: int, value: int) -> LayerSize:
    """Return a gated delta net: the inputs of its convolution and a matrix for each value head."""
    inputs = max(0, taps - 1)
    return LayerSize("G", conv=inputs * (2 * key_heads * key + value_heads * value),
                     matrix=value_heads * key * value, inputs=inputs)  # fmt: skip


def kimi_delta(taps: int, heads: int, head: int) -> LayerSize:
    """Return Kimi's delta attention: the inputs of its three convolutions and a matrix for each head."""
    inputs = max(0, taps - 1)
    return LayerSize("G", conv=3 * inputs * heads * head, matrix=heads * head * head, inputs=inputs)


def mamba(taps: int, inner: int, state: int, groups: int) -> LayerSize:
    """Return a Mamba-2 layer."""
    inputs = max(0, taps - 1)
    return LayerSize("S", conv=inputs * (inner + 2 * groups * state), matrix=inner * state, inputs=inputs,
                     groups=groups, width=state)  # fmt: skip


def short_conv(taps: int, width: int) -> LayerSize:
    """Return a short convolution."""
    inputs = max(0, taps - 1)
    return LayerSize("C", conv=inputs * width, inputs=inputs)
