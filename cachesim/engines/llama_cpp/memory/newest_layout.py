"""Layout of the newest memories: their class by the kinds of their layers, and the declared sizes of rows and rings.

dsa          index rows beside the rows of every indexed layer (I, or another kind with a chooser)
dsa_iswa     the same, with windows (W)
msa          index rows of layers that choose blocks (B)
hybrid_idx   a hybrid with pooled index rows (P)
dsv4         windows, compressed rows and the rings of their compressors (D)

Source: llama.cpp src/llama-model.cpp create_memory, src/llama-kv-cache-dsv4.cpp state_write (b11549). The numbers are
those of the recorded tiny models, whose slot files have these sizes to the byte.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from cachesim.model.layer_kinds import KINDS
from cachesim.model.spec import Layer

SIMULATED_SINCE = {"dsv4": "b10229", "dsa": "b10566", "msa": "b10566", "dsa_iswa": "b10809", "hybrid_idx": "b10809"}
"""Class of memory -> the first build whose rules for it are known."""
NEWEST = ("dsa", "dsa_iswa", "msa", "hybrid_idx", "dsv4")


def memory_class(layers: Sequence[Layer]) -> str:
    """Return the class of the memory that a model with these layers has, "" for an older one."""
    kinds = {layer.kind for layer in layers}
    if "D" in kinds:
        return "dsv4"
    if "P" in kinds:
        return "hybrid_idx"
    if "B" in kinds:
        return "msa"
    if any(map(chooses, layers)):
        return "dsa_iswa" if "W" in kinds else "dsa"
    return ""


class CacheRows(NamedTuple):
    """Rows of a layer in an attention cache: ``each`` bytes for a token, in so many ``tensors``."""

    each: int
    tensors: int = 2


OLDER = CacheRows(256)
ROWS: Mapping[tuple[str, str], CacheRows] = {
    ("dsa", "base"): CacheRows(192, 1), ("dsa", "idx"): CacheRows(256, 1),
    ("dsa_iswa", "base"): CacheRows(192, 1), ("dsa_iswa", "idx"): CacheRows(256, 1),
    ("dsa_iswa", "swa"): CacheRows(192, 1),
    ("msa", "base"): CacheRows(256), ("msa", "idx"): CacheRows(128),
    ("hybrid_idx", "base"): CacheRows(256),
    ("dsv4", "swa"): CacheRows(128, 1),
}  # fmt: skip
"""Class of memory and part -> rows of the recorded tiny models, F32. The index cache of msa also has V rows, which
nothing reads."""

POOL_KEY = 64
"""Bytes of a key in an index row of pooled rows of the recorded tiny model, F32. Builds differ in the keys of a row."""

QUANTIZED: Mapping[str, tuple[int, int]] = {
    "q8_0": (32, 34), "q4_0": (32, 18), "q4_1": (32, 20), "iq4_nl": (32, 18), "q5_0": (32, 22), "q5_1": (32, 24),
}  # fmt: skip
"""Type of quantized rows -> numbers and bytes of a block."""


def stored_bytes(declared: int, number: int, types: Sequence[str]) -> int:
    """Return the bytes of a token's rows, of which ``declared`` have numbers of so many bytes, if its tensors have
    these types: a type that is not quantized takes the declared bytes."""
    total = 0
    for name in types:
        own = declared // len(types)
        if name in QUANTIZED:
            block, size = QUANTIZED[name]
            own = own // number // block * size
        total += own
    return total + declared % len(types)


def index_layers(layers: Sequence[Layer]) -> tuple[int, ...]:
    """Return the layers that keep index rows."""
    return tuple(i for i, layer in enumerate(layers) if chooses(layer))


def chooses(layer: Layer) -> bool:
    """True if a layer keeps index rows."""
    attention = KINDS[layer.kind].attention
    return attention is not None and attention.chooser is not None


# --- dsv4 ------------------------------------------------------------------------------------------------------

ROWS_PAD = 256                # a cache has room for a multiple of so many compressed rows
OVERLAPPED = 4
"""Ratio of the compressor that also reads the tokens of the row before, and whose rows are chosen by an index."""
STATE_HEADER = 12
ROWS_HEADER = 16
LAYER_HEADER = 32
RING_HEADER = 24
RING_LAYER = 60
NUMBER = 4                    # bytes of a number of a ring, and of the recorded rows


class CompressedShape(NamedTuple):
    """Compressed rows of some layers: a row of ``each`` bytes for every ``ratio`` tokens."""

    layers: int
    ratio: int
    each: int

    def size(self, n_tokens: int) -> int:
        """Return the bytes of the rows of this many tokens in a saved state."""
        return ROWS_HEADER + self.layers * (LAYER_HEADER + n_tokens // self.ratio * self.each)

    def cells(self, n_ctx_seq: int) -> int:
        """Return the number of rows that a sequence has room for."""
        return -(-max(1, -(-n_ctx_seq // self.ratio)) // ROWS_PAD) * ROWS_PAD


class RingShape(NamedTuple):
    """Rings of some layers' compressors: ``places`` inputs of ``width`` numbers, each with as many scores."""

    layers: int
    places: int
    width: int

    @property
    def bytes(self) -> int:
        """Bytes of the rings."""
        return self.layers * 2 * self.places * self.width * NUMBER

    @property
    def size(self) -> int:
        """Bytes of the rings in a saved state."""
        return RING_HEADER + self.layers * RING_LAYER + self.bytes


class Dsv4Shape(NamedTuple):
    """Declared shape of what a dsv4 memory keeps beside its cells."""

    rows: tuple[CompressedShape, ...]
    rings: tuple[RingShape, ...]

    def size(self, n_tokens: int, partial: bool) -> int:
        """Return the bytes of a saved state of this many tokens without its cells. ``partial``: without compressed
        rows."""
        rows = 0 if partial else sum(shape.size(n_tokens) for shape in self.rows)
        return STATE_HEADER + rows + sum(ring.size for ring in self.rings)


class Widths(NamedTuple):
    """Numbers of a K row and of an index row, and the bytes of each."""

    head: int
    index_head: int
    head_bytes: int
    index_bytes: int


RECORDED = Widths(32, 64, 32 * NUMBER, 64 * NUMBER)


def dsv4_shape(ratios: Sequence[int], widths: Widths = RECORDED) -> Dsv4Shape:
    """Return the shape of a model whose layers have these ratios, 0 = no compressed rows. The original has two ratios,
    and a cache and a ring for each even if no layer has it."""
    counts = {ratio: sum(1 for one in ratios if one == ratio) for ratio in (OVERLAPPED, 128, *sorted({*ratios} - {0}))}
    head, index = widths.head, widths.index_head
    rows = [CompressedShape(n, ratio, widths.head_bytes) for ratio, n in counts.items()]
    rings = [RingShape(n, 2 * ratio if ratio == OVERLAPPED else ratio, 2 * head if ratio == OVERLAPPED else head)
             for ratio, n in counts.items()]  # fmt: skip
    rows.append(CompressedShape(counts[OVERLAPPED], OVERLAPPED, widths.index_bytes))
    rings.append(RingShape(counts[OVERLAPPED], 2 * OVERLAPPED, 2 * index))
    return Dsv4Shape(tuple(rows), tuple(rings))
