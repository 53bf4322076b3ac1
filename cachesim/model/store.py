"""Interface between a model and a memory: runs of tokens, rows and states, hidden values.

The model knows a memory only as a ``Store`` and never decides which cell holds which row. A memory may return stale,
foreign, missing or duplicate rows. That is the engine's fault and must show in the result, so the model uses every row
that the store's ``View`` shows, usually by position alone.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, Sequence

import numpy as np

from cachesim.model.attention_mask import View
from cachesim.model.grid import Digests, Positions, Values


class TokenRun(NamedTuple):
    """Consecutive tokens of a sequence inside a micro-batch; token k is at position ``pos0 + k``."""

    seq: int
    pos0: int
    tokens: Sequence[int]


class KVRows(NamedTuple):
    """K/V rows of an attention layer, sorted by position. K is already rotated to its position (RoPE)."""

    digest: Digests           # (n,)
    k: Values | None          # (n, kv_heads, head); None in provenance mode
    v: Values | None          # (n, kv_heads, head)


def index_of(layer: int) -> int:
    """Return the number under which a store keeps a layer's second kind of rows: its index rows, or its compressed
    rows. Applied twice, it returns the layer."""
    return ~layer


def layer_of(number: int) -> int:
    """Return the layer of rows that a store keeps under a number, of either kind."""
    return max(number, index_of(number))


class LayerState(NamedTuple):
    """State of the recurrent part of a layer. Its arrays are immutable.

    States are returned, never overwritten, so a checkpoint is a reference to a state. None = the zero state.
    """

    conv: Digests             # (taps-1,) provenance of the last inputs, oldest first
    hash: int                 # rolling provenance of all inputs; 0 at the start and in a kind without a matrix
    conv_x: Values | None     # (taps-1, channels) the last inputs; None in provenance mode
    h: Values | None          # recurrent matrix, empty in a kind without it; None in provenance mode


class HiddenOutput(NamedTuple):
    """Output of the last layer for each token of a run."""

    digest: Digests           # (n,)
    x: Values | None          # (n, d) on the grid, None in provenance mode

    def part(self, start: int, stop: int) -> HiddenOutput:
        """Return the outputs of tokens start .. stop-1."""
        return HiddenOutput(self.digest[start:stop], None if self.x is None else self.x[start:stop])


class Store(Protocol):
    """Memory as a micro-batch sees it. ``run`` is the index into the list of runs."""

    def view(self, part: str, run: int, asked: Positions) -> View:
        """Return the rows of the run's sequence in this part that each of its tokens, at positions ``asked``, sees,
        including the run's own new rows. Called once for each part, after the rows of its first layer were put."""

    def put_rows(self, layer: int, run: int, rows: KVRows) -> None:
        """Write the rows of the run's own tokens to their cells."""

    def get_rows(self, layer: int, run: int) -> KVRows:
        """Return the rows of the run's sequence, in the order of ``view``. All runs have put their own rows before."""

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the current recurrent state of the run's sequence; None = zero state."""

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Store the state after the run's last token."""


def same_state(a: LayerState | None, b: LayerState | None) -> bool:
    """True if two states are bit-identical. None equals the zero state. Parts that a side lacks are not compared."""
    if a is None or b is None:
        return all(_is_zero(part) for part in (a or b or ()))
    if int(a.hash) != int(b.hash) or a.conv.tolist() != b.conv.tolist():
        return False
    return _same_values(a.conv_x, b.conv_x) and _same_values(a.h, b.h)


def _same_values(a: Values | None, b: Values | None) -> bool:
    return a is None or b is None or np.array_equal(a, b)


def _is_zero(part: Digests | Values | int | None) -> bool:
    return part is None or not np.any(part)
