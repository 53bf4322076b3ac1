"""Bounded reader for the header of a GGUF file, run in a child process.

Only the header is read, up to a bound, and none of the tensors. Layout: magic, version, number of tensors, number of
keys, then the keys; all numbers are little-endian. A list that is not needed is skipped without creating its values.
Source: GGUF specification (ggml-org/ggml docs/gguf.md), version 3.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from cachesim.base.errors import BadInput

HEADER = 1 << 26             # most bytes read: a vocabulary of a million words with its merges
MOST_KEYS, MOST_KEPT = 4096, 1024
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
VOCABULARY = "tokenizer."    # prefix of the keys that follow the sizes of a model
_LENGTH = struct.Struct("<Q")


def is_gguf(path: Path) -> bool:
    """True if a file begins like a GGUF file; False for an unreadable file."""
    from cachesim.base.untrusted_files import read_start

    try:
        return read_start(path, 4) == b"GGUF"
    except BadInput:
        return False


def read_gguf(path: Path, names: Sequence[str] = (), later: bool = False) -> dict[str, Any]:
    """Return the keys of a GGUF before its vocabulary (``later``: also those after it), with lists shortened to their
    first values, and the keys of ``names`` that it contains, complete. A child process parses the file. Raise
    BadInput."""
    from cachesim.base.bounded_child import BoundedChild
    from cachesim.base.untrusted_files import read_start

    with BoundedChild(__name__, "the GGUF header", str(path), {}, read_start(path, HEADER)) as child:
        keys: dict[str, Any] = child.ask({"names": list(names), "later": later})
    return keys


def open_parser(first: Mapping[str, Any], data: bytes) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return the parser of a header, see ``cachesim.base.parser_process``."""
    return lambda request: gguf_keys(data, request["names"], request["later"])


def gguf_keys(data: bytes, names: Sequence[str] = (), later: bool = False) -> dict[str, Any]:
    """Return the keys of a header, see ``read_gguf``. Raise BadInput for data that are not a GGUF."""
    reader = _Reader(data)
    if reader.take(4) != b"GGUF" or reader.number("I") not in (2, 3):
        raise BadInput("not a GGUF of version 2 or 3")
    reader.number("Q")
    keys: dict[str, Any] = {}
    missing, sizes = set(names), True
    for _ in range(min(reader.number("Q"), MOST_KEYS)):
        name = reader.string()
        sizes = (sizes or later) and not name.startswith(VOCABULARY)
        if not sizes and not missing and not later:
            break
        value = reader.value(reader.number("I"), HEADER if name in missing else MOST_KEPT if sizes else 0)
        if sizes or name in missing:
            keys[name] = value
        missing.discard(name)
    return keys


class _Reader:
    """Bytes with a read position."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, n: int) -> bytes:
        """Return the next ``n`` bytes. Raise BadInput if fewer are left."""
        self.at += self._checked(n)
        return self.data[self.at - n : self.at]

    def number(self, form: str) -> Any:
        """Return the next number of this struct format."""
        return struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]

    def string(self) -> str:
        """Return the next string."""
        return self.take(self.number("Q")).decode("utf-8", "replace")

    def value(self, kind: int, most: int) -> Any:
        """Return the next value of this type; of a list, the first ``most`` values."""
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            return self.number(_form(kind))
        kind, n = self.number("I"), self.number("Q")
        if kind == STRING:
            return self._strings(n, min(n, most))
        form = _form(kind)
        width = struct.calcsize(f"<{form}")
        start = self.at
        self.at += self._checked(n * width)
        return list(struct.unpack_from(f"<{min(n, most)}{form}", self.data, start))

    def _strings(self, n: int, kept: int) -> list[str]:
        """Return the first ``kept`` of the next ``n`` strings and skip the others."""
        self._checked(n * _LENGTH.size)
        found = [self.string() for _ in range(kept)]
        at, length_at = self.at, _LENGTH.unpack_from
        try:
            for _ in range(n - kept):
                at += _LENGTH.size + length_at(self.data, at)[0]
        except (struct.error, OverflowError):            # beyond the end
            at = len(self.data) + 1
        self._checked(at - self.at)
        self.at = at
        return found

    def _checked(self, n: int) -> int:
        """Return ``n``. Raise BadInput if fewer bytes are left."""
        if n > len(self.data) - self.at:
            raise BadInput("the header of the GGUF is truncated")
        return n


def _form(kind: int) -> str:
    """Return the struct format of a type of numbers. Raise BadInput for any other type."""
    if kind not in FORMATS:
        raise BadInput(f"unknown value type in the GGUF header: {kind}")
    return FORMATS[kind]
