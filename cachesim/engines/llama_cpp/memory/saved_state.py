"""What is a saved state made of, and how many bytes does the real engine need for it?

A state blob is the copy of one sequence: a part for each attention cache and one for the recurrent cells.
Sizes are computed from the declared shapes of the model, as the real file format adds them up; the arrays
of the toy model behind them have their own, smaller, shapes.

Source: llama.cpp src/llama-kv-cache.cpp state_write, src/llama-memory-recurrent.cpp state_write, src/llama-context.cpp
(3f545be), checked against slot files and logged sizes of the recorded traces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Mapping, NamedTuple

import numpy as np

from cachesim.engines.base import Immutable
from cachesim.engines.inspection import StatePart
from cachesim.model import Rows

HOST_HEADER = 8        # bytes in front of a blob kept in host memory: a magic and the sequence id

KeepCells = Callable[[np.ndarray, int, int], np.ndarray]
"""(positions, pos_max, n_swa) -> which cells a saved state contains (a rule of the profile)."""


LOADING = "state_seq_set_data: error loading state:"


class StateReadError(Exception):
    """A saved state could not be put back; the caller sees 0 bytes read. Its text is the first line that the library
    logs, ``lines`` all that it logs where the state comes from memory, not from a file."""

    @property
    def lines(self) -> tuple[str, str]:
        """What is logged of it."""
        return str(self), f"{LOADING} failed to restore kv cache"


class StateForm(NamedTuple):
    """What builds write differently, in bytes: ``ext_bytes`` with each cell of a 2-D position, ``data_header`` before
    the rows of an attention cache."""

    ext_bytes: int = 8
    data_header: int = 8


STATE_FORM = StateForm()


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Declared shape of one attention cache: layers, bytes of one K row plus one V row, 2-D positions or not."""

    layers: int
    row_bytes: int
    mrope: bool = False
    form: StateForm = STATE_FORM

    def size(self, n: int, n_stream: int) -> int:
        """Bytes of one sequence of n cells in a cache of n_stream streams."""
        per_cell = 12 + (self.form.ext_bytes if self.mrope else 0) + self.layers * self.row_bytes
        return 4 + 4 * n_stream + (self.form.data_header + 24 * self.layers + n * per_cell if n else 0)


@dataclass(frozen=True, slots=True)
class RecurrentShape:
    """Declared shape of the recurrent memory: its layers, bytes of all rows of a cell."""

    layers: int
    row_bytes: int

    def size(self, present: bool) -> int:
        """Bytes of one sequence, with or without a cell."""
        return 12 + 24 * self.layers + (8 + self.row_bytes if present else 0)


class AttentionState(NamedTuple):
    """Cells of one sequence by cell index: positions (n,), rows per layer ({} without a model)."""

    pos: np.ndarray
    rows: Mapping[int, Rows]


class RecurrentState(StatePart):
    """The one cell of a sequence: its position, -1 if it had none, and the state of every recurrent layer; as a judge
    sees it, too."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Blob(Immutable):
    """A saved sequence. ``base``, ``swa`` and ``recr`` are None where the state does not contain the part;
    ``size`` is in bytes, without the header of a blob in host memory."""

    size: int
    base: AttentionState | None = None
    swa: AttentionState | None = None
    recr: RecurrentState | None = None
