"""A saved slot as bytes: tokens and full state, in a format of our own. Data, never code: nothing is unpickled.

  CACHESIM-SLOT 1\\n   name and version
  64 hex digits\\n      SHA-256 of everything that follows
  a zip of arrays      tokens, declared size, and per part its positions, rows and states
A damaged, truncated, foreign or oversized file is refused with BadInput before anything is changed.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from typing import Mapping, NamedTuple

import numpy as np

from cachesim.engines.llama_cpp.memory.state import AttentionState, Blob, RecurrentState
from cachesim.errors import BadInput
from cachesim.model import LayerState, Rows

MAGIC = b"CACHESIM-SLOT 1\n"
MAX_BYTES = 1 << 30
Arrays = dict[str, np.ndarray]


class SlotFile(NamedTuple):
    """What a slot file holds; ``model`` is the notation of the model that it belongs to."""

    model: str
    tokens: tuple[int, ...]
    blob: Blob


def pack(file: SlotFile) -> bytes:
    """The file's bytes."""
    arrays: Arrays = {
        "model": np.frombuffer(file.model.encode(), np.uint8),
        "tokens": np.array(file.tokens, np.int64),
        "size": np.array([file.blob.size]),
    }
    for name, part in (("base", file.blob.base), ("swa", file.blob.swa)):
        if part is not None:
            arrays[f"{name}/pos"] = part.pos
            for layer, rows in part.rows.items():
                _put(arrays, f"{name}/{layer}", digest=rows.digest, k=rows.k, v=rows.v)
    if file.blob.recr is not None:
        arrays["recr/pos"] = np.array([file.blob.recr.pos])
        for layer, state in file.blob.recr.rows.items():
            if state is not None:
                one = np.array([state.hash], np.uint64)
                _put(arrays, f"recr/{layer}", conv=state.conv, hash=one, conv_x=state.conv_x, h=state.h)
    body = io.BytesIO()
    np.savez(body, **arrays)  # type: ignore[arg-type]
    data = body.getvalue()
    return MAGIC + hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def _put(arrays: Arrays, path: str, **values: np.ndarray | None) -> None:
    for name, value in values.items():
        if value is not None:
            arrays[f"{path}/{name}"] = value


def unpack(data: bytes, name: str) -> SlotFile:
    """Read the bytes of a slot file. Raises BadInput, naming the file, for anything else."""
    if len(data) > MAX_BYTES:
        raise BadInput(f"{len(data)} bytes, a slot file has at most {MAX_BYTES}", file=name)
    if not data.startswith(MAGIC):
        raise BadInput("not a slot file of this version", file=name)
    digest, _, body = data[len(MAGIC) :].partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise BadInput("damaged or truncated slot file", file=name)
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as stored:
            return _file({key: stored[key] for key in stored.files})
    except (KeyError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise BadInput(f"not a slot file: {error}", file=name) from None


def _file(arrays: Arrays) -> SlotFile:
    recr = None
    if "recr/pos" in arrays:
        states = {layer: _state(got) for layer, got in _layers(arrays, "recr").items()}
        recr = RecurrentState(int(arrays["recr/pos"][0]), states)
    blob = Blob(int(arrays["size"][0]), _attention(arrays, "base"), _attention(arrays, "swa"), recr)
    return SlotFile(arrays["model"].tobytes().decode(), tuple(arrays["tokens"].tolist()), blob)


def _layers(arrays: Arrays, part: str) -> dict[int, Arrays]:
    found: dict[int, Arrays] = {}
    for key, value in arrays.items():
        room, _, rest = key.partition("/")
        layer, _, name = rest.partition("/")
        if room == part and name:
            found.setdefault(int(layer), {})[name] = value
    return found


def _attention(arrays: Arrays, part: str) -> AttentionState | None:
    if f"{part}/pos" not in arrays:
        return None
    rows = {layer: Rows(got["digest"], got.get("k"), got.get("v")) for layer, got in _layers(arrays, part).items()}
    return AttentionState(arrays[f"{part}/pos"], rows)


def _state(got: Mapping[str, np.ndarray]) -> LayerState:
    for value in got.values():
        value.flags.writeable = False
    return LayerState(got["conv"], int(got["hash"][0]), got.get("conv_x"), got.get("h"))
