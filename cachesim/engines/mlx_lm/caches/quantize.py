"""How does MLX pack numbers? Groups of ``group_size`` along the last axis share a scale and a bias.

A value is about scale * code + bias, codes of ``bits`` bits, packed from the lowest bit of 32-bit words. Settled
against mlx 0.32.4 on a CPU (tests/peers).
"""

from __future__ import annotations

import numpy as np

from cachesim.engines.mlx_lm.caches.array_ops import Array

Packed = tuple[Array, Array, Array]
"""Words uint32[..., D * bits / 32], scales[..., D / group_size], biases like the scales."""

SMALLEST_SCALE = np.float32(1e-7)
GROUP_SIZES, BITS = (32, 64, 128), (2, 3, 4, 5, 6, 8)


def quantize(rows: Array, group_size: int, bits: int) -> Packed:
    """Codes, scales and biases of ``rows`` [..., D]. Raises ValueError where MLX does."""
    if group_size not in GROUP_SIZES or bits not in BITS or rows.shape[-1] % group_size:
        raise ValueError(f"no groups of {group_size} with {bits} bits in a width of {rows.shape[-1]}")
    # [..., D / group, group]
    groups = rows.astype(np.float32).reshape(*rows.shape[:-1], rows.shape[-1] // group_size, group_size)
    scale, bias = _scale_and_bias(groups, bits)
    code = np.rint((groups - bias[..., None]) / scale[..., None])
    words = _packed(np.clip(code, 0, 2**bits - 1).astype(np.uint8).reshape(rows.shape), bits)
    return words, scale.astype(rows.dtype), bias.astype(rows.dtype)


def dequantize(packed: Packed, group_size: int, bits: int) -> Array:
    """The numbers [..., D] that the codes stand for, in the dtype of the scales."""
    words, scale, bias = packed
    stream = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=-1, bitorder="little")
    codes = stream.reshape(*words.shape[:-1], stream.shape[-1] // bits, bits) @ (1 << np.arange(bits))     # [..., D]
    groups = codes.reshape(*scale.shape, group_size).astype(scale.dtype)
    return np.asarray(groups * scale[..., None] + bias[..., None]).reshape(codes.shape)


def _scale_and_bias(groups: Array, bits: int) -> tuple[Array, Array]:
    """The end of larger magnitude is met exactly, the other end as nearly as the codes allow. [..., D / group]"""
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
    """uint32[..., D * bits / 32] from codes uint8[..., D], lowest bit first."""
    stream = np.unpackbits(codes[..., None], axis=-1, count=bits, bitorder="little")
    octets = np.packbits(stream.reshape(*codes.shape[:-1], codes.shape[-1] * bits), axis=-1, bitorder="little")
    return octets.view(np.uint32)
