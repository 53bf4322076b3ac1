"""Operations on buffers of rows, attention masks and MLX quantisation. No function writes into an array that it did not
create.

A buffer is [B, H, T, D]: batch rows, heads, columns (tokens), width. The dtype is up to the caller and may be
structured: rows are moved and never computed with. Padding is zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
INDEX = np.int32                 # counters per row of a batch, as in mlx


def stored(array: Array | None) -> Array:
    """Return the buffer. Raise TypeError if it is None, as indexing None does in the original."""
    if array is None:
        raise TypeError("the cache holds no buffer yet")
    return array


def columns(buffer: Array) -> int:
    """Return T, the number of allocated columns."""
    return int(buffer.shape[2])


def blank(like: Array, width: int, *, rows: int | None = None, dtype: Any = None) -> Array:
    """Return zeros of shape [rows, H, width, D]; the other axes are as in ``like``."""
    b, h, _, d = like.shape
    return np.zeros((b if rows is None else rows, h, width, d), like.dtype if dtype is None else dtype)


def joined(*parts: Array) -> Array:
    """Concatenate the columns of all parts."""
    return np.concatenate(parts, axis=2)


def written(buffer: Array, start: int, rows: Array) -> Array:
    """Return a copy of the buffer with ``rows`` in the columns from ``start`` on."""
    out = buffer.copy()
    out[:, :, start : start + columns(rows)] = rows
    return out


def with_room(buffer: Array | None, held: int, rows: Array, step: int) -> Array:
    """Return a buffer with room for ``rows`` from column ``held`` on, extended in blocks of ``step`` columns if
    necessary.

    A buffer that does not end with a whole block is cut to ``held`` columns first.
    """
    new = columns(rows)
    if buffer is not None and held + new <= columns(buffer):
        return buffer
    block = blank(rows, -(-new // step) * step)
    if buffer is None:
        return block
    return joined(buffer[:, :, :held] if held % step else buffer, block)


def rolled(buffer: Array, shifts: Array) -> Array:
    """Rotate each batch row to the right by its own number of columns. shifts: [B]. Raise ValueError, as the original
    does, if the buffer has another number of rows."""
    if len({len(buffer), len(shifts)} - {1}) > 1:
        raise ValueError(f"{len(shifts)} shifts for {len(buffer)} rows")
    t = columns(buffer)
    source = (np.arange(t)[None, :] - shifts[:, None]) % t             # [B, T]
    return np.take_along_axis(buffer, source[:, None, :, None], axis=2)


def rotated(array: Array, by: int, axis: int) -> Array:
    """Rotate an axis to the right by a number of places. For small arrays ``np.roll`` takes several times as long."""
    if not array.shape[axis]:
        return array
    axis %= array.ndim
    cut = -by % array.shape[axis]
    whole = (slice(None),) * axis
    return np.concatenate((array[(*whole, slice(cut, None))], array[(*whole, slice(cut))]), axis=axis)


def chosen(array: Array, rows: Sequence[int] | Array) -> Array:
    """Select rows of axis 0 by number, in the given order."""
    return array[np.asarray(rows, dtype=np.intp)]


def counters(values: Sequence[int] | Array) -> Array:
    """Convert a number per batch row, such as its offset, length or padding, to int32[B]."""
    return np.array(values, dtype=INDEX)


# Attention masks. True = the query sees the key.
#
# N: queries of this step. offset: keys before them. A mask is [N, offset + N], or [B, 1, N, offset + N] if the rows of
# a batch differ. ``Ranges`` is a compact form of such a mask for long prompts.

@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """A causal mask: query i of row b sees keys lo[b, i] .. hi[b, i]-1 of ``width``, and no key if that range is empty.
    ``batch``: True for the mask of a batch, False for the mask of a single row."""

    lo: Array                 # [B or 1, N]
    hi: Array                 # [B or 1, N]
    width: int
    batch: bool

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        keys = np.arange(self.width)
        seen = (keys >= self.lo[..., None]) & (keys < self.hi[..., None])
        return seen[:, None] if self.batch else seen[0]


Mask = Array | Ranges | Literal["causal"] | None


def causal_ranges(
    N: int, offset: int = 0, window_size: int | None = None, right_padding: Array | None = None,
    left_padding: Array | None = None,
) -> Ranges:
    """Return the causal mask within the window and outside each row's padding. Paddings: [B]."""
    rows = next((len(padding) for padding in (left_padding, right_padding) if padding is not None), 1)
    hi = np.empty((rows, N), np.int64)
    hi[:] = np.arange(offset + 1, offset + N + 1)
    lo = np.zeros((rows, N), np.int64) if window_size is None else np.maximum(hi - window_size, 0)
    if right_padding is not None:
        hi = np.minimum(hi, (offset + N - right_padding)[:, None])
    if left_padding is not None:
        lo = np.maximum(lo, left_padding[:, None])
    return Ranges(lo, hi, max(0, offset + N), left_padding is not None or right_padding is not None)


def create_causal_mask(
    N: int, offset: int = 0, window_size: int | None = None, right_padding: Array | None = None,
    left_padding: Array | None = None,
) -> Array:
    """Return ``causal_ranges`` as an array of booleans."""
    return np.asarray(causal_ranges(N, offset, window_size, right_padding, left_padding))


def create_attention_mask(N: int, offset: int, return_array: bool, window_size: int | None) -> Mask:
    """Return an array if necessary or requested, "causal" if a kernel can apply the mask itself, None for a
    single query."""
    if window_size is not None:
        return create_causal_mask(N, offset, window_size)
    if N == 1:
        return None
    return create_causal_mask(N, offset) if return_array else "causal"


# MLX's packed numbers. Each group of ``group_size`` numbers along the last axis shares a scale and a bias.
#
# A value is about scale * code + bias. Codes have ``bits`` bits and are packed from the lowest bit of 32-bit words.
# Verified against mlx 0.32.4 on a CPU (tests/peers).

Packed = tuple[Array, Array, Array]
"""Words uint32[..., D * bits / 32], scales[..., D / group_size], biases of the shape of the scales."""

SMALLEST_SCALE = np.float32(1e-7)
GROUP_SIZES, BITS = (32, 64, 128), (2, 3, 4, 5, 6, 8)


def quantize(rows: Array, group_size: int, bits: int) -> Packed:
    """Return codes, scales and biases of ``rows`` [..., D]. Raise ValueError where MLX does."""
    if group_size not in GROUP_SIZES or bits not in BITS or rows.shape[-1] % group_size:
        raise ValueError(f"cannot quantize a width of {rows.shape[-1]} with {bits} bits in groups of {group_size}")
    # [..., D / group, group]
    groups = rows.astype(np.float32).reshape(*rows.shape[:-1], rows.shape[-1] // group_size, group_size)
    scale, bias = _scale_and_bias(groups, bits)
    code = np.rint((groups - bias[..., None]) / scale[..., None])
    words = _packed(np.clip(code, 0, 2**bits - 1).astype(np.uint8).reshape(rows.shape), bits)
    return words, scale.astype(rows.dtype), bias.astype(rows.dtype)


def dequantize(packed: Packed, group_size: int, bits: int) -> Array:
    """Return the numbers [..., D] that the codes stand for, in the dtype of the scales."""
    words, scale, bias = packed
    stream = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, bitorder="little")
    codes = stream.reshape(*words.shape[:-1], stream.shape[-1] // bits, bits) @ (1 << np.arange(bits))     # [..., D]
    groups = codes.reshape(*scale.shape, group_size).astype(scale.dtype)
    return np.asarray(groups * scale[..., None] + bias[..., None]).reshape(codes.shape)


def _scale_and_bias(groups: Array, bits: int) -> tuple[Array, Array]:
    """Return scale and bias of each group, [..., D / group]. The end of larger magnitude is exact, the other end as
    close as the codes allow."""
    low, high = groups.min(-1), groups.max(-1)
    from_low = np.abs(low) > np.abs(high)
    scale = np.maximum((high - low) / np.float32(2**bits - 1), SMALLEST_SCALE)
    scale = np.where(from_low, scale, -scale)
    edge = np.where(from_low, low, high)
    steps = np.rint(edge / scale)
    some = steps != 0
    scale = np.where(some, edge / np.where(some, steps, np.float32(1)), scale)
    return scale, np.where(some, edge, np.float32(0))


def _packed(codes: Array, bits: int) -> Array:
    """Pack codes uint8[..., D] into uint32[..., D * bits / 32], lowest bit first."""
    stream = np.unpackbits(codes[..., None], axis=-1, count=bits, bitorder="little")
    octets = np.packbits(stream.reshape(*codes.shape[:-1], codes.shape[-1] * bits), axis=-1, bitorder="little")
    return octets.view(np.uint32)
