"""Numbers of a whole sequence in a single pass, and the oracle's table of layer kinds.

The formulas are those of the step forms, evaluated differently and in separate code: no state, no store, no runs.
Weights, tables, rotation, norms and ``project`` are shared. A test compares the table with that of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping, NamedTuple

import numpy as np

from cachesim.model.grid import Digests, Values, add_residual, project
from cachesim.model.norms import rms_norm
from cachesim.model.rope import Rotation, turns
from cachesim.model.spec import Layer, Spec
from cachesim.model.store import index_of
from cachesim.model.weights import Weights
from cachesim.oracle.whole_block_choice import block_attention, block_digests
from cachesim.oracle.whole_chosen import ChosenDigests, ChosenRead, chosen_attention, chosen_digests
from cachesim.oracle.whole_chunks import chunked_attention
from cachesim.oracle.whole_compressed import compressed_attention, compressed_digests
from cachesim.oracle.whole_parts import WholeRead, WholeScan, attention, delta_net, short_conv, ssm, unrotated_attention
from cachesim.oracle.whole_pools import pooled_attention, pooled_digests


class WholeKind(NamedTuple):
    """A row of the table: the whole-sequence forms of a layer's two parts, and the reach of its state."""

    attention: Callable[[Values, Any, Rotation, int], WholeRead] | None = None
    recurrence: Callable[[Values, Any, list[int]], WholeScan] | None = None
    taps: int = 0             # inputs that the recurrent part reads directly, including the token's own
    rolling: bool = False     # the state depends on all inputs
    chosen: Callable[[Values, Any, Rotation, Layer], ChosenRead] | None = None      # an attention with second rows
    digests: Callable[[Digests, Digests, Layer, Digests], ChosenDigests] | None = None      # of its second rows


WHOLE: Mapping[str, WholeKind] = {
    "A": WholeKind(attention),
    "W": WholeKind(attention),
    "K": WholeKind(chunked_attention),
    "N": WholeKind(unrotated_attention),
    "G": WholeKind(None, delta_net, 4, True),
    "S": WholeKind(None, ssm, 4, True),
    "C": WholeKind(None, short_conv, 3),
    "H": WholeKind(attention, ssm, 4, True),
    "I": WholeKind(chosen=chosen_attention, digests=chosen_digests),
    "P": WholeKind(chosen=pooled_attention, digests=pooled_digests),
    "B": WholeKind(chosen=block_attention, digests=block_digests),
    "D": WholeKind(chosen=compressed_attention, digests=compressed_digests),
}


@dataclass(slots=True)
class WholeNumbers:
    """Numbers of a sequence of n tokens, with recurrent states only after ``marks`` tokens."""

    x: Values                                                                       # (n, d) after the last layer
    k: dict[int, Values] = field(default_factory=dict)                              # layer -> (n, 2, 16)
    v: dict[int, Values] = field(default_factory=dict)                              # layer -> (n, 2, 16)
    states: dict[tuple[int, int], tuple[Values, Values]] = field(default_factory=dict)      # (layer, mark) -> conv_x, h


def whole_numbers(spec: Spec, weights: Weights, embedded: Values, marks: Iterable[int]) -> WholeNumbers:
    """Evaluate the sequence layer by layer; ``embedded`` (n, d) enters the first layer."""
    found = WholeNumbers(embedded)
    turn, wanted = turns(np.arange(len(embedded))), sorted(set(marks))
    for index, (layer, part) in enumerate(zip(spec.layers, weights.layers, strict=True)):
        whole, u = WHOLE[layer.kind], rms_norm(found.x, part.norm)
        if whole.attention:
            read, found.k[index], found.v[index] = whole.attention(u, part.attention, turn, layer.window)
            found.x = add_residual(found.x, project(read, part.attention.out))
        if whole.chosen:
            read_of = whole.chosen(u, part.attention, turn, layer)
            _keep(found, index, read_of, wanted)
            found.x = add_residual(found.x, project(read_of.y, part.attention.out))
        if whole.recurrence:
            scan = whole.recurrence(u, part.recurrence, wanted)
            found.x = add_residual(found.x, project(scan.y, part.recurrence.out))
            for mark in wanted:
                found.states[index, mark] = _state(scan, whole.taps - 1, mark)
    return found


def _keep(found: WholeNumbers, index: int, read: ChosenRead, wanted: list[int]) -> None:
    """Keep the rows of a layer, its second rows, and its compressor's inputs at the marks."""
    found.k[index], found.v[index] = read.k, read.v
    found.k[index_of(index)], found.v[index_of(index)] = read.second
    if read.inputs is not None:
        for mark in wanted:
            found.states[index, mark] = _state(WholeScan(read.y, read.inputs, {}), read.ring, mark)


def _state(scan: WholeScan, back: int, mark: int) -> tuple[Values, Values]:
    """Return ``conv_x`` and ``h`` after ``mark`` tokens."""
    conv_x, last = np.zeros((back, scan.inputs.shape[1])), scan.inputs[max(0, mark - back) : mark]
    conv_x[back - len(last) :] = last
    return conv_x, scan.h.get(mark, np.zeros((0, 0, 0)))
