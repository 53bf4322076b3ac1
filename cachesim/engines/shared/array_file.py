"""File format for saved slots: numpy arrays with a checksum. Nothing is unpickled.

  NAME VERSION\\n       kind of the file
  64 hex digits\\n      SHA-256 of everything that follows
  a zip of arrays      by paths such as base/0/k: part, layer, array
A damaged, truncated, foreign or oversized file is refused with BadInput before anything is changed.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Callable, Mapping, TypeVar

import numpy as np

from cachesim.base.errors import BadInput
from cachesim.base.limits import SLOT_FILE_BYTES
from cachesim.model import KVRows, LayerState

Arrays = dict[str, np.ndarray]
T = TypeVar("T")


def pack_arrays(magic: bytes, arrays: Arrays) -> bytes:
    """Return the bytes of a file; ``magic`` is its first line."""
    from hashlib import sha256

    body = io.BytesIO()
    np.savez(body, **arrays)  # type: ignore[arg-type]
    data = body.getvalue()
    return magic + sha256(data).hexdigest().encode() + b"\n" + data


def unpack_arrays(magic: bytes, data: bytes, name: str, make: Callable[[Arrays], T]) -> T:
    """Return the result of ``make`` for the arrays in a file. Raise BadInput, with the file's name, for bytes that are
    not such a file."""
    from hashlib import sha256
    from zipfile import BadZipFile

    SLOT_FILE_BYTES.check(len(data), "slot file", file=name)
    if not data.startswith(magic):
        raise BadInput("not a slot file of this version", file=name)
    digest, _, body = data[len(magic) :].partition(b"\n")
    if sha256(body).hexdigest().encode() != digest:
        raise BadInput("damaged or truncated slot file", file=name)
    try:
        with np.load(io.BytesIO(body), allow_pickle=False) as stored:
            return make({key: stored[key] for key in stored.files})
    except (KeyError, ValueError, BadZipFile, EOFError) as error:
        raise BadInput(f"not a slot file: {error}", file=name) from None


def check_model(saved: str, model: str, file: Path) -> None:
    """Raise BadInput unless the file was saved from this model (its notation)."""
    if saved != model:
        raise BadInput(f"expected a file of model {model}, found model {saved}", file=str(file))



def text_array(text: str) -> np.ndarray:
    """Return a text as an array of UTF-8 bytes."""
    return np.frombuffer(text.encode(), np.uint8)


def array_text(array: np.ndarray) -> str:
    """Return the text stored by ``text_array``."""
    return array.tobytes().decode()


def put_rows(arrays: Arrays, part: str, kept: Mapping[int, KVRows]) -> None:
    """Add K/V rows by layer to the arrays."""
    for layer, rows in kept.items():
        _put(arrays, f"{part}/{layer}", digest=rows.digest, k=rows.k, v=rows.v)


def rows_in(arrays: Arrays, part: str) -> dict[int, KVRows]:
    """Return the rows stored by ``put_rows``."""
    return {layer: KVRows(got["digest"], got.get("k"), got.get("v")) for layer, got in _layers(arrays, part).items()}


def put_states(arrays: Arrays, part: str, kept: Mapping[int, LayerState | None]) -> None:
    """Add recurrent states by layer to the arrays; zeroed states are omitted."""
    for layer, state in kept.items():
        if state is not None:
            digest = np.array([state.hash], np.uint64)
            _put(arrays, f"{part}/{layer}", conv=state.conv, hash=digest, conv_x=state.conv_x, h=state.h)


def states_in(arrays: Arrays, part: str) -> dict[int, LayerState | None]:
    """Return the states stored by ``put_states``."""
    return {layer: _state(got) for layer, got in _layers(arrays, part).items()}


def _put(arrays: Arrays, path: str, **values: np.ndarray | None) -> None:
    for name, value in values.items():
        if value is not None:
            arrays[f"{path}/{name}"] = value


def _layers(arrays: Arrays, part: str) -> dict[int, Arrays]:
    found: dict[int, Arrays] = {}
    for key, value in arrays.items():
        room, _, rest = key.rpartition("/")
        before, _, layer = room.rpartition("/")
        if before == part:
            found.setdefault(int(layer), {})[rest] = value
    return found


def _state(got: Mapping[str, np.ndarray]) -> LayerState:
    for value in got.values():
        value.flags.writeable = False
    return LayerState(got["conv"], int(got["hash"][0]), got.get("conv_x"), got.get("h"))
