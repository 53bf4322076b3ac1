"""Writer of GGUF files with random weights. Standard library only.

Exported programs contain the code of this module, so that they can write the model (``export/program_text.py``).
Random values depend only on the seed and the tensor's name: a file has equal bytes on every machine.
Source: ggml docs/gguf.md, version 3.
"""

from __future__ import annotations

import math
import struct
from hashlib import shake_256
from typing import Any, Mapping, NamedTuple, Sequence

ALIGNMENT = 32
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64 = 4, 5, 6, 7, 8, 9, 10


class Uint64s(NamedTuple):
    """Value of a key: an array of UINT64."""

    numbers: tuple[int, ...]


class Tensor(NamedTuple):
    """An F32 tensor. ``shape``: fastest dimension first. ``std``, ``mean``: of its random values."""

    name: str
    shape: tuple[int, ...]
    std: float = 0.0
    mean: float = 0.0
    decay: float = 0.0          # if not 0: decay rates up to this value instead of random values, slow rates first
    is_identity: bool = False      # add the unit matrix to the first columns


class TinyModel(NamedTuple):
    """Keys and tensors of a model."""

    keys: Mapping[str, Any]
    outer: Sequence[Tensor]                     # tensors outside of the layers
    kinds: Mapping[str, Sequence[Tensor]]       # tensors of each kind of layer
    order: str                                  # kinds of the layers, in order
    seed: int = 0                               # of the random values

    def tensors(self) -> list[Tensor]:
        """Return all tensors in file order; names of layer tensors get the prefix `blk.N.`."""
        blocks = [(i, one) for i, kind in enumerate(self.order) for one in self.kinds[kind]]
        return [*self.outer, *(one._replace(name=f"blk.{i}.{one.name}") for i, one in blocks)]

    def write(self, path: str, seed: int = 0) -> None:
        """Write the file. ``seed``: of the random values, 0 = the model's."""
        write_gguf(path, self.keys, self.tensors(), seed or self.seed)


def tensor_values(tensor: Tensor, seed: int) -> list[float]:
    """Return the values of a tensor in file order; normal values are sums of four uniform values."""
    n = math.prod(tensor.shape)
    if tensor.decay:
        return [-round(tensor.decay * 300.0 ** (i / (n - 1) - 1.0), 6) for i in reversed(range(n))]
    bits = struct.iter_unpack("<4H", shake_256(f"{seed} {tensor.name}".encode()).digest(8 * n))
    mean, std = tensor.mean, tensor.std
    out = [mean + std * (a + b + c + d - 2 * 65535) / 37837.0 for a, b, c, d in bits]   # 65536 / sqrt(3): deviation
    if tensor.is_identity:
        for i in range(min(tensor.shape)):
            out[i * tensor.shape[0] + i] += 1.0
    return out


def write_gguf(path: str, keys: Mapping[str, Any], tensors: Sequence[Tensor], seed: int = 0) -> None:
    """Write a file with these keys and tensors. An int becomes UINT32, in a tuple UINT32, in a list INT32."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(_string(key) + _value(value) for key, value in keys.items())
    offset = 0
    for tensor in tensors:
        n_dims = len(tensor.shape)
        head += _string(tensor.name) + struct.pack(f"<I{n_dims}QIQ", n_dims, *tensor.shape, 0, offset)
        offset += len(_padded(bytes(4 * math.prod(tensor.shape))))
    with open(path, "wb") as file:
        file.write(_padded(head))
        for tensor in tensors:
            numbers = tensor_values(tensor, seed)
            file.write(_padded(struct.pack(f"<{len(numbers)}f", *numbers)))


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    """Return a key's value after the number of its type."""
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", FLOAT32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _string(value)
    if isinstance(value, Uint64s):
        return struct.pack(f"<IIQ{len(value.numbers)}Q", ARRAY, UINT64, len(value.numbers), *value.numbers)
    kind = STRING if isinstance(value[0], str) else UINT32 if isinstance(value, tuple) else INT32
    items = [_string(one) if kind == STRING else struct.pack("<i", one) for one in value]
    return struct.pack("<IIQ", ARRAY, kind, len(value)) + b"".join(items)
