"""A saved slot as bytes: tokens, declared size and full state: per part its positions, rows and states.

A damaged, truncated, foreign or oversized file is refused with BadInput before anything is changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cachesim.engines.llama_cpp.memory.state import AttentionState, Blob, RecurrentState
from cachesim.engines.shared.array_file import (
    Arrays,
    array_text,
    pack_arrays,
    put_rows,
    put_states,
    rows_in,
    states_in,
    text_array,
    unpack_arrays,
)

MAGIC = b"CACHESIM-SLOT 1\n"


class SlotFile(NamedTuple):
    """What a slot file holds; ``model`` is the notation of the model that it belongs to."""

    model: str
    tokens: tuple[int, ...]
    blob: Blob


def pack(file: SlotFile) -> bytes:
    """The file's bytes."""
    arrays: Arrays = {
        "model": text_array(file.model),
        "tokens": np.array(file.tokens, np.int64),
        "size": np.array([file.blob.size]),
    }
    for name, part in (("base", file.blob.base), ("swa", file.blob.swa)):
        if part is not None:
            arrays[f"{name}/pos"] = part.pos
            put_rows(arrays, name, part.rows)
    if file.blob.recr is not None:
        arrays["recr/pos"] = np.array([file.blob.recr.pos])
        put_states(arrays, "recr", file.blob.recr.rows)
    return pack_arrays(MAGIC, arrays)


def unpack(data: bytes, name: str) -> SlotFile:
    """Read the bytes of a slot file. Raises BadInput, naming the file, for anything else."""
    return unpack_arrays(MAGIC, data, name, _file)


def _file(arrays: Arrays) -> SlotFile:
    recr = None
    if "recr/pos" in arrays:
        recr = RecurrentState(int(arrays["recr/pos"][0]), states_in(arrays, "recr"))
    blob = Blob(int(arrays["size"][0]), _attention(arrays, "base"), _attention(arrays, "swa"), recr)
    return SlotFile(array_text(arrays["model"]), tuple(arrays["tokens"].tolist()), blob)


def _attention(arrays: Arrays, part: str) -> AttentionState | None:
    if f"{part}/pos" not in arrays:
        return None
    return AttentionState(arrays[f"{part}/pos"], rows_in(arrays, part))
