"""Canonical CBOR of the values that block hashes include.

Source: RFC 8949, sections 3 and 4.2.1; vLLM vllm/utils/hashing.py sha256_cbor (0.33.0).
"""

from __future__ import annotations

from typing import Any

NULL = b"\xf6"
POSITIVE, BYTES, TEXT, ARRAY = 0, 2, 3, 4
"""Major types."""
SIZES = ((1 << 8, 24, 1), (1 << 16, 25, 2), (1 << 32, 26, 4), (1 << 64, 27, 8))
"""Numbers below a limit -> additional information, and bytes that follow."""


def canonical_cbor(value: Any) -> bytes:
    """Return None, a number from 0 to 2**64 - 1, bytes, a text, or a sequence of such values as CBOR."""
    if value is None:
        return NULL
    if isinstance(value, int):
        return _head(POSITIVE, value)
    if isinstance(value, bytes):
        return _head(BYTES, len(value)) + value
    if isinstance(value, str):
        text = value.encode()
        return _head(TEXT, len(text)) + text
    return _head(ARRAY, len(value)) + b"".join(map(canonical_cbor, value))


def _head(major: int, number: int) -> bytes:
    """Return the beginning of an item: its type, with a number in the fewest bytes."""
    if number < 24:
        return bytes([major << 5 | number])
    _, information, width = next(size for size in SIZES if number < size[0])
    return bytes([major << 5 | information]) + number.to_bytes(width, "big")
