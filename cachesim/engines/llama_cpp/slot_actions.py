"""Slot save, restore and erase: what POST /slots/{id}?action=... does.

Source: llama.cpp tools/server/server-context.cpp SERVER_TASK_TYPE_SLOT_SAVE, _RESTORE, _ERASE (3f545be); spec 3.15.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachesim.engines.llama_cpp.core import Core
from cachesim.engines.llama_cpp.memory.state import StateReadError
from cachesim.engines.llama_cpp.slot import Slot
from cachesim.engines.llama_cpp.slot_file import SlotFile, pack, unpack
from cachesim.engines.shared.array_file import check_model, read_bytes, write_atomically
from cachesim.engines.shared.slots import check_action

TOKEN_BYTES = 4


def slot_action(srv: Core, action: str, id_slot: int, file: Path | None = None) -> dict[str, Any]:
    """Do one action on an idle slot; returns what the real server answers. Raises BadInput for an unknown action, a
    slot that does not exist, or a file that cannot be read; the slot is untouched then."""
    check_action(len(srv.slots), action, id_slot, file)
    slot = srv.slots[id_slot]
    if file is None or action == "erase":
        n_erased = len(slot.tokens)
        srv.clear(slot)
        return {"status": 200, "n_erased": n_erased}
    return _save(srv, slot, file) if action == "save" else _restore(srv, slot, file)


def _bytes(srv: Core, slot_file: SlotFile) -> int:
    """Bytes that the real server's file would have."""
    return slot_file.blob.size + srv.rules.slot_file_header + TOKEN_BYTES * len(slot_file.tokens)


def _save(srv: Core, slot: Slot, file: Path) -> dict[str, Any]:
    """Tokens and the full state; neither checkpoints nor a draft context."""
    made = SlotFile(srv.kind.spec.notation, tuple(slot.tokens), srv.memory.state_write(slot.id, partial=False))
    write_atomically(file, pack(made))
    return {"status": 200, "n_saved": len(slot.tokens), "n_written": _bytes(srv, made)}


def _restore(srv: Core, slot: Slot, file: Path) -> dict[str, Any]:
    """The file's tokens and state replace the slot's; without checkpoints. No room or a longer text than the context:
    the slot is emptied, the client gets 400."""
    saved = read_slot_file(file, srv.kind.spec.notation)
    try:
        if len(saved.tokens) > srv.settings.n_ctx_slot:
            raise StateReadError("the saved text is longer than the context")
        srv.memory.state_read(slot.id, saved.blob)
    except StateReadError as error:
        srv.clear(slot)
        return {"status": 400, "error": str(error)}
    slot.tokens = list(saved.tokens)
    clear = srv.rules.clear(len(slot.checkpoints))
    if srv.decide(clear, slot):
        slot.checkpoints.clear()
    srv.changed(slot, "overwritten", clear.rule)
    return {"status": 200, "n_restored": len(saved.tokens), "n_read": _bytes(srv, saved)}


def read_slot_file(file: Path, model: str) -> SlotFile:
    """A slot file of this model. Raises BadInput; nothing has been touched then."""
    saved = unpack(read_bytes(file), str(file))
    check_model(saved.model, model, file)
    return saved
