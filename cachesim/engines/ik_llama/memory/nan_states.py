"""Rows, states and answers that are not a number: what a token leaves behind to which no cell is visible.

Attention over nothing divides zero by zero. The token's rows in the layers above, its recurrent states and its answer
are then not a number, and so is every token of a micro-batch that reads such a cell: a masked weight is zero, and zero
times not-a-number is not a number. A recurrent row that is zeroed is a number again: a factor of 0 writes zeros.
One digest is the mark, so that it travels with saved rows and states.
Source: ik_llama.cpp src/llama-delta-net.cpp build_qkv, ggml/src/ggml.c ggml_compute_forward_scale_f32 (8337e4cd3).
"""

from __future__ import annotations

from typing import Mapping, Sequence

import numpy as np

from cachesim.engines.shared.batch import TokenOutput, Ubatch
from cachesim.engines.shared.kv_rows import RowTable, read_rows, write_rows
from cachesim.model import LayerState, Rows, Spec

NAN = np.uint64(0x7FF8_0000_0000_0001)
"""Digest of a row or state that is not a number."""

States = dict[int, LayerState | None]


def is_nan(state: LayerState | None) -> bool:
    """True if a recurrent state is not a number."""
    return state is not None and state.hash == int(NAN)


def has_nan(rows: Mapping[int, Rows], states: States) -> bool:
    """True if a saved sequence contains anything that is not a number."""
    return any((one.digest == NAN).any() for one in rows.values()) or any(map(is_nan, states.values()))


def spoil(spec: Spec, rows: RowTable, states: Sequence[States], before: Sequence[frozenset[int]], ubatch: Ubatch,
          first: int, n_kv: int, blind: Sequence[dict[str, np.ndarray]]) -> list[np.ndarray]:
    """Mark what a micro-batch computed that is not a number; returns for each run which of its tokens' answers are not.

    ``first``: cell of its first token; ``before``: for each run the layers whose state was not a number before;
    ``blind``: for each run and part of the memory, (t,) which tokens see no cell. Layer by layer: all tokens read the
    cells 0 .. n_kv-1."""
    lost = [np.zeros(len(run.tokens), bool) for run in ubatch.runs]
    starts = [first + at - ubatch.at[0] for at in ubatch.at]
    for index, layer in enumerate(spec.layers):
        given = [one.copy() for one in lost]
        if layer.part:
            for start, mine in zip(starts, given, strict=True):
                if len(cells := start + np.flatnonzero(mine)):
                    read = read_rows(rows[index], cells)
                    write_rows(rows, index, cells, Rows(np.full(len(cells), NAN), read.k, read.v))
            spoilt = bool((rows[index].digest[:n_kv] == NAN).any())
            for mine, views in zip(lost, blind, strict=True):
                mine |= views[layer.notation] | spoilt
        if layer.recurrence:
            for run, mine, old, was in zip(ubatch.runs, lost, given, before, strict=True):
                reached = np.logical_or.accumulate(old | (index in was))
                mine |= reached
                if reached[-1]:
                    state = states[run.seq][index]
                    assert state is not None
                    states[run.seq][index] = state._replace(hash=int(NAN))
    return lost


def silenced(spoken: dict[int, TokenOutput], ubatch: Ubatch, lost: Sequence[np.ndarray]) -> dict[int, TokenOutput]:
    """The answers of a micro-batch, by place in the batch, with those that are not a number marked."""
    out = dict(spoken)
    for at, mine in zip(ubatch.at, lost, strict=True):
        for place in at + np.flatnonzero(mine):
            if (said := out.get(int(place))) is not None:
                logits = None if said.logits is None else np.full_like(said.logits, np.nan)
                out[int(place)] = TokenOutput(int(NAN), logits)
    return out
