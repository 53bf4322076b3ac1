"""Bytes of the compressed rows and rings that ik_llama.cpp keeps for DeepSeek-V4 beside the cells.

Every slot has room for the compressed rows of the whole context, which slots do not divide. A saved sequence contains
all of them, used or not, even where the rows of its cells are left out. Read in the source, not recorded.

Source: ik_llama.cpp src/llama-dsv4.cpp ensure_dsv4_cache_tensors, src/llama.cpp write_kv_cache_data (8337e4cd3).
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.base.errors import BadInput
from cachesim.engines.shared.memory_use import row_bytes
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.size_formulas import F32, LayerSize

OVERLAPPED = 4                  # ratio of the compressor that also reads the tokens of the row before
ROWS_PAD = 256                  # room for a multiple of so many rows
TYPES = ("f16", "bf16", "q8_0")
HEADER, LAYER_HEADER = 16, 4    # of a saved sequence


class CompressedMemory(NamedTuple):
    """What a slot keeps beside its cells. ``rows``: bytes of its compressed rows, ``rings``: of the states of its
    compressors; ``layers``: all layers of the model."""

    rows: int
    rings: int
    layers: int

    @property
    def saved(self) -> int:
        """Bytes of both in a saved sequence."""
        return HEADER + LAYER_HEADER * self.layers + self.rows + self.rings if self.rows else 0


def compressed_memory(model: RealModel, n_ctx: int, key: str, index: str) -> CompressedMemory:
    """Return what a slot keeps of a model, with rows and index rows of these types; 0 bytes for a model without
    compressed rows. Raise BadInput for types with which the server does not start."""
    if not model.compressed:
        return CompressedMemory(0, 0, len(model.layers))
    for kind, what in ((key, "rows"), (index, "index rows")):
        if kind not in TYPES:
            raise BadInput(f"the server does not start: {what} of this model cannot be stored as {kind}",
                           hint=" or ".join(TYPES))  # fmt: skip
    rows = sum(_room(n_ctx, layer.ratio) * _row(layer, key, index) for layer in model.compressed)
    return CompressedMemory(rows, sum(_ring(layer) for layer in model.compressed), len(model.layers))


def _room(n_ctx: int, ratio: int) -> int:
    """Return the number of compressed rows that a slot has room for."""
    rows = -(-n_ctx // ratio)
    return -(-rows // ROWS_PAD) * ROWS_PAD


def _row(layer: LayerSize, key: str, index: str) -> int:
    """Return the bytes of a compressed row with its index row."""
    return row_bytes(LayerSize("D", layer.key), key, key) + row_bytes(LayerSize("D", layer.index_key), index, index)


def _ring(layer: LayerSize) -> int:
    """Return the bytes of the inputs and scores of a layer's compressors, of which the overlapping ones keep those of
    two rows."""
    places, parts = (2 * layer.ratio, 2) if layer.ratio == OVERLAPPED else (layer.ratio, 1)
    return 2 * F32 * places * parts * (layer.key + layer.index_key)
