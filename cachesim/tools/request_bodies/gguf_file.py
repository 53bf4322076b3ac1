"""What a GGUF file says of a model's tokenizer, read by the package ``gguf`` (extra ``import``). No tensor is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.extras import install_command
from cachesim.base.reading import kind


def is_gguf(path: Path) -> bool:
    """Returns True for a file that begins as a GGUF does. False for one that cannot be read: who reads it says why."""
    if kind(path) != "file":
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(4) == b"GGUF"
    except OSError:
        return False


def metadata(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """The values of these keys, those that the file has. Raises BadInput."""
    try:
        from gguf import GGUFReader
    except ImportError:
        cause = "a GGUF file needs the package gguf, which is not installed"
        raise BadInput(cause, hint=install_command("import")) from None
    try:
        fields = GGUFReader(path).fields
        return {key: fields[key].contents() for key in keys if key in fields}
    except Exception as error:                   # somebody else's parser, on a file that may hold anything
        raise BadInput(f"a broken GGUF file ({type(error).__name__})", file=str(path)) from None
