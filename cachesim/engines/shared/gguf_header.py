"""What does the header of a GGUF say? Its keys with their values, without its tensors.

Source: GGUF specification, version 3 (ggml-org/ggml docs/gguf.md): magic, version, number of tensors, number of keys,
then the keys; every number little-endian.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from cachesim.base.errors import BadInput
from cachesim.base.reading import read_start

_FORMATS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
MOST_KEYS, MOST_KEPT = 4096, 1024
HEADER = 1 << 26          # bytes: a vocabulary of a million words with its merges


def read_header(path: Path) -> dict[str, Any]:
    """The keys of a GGUF; of a list only the first values, of the vocabulary nothing. Raises BadInput for no GGUF."""
    reader = _Reader(read_start(path, HEADER), str(path))
    if reader.take(4) != b"GGUF" or reader.number("<I") not in (2, 3):
        raise BadInput("no GGUF of version 2 or 3", file=str(path))
    reader.number("<Q")
    keys: dict[str, Any] = {}
    for _ in range(min(reader.number("<Q"), MOST_KEYS)):
        name = reader.string()
        if name.startswith("tokenizer."):
            break                 # what follows is the vocabulary: sizes come before it
        keys[name] = reader.value(reader.number("<I"))
    return keys


class _Reader:
    """Bytes, and how far they are read."""

    def __init__(self, data: bytes, file: str) -> None:
        self.data, self.file, self.at = data, file, 0

    def take(self, n: int) -> bytes:
        """The next bytes. Raises BadInput where there are not so many."""
        if n > len(self.data) - self.at:
            raise BadInput("the header of the GGUF is truncated", file=self.file)
        self.at += n
        return self.data[self.at - n : self.at]

    def number(self, form: str) -> Any:
        """The next number of this form."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def string(self) -> str:
        """The next string."""
        return self.take(self.number("<Q")).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """The next value of this kind; of a list the first ones, all are read."""
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            if kind not in _FORMATS:
                raise BadInput(f"a value of the unknown type {kind}", file=self.file)
            return self.number(_FORMATS[kind])
        inner, n = self.number("<I"), self.number("<Q")
        if inner == _ARRAY or n > len(self.data):
            raise BadInput("a list that no GGUF has", file=self.file)
        values = [self.value(inner) for _ in range(n)]
        return values[:MOST_KEPT]
