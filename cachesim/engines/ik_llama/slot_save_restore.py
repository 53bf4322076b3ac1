"""Saving, restoring and erasing slots, and the format of slot files. None of them changes the draft context.

The real server writes the tokens to a separate file, but never without the state; here they share a file. Checkpoints
are stored in a second file beside it. Source: ik_llama.cpp examples/server/server-context.cpp (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import BadInput
from cachesim.base.files import write_whole
from cachesim.base.limits import SLOT_FILE_BYTES
from cachesim.base.tokens import POS_INF
from cachesim.base.untrusted_files import kind, read_bytes
from cachesim.engines.ik_llama.memory.kv_cache import Blob, Window
from cachesim.engines.ik_llama.rules.checkpoint_restore import Ckpt
from cachesim.engines.ik_llama.server_state import Core
from cachesim.engines.ik_llama.slot import Checkpoint, Slot
from cachesim.engines.rule import Decision
from cachesim.engines.shared import array_file
from cachesim.engines.shared.array_file import Arrays
from cachesim.engines.shared.slot_base import check_action

SLOT, SIDE = b"CACHESIM-IK-SLOT 1\n", b"CACHESIM-IK-CHECKPOINTS 1\n"


class SlotFile(NamedTuple):
    """Content of a slot file; ``model``: notation of its model."""

    model: str
    tokens: tuple[int, ...]
    blob: Blob


class SideFile(NamedTuple):
    """Content of a side file: the checkpoints, oldest first."""

    model: str
    checkpoints: tuple[Checkpoint, ...]


def pack_slot(file: SlotFile) -> bytes:
    """Return the bytes of a slot file."""
    arrays: Arrays = {"model": array_file.text_array(file.model), "tokens": np.array(file.tokens, np.int64)}
    _put_blob(arrays, "state", file.blob)
    return array_file.pack_arrays(SLOT, arrays)


def unpack_slot(data: bytes, name: str) -> SlotFile:
    """Parse a slot file. Raise BadInput, with the file's name, for other bytes."""
    return array_file.unpack_arrays(SLOT, data, name, lambda arrays: SlotFile(
        array_file.array_text(arrays["model"]), tuple(arrays["tokens"].tolist()), _blob_in(arrays, "state")))


def pack_side(model: str, checkpoints: Sequence[Checkpoint]) -> bytes:
    """Return the bytes of a side file: four positions and the state of each checkpoint, without its tokens."""
    arrays: Arrays = {"model": array_file.text_array(model)}
    for i, checkpoint in enumerate(checkpoints):
        arrays[f"{i}/span"] = np.array(checkpoint.facts[:4], np.int64)
        _put_blob(arrays, f"{i}", checkpoint.blob)
    return array_file.pack_arrays(SIDE, arrays)


def unpack_side(data: bytes, name: str, step: int) -> SideFile:
    """Parse a side file in a step of the run, which identifies uninitialised fields. Raise BadInput, with the file's
    name, for other bytes."""
    return array_file.unpack_arrays(SIDE, data, name, lambda arrays: SideFile(
        array_file.array_text(arrays["model"]),
        tuple(_checkpoint(arrays, i, step) for i in range(sum(key.endswith("/span") for key in arrays)))))


def _checkpoint(arrays: Arrays, i: int, step: int) -> Checkpoint:
    blob = _blob_in(arrays, f"{i}")
    pos_min, pos_max, first, last = (int(pos) for pos in arrays[f"{i}/span"])
    return Checkpoint(Ckpt(
        pos_min,
        pos_max,
        pos_min_prompt=first,
        pos_max_prompt=last,
        n_tokens=pos_max + 1,
        size=blob.size,
        unset=(step, i),
    ), blob)


def _put_blob(arrays: Arrays, part: str, blob: Blob) -> None:
    arrays[f"{part}/pos"], arrays[f"{part}/own"] = blob.pos, blob.own
    arrays[f"{part}/facts"] = np.array([blob.size, blob.state_pos, blob.rows is not None], np.int64)
    array_file.put_rows(arrays, f"{part}/rows", blob.rows or {})
    array_file.put_states(arrays, f"{part}/states", blob.states)
    if blob.window is not None:
        window = blob.window
        arrays[f"{part}/window"] = np.array([window.width, window.cap, window.base, window.live], np.int64)


def _blob_in(arrays: Arrays, part: str) -> Blob:
    size, state_pos, whole = (int(fact) for fact in arrays[f"{part}/facts"])
    rows = array_file.rows_in(arrays, f"{part}/rows") if whole else None
    window = Window(*arrays[f"{part}/window"].tolist()) if f"{part}/window" in arrays else None
    pos, own = arrays[f"{part}/pos"], arrays[f"{part}/own"]
    return Blob(
        size,
        pos,
        own=own,
        rows=rows,
        states=array_file.states_in(arrays, f"{part}/states"),
        state_pos=state_pos,
        window=window,
    )


FILE_HEAD = 12
SIDE_HEAD = 16
SIDE_ENTRY = 24
"""Header bytes of the real server's slot file, of its side file, and of each checkpoint in the side file."""


def slot_action(srv: Core, action: str, id_slot: int, file: Path | None = None) -> dict[str, Any]:
    """Save, restore or erase an idle slot; return the server's reply. Raise BadInput; the slot is unchanged then."""
    check_action(len(srv.slots), action, id_slot, file)
    slot = srv.slots[id_slot]
    if file is None or action == "erase":
        return _erase(srv, slot)
    if srv.kind.recurrent:
        raise BadInput("slot files of purely recurrent models are not modelled", hint="use a hybrid model")
    return _save(srv, slot, file) if action == "save" else _restore(srv, slot, file)


def _erase(srv: Core, slot: Slot) -> dict[str, Any]:
    n_erased = len(slot.tokens)
    srv.memory.seq_rm(slot.id, 0, POS_INF)
    slot.tokens.clear()
    erase = srv.rules.slot_erase(len(slot.checkpoints))
    if srv.decide(erase, slot):
        slot.checkpoints.clear()
    srv.changed(slot, "cleared", erase.rule)
    return {"status": 200, "n_erased": n_erased}


def side_file_path(file: Path) -> Path:
    """Return the path of the checkpoints of a slot file."""
    return file.with_name(f"{file.name}.checkpoints")


def _save(srv: Core, slot: Slot, file: Path) -> dict[str, Any]:
    """Write tokens and whole state to the slot file, and checkpoints to the side file if the rules say so."""
    model = srv.kind.spec.notation
    made = SlotFile(model, tuple(slot.tokens), srv.memory.get(slot.id, partial=False))
    write_whole(file, pack_slot(made), sync=False)
    n_written = _file_bytes(len(slot.tokens), made.blob.size)
    if srv.decide(srv.rules.slot_save(len(slot.checkpoints)), slot):
        write_whole(side_file_path(file), pack_side(model, slot.checkpoints), sync=False)
        n_written += SIDE_HEAD + sum(SIDE_ENTRY + checkpoint.facts.size for checkpoint in slot.checkpoints)
    return {"status": 200, "n_saved": len(slot.tokens), "n_written": n_written}


def _counted(srv: Core, checkpoint: Checkpoint) -> Checkpoint:
    """Return a restored checkpoint with its number of tokens for display, of which images have fewer positions."""
    if not srv.has_media_positions:
        return checkpoint
    n_tokens = checkpoint.blob.state_pos + 1
    return replace(checkpoint, facts=checkpoint.facts._replace(n_tokens=n_tokens))


def _file_bytes(n_tokens: int, state: int) -> int:
    """Return the size of the real server's slot file [bytes]: header, tokens, state."""
    return FILE_HEAD + 4 * n_tokens + state


def _restore(srv: Core, slot: Slot, file: Path) -> dict[str, Any]:
    """Replace the slot's tokens and state by those of the file, and its checkpoints if the rules say so. If cells are
    lacking, or the text is longer than the context, the slot loses tokens and cells, keeps its checkpoints, and the
    client gets status 400."""
    saved = unpack_slot(read_bytes(file, SLOT_FILE_BYTES, "slot file"), str(file))
    array_file.check_model(saved.model, srv.kind.spec.notation, file)
    decision: Decision = srv.rules.slot_restore(kind(side_file_path(file)) != "")
    side: SideFile | None = None
    if decision.value:
        data = read_bytes(side_file_path(file), SLOT_FILE_BYTES, "slot file")
        side = unpack_side(data, str(side_file_path(file)), len(srv.log.marks) - 1)
        array_file.check_model(side.model, srv.kind.spec.notation, side_file_path(file))
    srv.decide(decision, slot)
    if len(saved.tokens) > srv.settings.n_ctx_slot or not srv.memory.set(slot.id, saved.blob):
        srv.memory.seq_rm(slot.id, 0, POS_INF)
        slot.tokens.clear()
        srv.changed(slot, "cleared", decision.rule)
        return {"status": 400, "error": "the saved slot does not fit"}
    slot.tokens = list(saved.tokens)
    if side is not None:
        slot.checkpoints = [_counted(srv, checkpoint) for checkpoint in side.checkpoints]
    srv.changed(slot, "overwritten", decision.rule)
    n_read = _file_bytes(len(saved.tokens), saved.blob.size)
    return {"status": 200, "n_restored": len(saved.tokens), "n_read": n_read}
