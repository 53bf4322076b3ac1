"""A saved slot as bytes: tokens, full state and checkpoints; a state is its declared size and, per part, its positions,
rows and states.

A damaged, truncated, foreign or oversized file is refused with BadInput before anything is changed.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from cachesim.engines.llama_cpp.memory.saved_state import AttentionState, Blob, RecurrentState
from cachesim.engines.llama_cpp.rules.checkpoint_facts import FROM_FILE, Ckpt
from cachesim.engines.llama_cpp.slot import Checkpoint
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

MAGIC = b"CACHESIM-SLOT 2\n"
SCKP_HEADER, SCKP_ENTRY = 12, 40
"""Bytes of the real file's appendix: magic, version and count; per checkpoint n_tokens, pos_min, pos_max and the
lengths of three blobs."""


class SlotFile(NamedTuple):
    """What a slot file holds; ``model`` and ``draft_model`` are the notations of the models that it belongs to,
    ``form`` the version of the state
    format."""

    model: str
    form: int
    tokens: tuple[int, ...]
    blob: Blob
    checkpoints: tuple[Checkpoint, ...] = ()
    draft_model: str = ""


def appendix_bytes(checkpoints: Sequence[Checkpoint]) -> int:
    """Bytes that the checkpoints take in the real file; none, none."""
    return sum((SCKP_ENTRY + c.facts.size for c in checkpoints), SCKP_HEADER) if checkpoints else 0


def pack(file: SlotFile) -> bytes:
    """The file's bytes."""
    arrays: Arrays = {
        "model": text_array(file.model),
        "draft_model": text_array(file.draft_model),
        "form": np.array([file.form]),
        "tokens": np.array(file.tokens, np.int64),
        "n_ckpt": np.array([len(file.checkpoints)]),
    }
    _put_blob(arrays, "state", file.blob)
    for number, ckpt in enumerate(file.checkpoints):
        f = ckpt.facts
        arrays[f"ckpt{number}/facts"] = np.array([f.n_tokens, f.pos_min, f.pos_max, f.size])
        _put_blob(arrays, f"ckpt{number}/tgt", ckpt.blob)
        if ckpt.draft is not None:
            _put_blob(arrays, f"ckpt{number}/dft", ckpt.draft)
    return pack_arrays(MAGIC, arrays)


def _put_blob(arrays: Arrays, name: str, blob: Blob) -> None:
    arrays[f"{name}/size"] = np.array([blob.size])
    for part, state in (("base", blob.base), ("swa", blob.swa)):
        if state is not None:
            arrays[f"{name}/{part}/pos"] = state.pos
            put_rows(arrays, f"{name}/{part}", state.rows)
    if blob.recr is not None:
        arrays[f"{name}/recr/pos"] = np.array([blob.recr.pos])
        put_states(arrays, f"{name}/recr", blob.recr.rows)


def unpack(data: bytes, name: str) -> SlotFile:
    """Read the bytes of a slot file. Raises BadInput, naming the file, for anything else."""
    return unpack_arrays(MAGIC, data, name, _file)


def _file(arrays: Arrays) -> SlotFile:
    return SlotFile(
        array_text(arrays["model"]), int(arrays["form"][0]), tuple(arrays["tokens"].tolist()),
        _blob(arrays, "state"), tuple(_checkpoint(arrays, f"ckpt{k}") for k in range(int(arrays["n_ckpt"][0]))),
        array_text(arrays["draft_model"]),
    )  # fmt: skip


def _checkpoint(arrays: Arrays, name: str) -> Checkpoint:
    n_tokens, pos_min, pos_max, size = arrays[f"{name}/facts"].tolist()
    draft = _blob(arrays, f"{name}/dft") if f"{name}/dft/size" in arrays else None
    return Checkpoint(Ckpt(n_tokens, pos_min, pos_max, FROM_FILE, size), _blob(arrays, f"{name}/tgt"), draft)


def _blob(arrays: Arrays, name: str) -> Blob:
    recr = None
    if f"{name}/recr/pos" in arrays:
        recr = RecurrentState(int(arrays[f"{name}/recr/pos"][0]), states_in(arrays, f"{name}/recr"))
    size = int(arrays[f"{name}/size"][0])
    return Blob(size, _attention(arrays, f"{name}/base"), _attention(arrays, f"{name}/swa"), recr)


def _attention(arrays: Arrays, part: str) -> AttentionState | None:
    if f"{part}/pos" not in arrays:
        return None
    return AttentionState(arrays[f"{part}/pos"], rows_in(arrays, part))
