"""What passes between a model and a memory: runs of tokens in, rows and states to and fro, hidden values out.

The model knows a memory only as a ``Store``: it never decides which cell holds what. A memory may hand out
stale, foreign, missing or duplicate rows: that is the engine's fault and must show in the result, so the
model uses whatever it is given and sees what the store's ``View`` lets it see, as a rule by position alone.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, Sequence

import numpy as np

from cachesim.model.attention_mask import View
from cachesim.model.grid import Digests, Positions, Values


class TokenRun(NamedTuple):
    """Consecutive tokens of one sequence inside one micro-batch; token k is at position ``pos0 + k``."""

    seq: int
    pos0: int
    tokens: Sequence[int]


class Rows(NamedTuple):
    """K/V rows of one attention layer, sorted by position. K is already rotated to its position (RoPE)."""

    digest: Digests           # (n,)
    k: Values | None          # (n, kv_heads, head); None in provenance mode
    v: Values | None          # (n, kv_heads, head)


class LayerState(NamedTuple):
    """State of the recurrent part of a layer. Its arrays are immutable.

    A state is returned, never overwritten, so a checkpoint is a reference to it. None = the zeroed state."""

    conv: Digests             # (taps-1,) provenance of the last inputs, oldest first
    hash: int                 # rolling provenance of all inputs; 0 at the start and in a kind without a matrix
    conv_x: Values | None     # (taps-1, channels) the last inputs; None in provenance mode
    h: Values | None          # recurrent matrix, empty in a kind without one; None in provenance mode


class Hidden(NamedTuple):
    """What the last layer says about each token of a run."""

    digest: Digests           # (n,)
    x: Values | None          # (n, d) on the grid, None in provenance mode

    def part(self, start: int, stop: int) -> Hidden:
        """What is said about tokens start .. stop-1."""
        return Hidden(self.digest[start:stop], None if self.x is None else self.x[start:stop])


class Store(Protocol):
    """What a micro-batch sees of one memory. ``run`` is the index into the list of runs."""

    def view(self, part: str, run: int, asked: Positions) -> View:
        """Which rows of the run's sequence each of its tokens, at positions ``asked``, sees in this part, the run's own
        new rows included. Asked once for each part, when the rows of its first layer have been put."""

    def put_rows(self, layer: int, run: int, rows: Rows) -> None:
        """Write the run's own new rows, one for each token, to their cells."""

    def get_rows(self, layer: int, run: int) -> Rows:
        """The rows of the run's sequence, in the order of ``view``; every run has put its own before."""

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """The recurrent state that the run's sequence has reached; None = zeroed."""

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Keep the state after the run's last token."""


def same_state(a: LayerState | None, b: LayerState | None) -> bool:
    """Are two states equal bit for bit? None equals the zeroed state; parts that one side lacks are not compared."""
    if a is None or b is None:
        return all(_is_zero(part) for part in (a or b or ()))
    if int(a.hash) != int(b.hash) or a.conv.tolist() != b.conv.tolist():
        return False
    return all(x is None or y is None or np.array_equal(x, y) for x, y in ((a.conv_x, b.conv_x), (a.h, b.h)))


def _is_zero(part: Digests | Values | int | None) -> bool:
    return part is None or not np.any(part)
