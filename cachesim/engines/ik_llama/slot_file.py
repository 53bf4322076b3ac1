"""A saved slot as bytes: one file for tokens and whole state, one beside it for the checkpoints.

The real server writes the tokens to a file of their own; as it never writes one without the other, ours are together.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from cachesim.engines.ik_llama.memory.kv import Blob
from cachesim.engines.ik_llama.memory.window import Window
from cachesim.engines.ik_llama.rules.checkpoint_restore import Ckpt
from cachesim.engines.ik_llama.slot import Checkpoint
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

SLOT, SIDE = b"CACHESIM-IK-SLOT 1\n", b"CACHESIM-IK-CHECKPOINTS 1\n"


class SlotFile(NamedTuple):
    """What a slot file holds; ``model`` is the notation of the model that it belongs to."""

    model: str
    tokens: tuple[int, ...]
    blob: Blob


class SideFile(NamedTuple):
    """The checkpoints beside it, oldest first."""

    model: str
    checkpoints: tuple[Checkpoint, ...]


def pack_slot(file: SlotFile) -> bytes:
    """The bytes of a slot file."""
    arrays: Arrays = {"model": text_array(file.model), "tokens": np.array(file.tokens, np.int64)}
    _put_blob(arrays, "state", file.blob)
    return pack_arrays(SLOT, arrays)


def unpack_slot(data: bytes, name: str) -> SlotFile:
    """Read them. Raises BadInput, naming the file, for anything else."""
    return unpack_arrays(SLOT, data, name, lambda arrays: SlotFile(
        array_text(arrays["model"]), tuple(arrays["tokens"].tolist()), _blob_in(arrays, "state"),
    ))  # fmt: skip


def pack_side(model: str, checkpoints: Sequence[Checkpoint]) -> bytes:
    """The bytes of a side file: of each checkpoint its four positions and its state, not its tokens."""
    arrays: Arrays = {"model": text_array(model)}
    for i, one in enumerate(checkpoints):
        arrays[f"{i}/span"] = np.array(one.facts[:4], np.int64)
        _put_blob(arrays, f"{i}", one.blob)
    return pack_arrays(SIDE, arrays)


def unpack_side(data: bytes, name: str, step: int) -> SideFile:
    """Read them, in a step of the run. Raises BadInput, naming the file, for anything else."""
    return unpack_arrays(SIDE, data, name, lambda arrays: SideFile(
        array_text(arrays["model"]),
        tuple(_checkpoint(arrays, i, step) for i in range(sum(key.endswith("/span") for key in arrays))),
    ))  # fmt: skip


def _checkpoint(arrays: Arrays, i: int, step: int) -> Checkpoint:
    blob = _blob_in(arrays, f"{i}")
    pos_min, pos_max, first, last = (int(pos) for pos in arrays[f"{i}/span"])
    return Checkpoint(Ckpt(pos_min, pos_max, first, last, pos_max + 1, blob.size, unset=(step, i)), blob)


def _put_blob(arrays: Arrays, part: str, blob: Blob) -> None:
    arrays[f"{part}/pos"], arrays[f"{part}/own"] = blob.pos, blob.own
    arrays[f"{part}/facts"] = np.array([blob.size, blob.state_pos, blob.rows is not None], np.int64)
    put_rows(arrays, f"{part}/rows", blob.rows or {})
    put_states(arrays, f"{part}/states", blob.states)
    if blob.window is not None:
        one = blob.window
        arrays[f"{part}/window"] = np.array([one.width, one.cap, one.base, one.live], np.int64)


def _blob_in(arrays: Arrays, part: str) -> Blob:
    size, state_pos, whole = (int(fact) for fact in arrays[f"{part}/facts"])
    rows = rows_in(arrays, f"{part}/rows") if whole else None
    window = Window(*arrays[f"{part}/window"].tolist()) if f"{part}/window" in arrays else None
    pos, own = arrays[f"{part}/pos"], arrays[f"{part}/own"]
    return Blob(size, pos, own, rows, states_in(arrays, f"{part}/states"), state_pos, window)
