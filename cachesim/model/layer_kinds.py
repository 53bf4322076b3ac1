"""Kinds of layers: a row for each letter of a model's notation.

A layer has an attention part, a recurrent part, or both on the same input. A part names the function that draws its
weights and its step form, and declares what a memory must keep. The oracle has its own table of whole-sequence forms.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np

from cachesim.model import attention, recurrent, weights
from cachesim.model.block_choice import BEST_BLOCKS
from cachesim.model.chosen_rows import BEST_ROWS, Chooser, draw_choosing
from cachesim.model.compressed_rows import draw_compressing
from cachesim.model.grid import Values, frozen
from cachesim.model.pooled_index import BEST_POOLS, POOL
from cachesim.model.recurrent import RecurrentStep
from cachesim.model.rope import Rotation
from cachesim.model.store import LayerState
from cachesim.model.weights import HEAD, HEADS, WIDE, D, WeightDraw

_BLOCK = 64                   # tokens prepared at a time: their matrices fit into the processor's cache


class Attention(NamedTuple):
    """An attention part: every token writes a K/V row. ``chooser``: it also writes an index row, by which later tokens
    choose the rows that they read; ``compresses``: every ``ratio`` tokens also make a compressed row."""

    part: str                 # memory of its rows: "base", "swa" for a layer with a window, "chunk" for one with chunks
    draw: Callable[[WeightDraw], Any] = weights.draw_attention
    heads: Callable[[Values, Any, Rotation], attention.Heads] = attention.heads
    attend: Callable[..., Values] = attention.attend
    rotated: bool = True      # K rows are rotated by their positions (RoPE), and by a K-shift; llama.cpp before b10342
                              # rotated all layers of a model if it rotated one, which is not simulated
    chooser: Chooser | None = None
    compresses: bool = False


class Recurrence(NamedTuple):
    """A recurrent part: a state passes from token to token."""

    draw: Callable[[WeightDraw], Any]
    step: Callable[[Values, Any, Values, Values, Values], RecurrentStep]
    taps: int                 # 1 to 4: inputs that a token reads directly, including its own; the state keeps taps-1
    channels: int             # numbers in a kept input
    matrix: tuple[int, ...] = ()      # shape of ``h``, which depends on all inputs; () = the state is the kept inputs

    @property
    def state_numbers(self) -> tuple[int, ...]:
        """Count of numbers in the kept inputs of a state, then in its matrix if the kind has a matrix."""
        inputs = (self.taps - 1) * self.channels
        return (inputs, math.prod(self.matrix)) if self.matrix else (inputs,)

    def run(self, u: Values, weights: Any, state: LayerState | None) -> RecurrentStep:
        """Evaluate tokens after a state, in blocks. None is the zero state."""
        if state is None or state.conv_x is None or state.h is None:
            conv_x, h = np.zeros((self.taps - 1, self.channels)), np.zeros(self.matrix)
        else:
            conv_x, h = state.conv_x, state.h
        room = np.empty((2, min(len(u), _BLOCK), *h.shape))                 # (2, t, 4, 16, 16) for every block
        y = []
        for start in range(0, len(u), _BLOCK):
            step = self.step(u[start : start + _BLOCK], weights, conv_x, h, room)
            conv_x, h = step.conv_x, step.h.copy()                          # the next block reuses this room
            y.append(step.y)
        return RecurrentStep(y[0] if len(y) == 1 else np.concatenate(y), frozen(conv_x.copy()), frozen(h))


class LayerKind(NamedTuple):
    """A row of the table. ``words``: name of the kind for users; ``numbers``: fields of a ``Layer`` that follow the
    letter, of which those in ``optional`` may be left out; ``unit``: its count is a multiple of this; ``newest``: only
    engines that name the kind have it."""

    letter: str
    words: str
    attention: Attention | None = None
    recurrence: Recurrence | None = None
    numbers: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    unit: int = 1
    newest: bool = False


_MATRIX = (HEADS, HEAD, HEAD)
_DELTA_NET = Recurrence(weights.draw_delta_net, recurrent.delta_net, weights.GATED_TAPS, 3 * WIDE, _MATRIX)
_SSM = Recurrence(weights.draw_ssm, recurrent.ssm, weights.GATED_TAPS, WIDE + 2 * HEAD, _MATRIX)
_SHORT_CONV = Recurrence(weights.draw_short_conv, recurrent.short_conv, weights.SHORT_TAPS, D)


def _choosing(chooser: Chooser) -> Attention:
    return Attention("base", draw_choosing, chooser=chooser)


KINDS: Mapping[str, LayerKind] = {kind.letter: kind for kind in (
    LayerKind("A", "attention", Attention("base")),
    LayerKind("W", "attention over a window", Attention("swa"), numbers=("window",)),
    LayerKind("K", "attention within chunks", Attention("chunk"), numbers=("window",)),
    LayerKind("N", "attention without RoPE", Attention("base", heads=attention.unrotated_heads, rotated=False)),
    LayerKind("G", "gated delta net", None, _DELTA_NET),
    LayerKind("S", "Mamba-2 SSM", None, _SSM),
    LayerKind("C", "short convolution", None, _SHORT_CONV),
    LayerKind("H", "attention beside SSM", Attention("base"), _SSM),
    LayerKind("I", "attention to the best rows", _choosing(BEST_ROWS), numbers=("count",), newest=True),
    LayerKind("P", "attention to the best pools of 4 rows", _choosing(BEST_POOLS), numbers=("count",), unit=POOL,
              newest=True),
    LayerKind("B", "attention to the best blocks of 16 rows", _choosing(BEST_BLOCKS), numbers=("count",), newest=True),
    LayerKind("D", "window and compressed rows", Attention("swa", draw_compressing, compresses=True),
              numbers=("ratio", "window", "count"), optional=("count",), newest=True),
)}  # fmt: skip
