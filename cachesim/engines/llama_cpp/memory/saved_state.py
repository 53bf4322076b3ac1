"""Saved states of a sequence, and their size in bytes in the real engine.

A state blob is a copy of a sequence: a part for each attention cache and a part for the recurrent cells.
Sizes are computed from the declared shapes of the model, as in the real file format. The arrays of the toy model have
their own, smaller shapes.

Source: llama.cpp src/llama-kv-cache.cpp state_write, src/llama-memory-recurrent.cpp state_write, src/llama-context.cpp
(3f545be), checked against slot files and logged sizes of the recorded traces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable, Mapping, NamedTuple, Protocol

import numpy as np

from cachesim.engines.base import Immutable
from cachesim.engines.inspection import StatePart
from cachesim.model import KVRows

HOST_HEADER = 8        # bytes before a blob in host memory: a magic and the sequence id

KeepCells = Callable[[np.ndarray, int, int], np.ndarray]
"""(positions, pos_max, n_swa) -> mask of the cells that a saved state contains (a rule of the profile)."""


LOADING = "state_seq_set_data: error loading state:"


class StateReadError(Exception):
    """A saved state could not be restored; the caller gets 0 bytes read. The text is the first line that the library
    logs; ``lines`` are all lines that it logs for a state in host memory (not in a file)."""

    @property
    def lines(self) -> tuple[str, str]:
        """All log lines of this error, for a state in host memory."""
        return str(self), f"{LOADING} failed to restore kv cache"


class StateForm(Protocol):
    """Differences between builds in the state format. A rule set has these numbers."""

    @property
    def ext_bytes(self) -> int:
        """Bytes added to each cell with a 2-D position."""

    @property
    def data_header(self) -> int:
        """Bytes before the rows of an attention cache."""

    @property
    def pool_keys(self) -> int:
        """Keys in an index row of pooled rows, each of as many bytes."""

    @property
    def pool_tensors(self) -> int:
        """Tensors that hold the keys of an index row of pooled rows."""


class StateNumbers(NamedTuple):
    """Numbers of a state format; the defaults are those of most builds."""

    ext_bytes: int = 8
    data_header: int = 8
    pool_keys: int = 2
    pool_tensors: int = 1


STATE_FORM = StateNumbers()


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Declared shape of an attention cache: number of layers, bytes of a K row plus a V row, 2-D positions or not;
    ``tensors``: 2, or 1 if the layers have no V rows."""

    layers: int
    row_bytes: int
    mrope: bool = False
    form: StateForm = STATE_FORM
    tensors: int = 2

    def size(self, n: int, n_stream: int) -> int:
        """Return the bytes of a sequence of n cells in a cache of n_stream streams."""
        per_cell = 12 + (self.form.ext_bytes if self.mrope else 0)
        return 4 + 4 * n_stream + n * per_cell + self.rows_size(n)

    def rows_size(self, n: int) -> int:
        """Return the bytes of the rows of n cells, which come last, with their headers."""
        headers = 12 * self.tensors
        return self.form.data_header + self.layers * (headers + n * self.row_bytes) if n else 0


@dataclass(frozen=True, slots=True)
class RecurrentShape:
    """Declared shape of the recurrent memory: number of layers, bytes of all rows of a cell; ``histories``: layers that
    also keep the history of n-gram embeddings, whose bytes ``row_bytes`` includes."""

    layers: int
    row_bytes: int
    histories: int = 0

    @property
    def headers(self) -> int:
        """Bytes before the rows of the layers."""
        return 24 * self.layers + 8 * self.histories

    def size(self, present: bool) -> int:
        """Return the bytes of a sequence with or without a cell."""
        return 12 + self.headers + (8 + self.row_bytes if present else 0)

    def rows_size(self, present: bool) -> int:
        """Return the bytes of the states, which come last, with their headers."""
        return 8 + self.headers + (self.row_bytes if present else 0)


class AttentionState(NamedTuple):
    """Cells of a sequence in order of cell index: positions (n,), rows per layer ({} without a model)."""

    pos: np.ndarray
    rows: Mapping[int, KVRows]


class RecurrentState(StatePart):
    """Recurrent cell of a sequence: its position, -1 if it had no cell, and the state of every recurrent layer. The
    judge reads it as a ``StatePart``."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Blob(Immutable):
    """Saved sequence. ``base``, ``swa``, ``recr``, ``idx`` (index rows) and ``compressed`` (rows by layer, in the order
    of their numbers) are None if the state does not contain the part. ``size`` [bytes] excludes the header of a blob in
    host memory."""

    size: int
    base: AttentionState | None = None
    swa: AttentionState | None = None
    recr: RecurrentState | None = None
    idx: AttentionState | None = None
    compressed: Mapping[int, KVRows] | None = None

    def with_compressed(self, rows: Mapping[int, KVRows]) -> Blob:
        """Return the state with these compressed rows."""
        return replace(self, compressed=rows)
