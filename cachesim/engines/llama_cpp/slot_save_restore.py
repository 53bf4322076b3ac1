"""Slot save, restore and erase: what POST /slots/{id}?action=... does.

Source: llama.cpp tools/server/server-context.cpp SERVER_TASK_TYPE_SLOT_SAVE, _RESTORE, _ERASE (3f545be).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachesim import events as ev
from cachesim.base.files import write_whole
from cachesim.base.limits import SLOT_FILE_BYTES
from cachesim.base.reading import kind, read_bytes
from cachesim.engines.llama_cpp.memory.saved_state import StateReadError
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Checkpoint, Slot
from cachesim.engines.llama_cpp.slot_file import SlotFile, appendix_bytes, pack, unpack
from cachesim.engines.shared.array_file import check_model
from cachesim.engines.shared.held_tokens import HeldTokens
from cachesim.engines.shared.slots import check_action

TOKEN_BYTES = 4


def slot_action(srv: Core, action: str, id_slot: int, file: Path | None = None) -> dict[str, Any]:
    """Do one action on an idle slot; returns what the real server answers. Raises BadInput for an unknown action, or a
    file that cannot be read; the slot is untouched then."""
    found: int | None = srv.decide(srv.rules.slot_id(id_slot, len(srv.slots)), None)
    check_action(len(srv.slots), action, found or 0, file)
    if found is None:
        srv.emit(ev.Error("error: Invalid slot ID"))
        return {"status": 400, "error": "Invalid slot ID"}
    slot = srv.slots[found]
    if file is None or action == "erase":
        n_erased = len(slot.tokens)
        srv.clear(slot)
        return {"status": 200, "n_erased": n_erased}
    return _save(srv, slot, file) if action == "save" else _restore(srv, slot, file)


def _bytes(srv: Core, slot_file: SlotFile) -> int:
    """Bytes that the real server's file would have."""
    state = slot_file.blob.size + srv.rules.slot_file_header + TOKEN_BYTES * len(slot_file.tokens)
    return state + appendix_bytes(slot_file.checkpoints)


def _save(srv: Core, slot: Slot, file: Path) -> dict[str, Any]:
    """Tokens and the full state, and the checkpoints that the rule names; never the draft context's state."""
    which = srv.rules.file_ckpts(len(slot.checkpoints), srv.settings.max_checkpoints)
    saved = tuple(slot.checkpoints[k] for k in srv.decide(which, slot))
    blob, model = srv.memory.state_write(slot.id, partial=False), srv.kind.spec.notation
    made = SlotFile(model, srv.rules.state_form, tuple(slot.tokens), blob, saved, _draft_model(srv))
    write_whole(file, pack(made), sync=False)
    if saved:
        srv.emit(ev.CkptAppend(slot.id, None, len(saved), ev.mib(appendix_bytes(saved))))
    return {"status": 200, "n_saved": len(slot.tokens), "n_written": _bytes(srv, made)}


def _draft_model(srv: Core) -> str:
    return srv.dft.memory.kind.spec.notation if srv.dft else ""


LOAD = "llama_state_seq_load_file: error loading sequence state file:"
OTHER_FORM = "state_seq_load_file: unknown (magic, version) for sequence state file:"
UNUSABLE = "No available space in KV cache or invalid slot save file"


def _restore(srv: Core, slot: Slot, file: Path) -> dict[str, Any]:
    """The file's tokens and state replace the slot's, and the checkpoints that the rule names. No such file, one of
    another state format, no room, or a longer text than the context: the client gets 400, the slot is emptied."""
    if not kind(file):
        srv.emit(ev.Error(f"{LOAD} failed to open SLOTS/{file.name}: No such file or directory"))
        return _refused(srv, slot, UNUSABLE)
    saved = read_slot_file(file, srv.kind.spec.notation)
    if saved.form != srv.rules.state_form:
        srv.emit(ev.Error(f"{OTHER_FORM} 67677371, {saved.form:08x}"))
        return _refused(srv, slot, UNUSABLE)
    try:
        srv.memory.state_read(slot.id, saved.blob)
    except StateReadError as error:
        srv.emit(ev.Error(str(error)))
        srv.emit(ev.Error(f"{LOAD} failed to restore kv cache"))
        return _refused(srv, slot, UNUSABLE)
    if len(saved.tokens) > srv.settings.n_ctx_slot:
        return _refused(srv, slot, "Restored prompt does not fit in the slot context")
    slot.tokens = HeldTokens(saved.tokens)
    clear = srv.rules.clear(len(slot.checkpoints))
    if srv.decide(clear, slot):
        slot.checkpoints.clear()
    _take_checkpoints(srv, slot, saved)
    srv.changed(slot, "overwritten", clear.rule)
    return {"status": 200, "n_restored": len(saved.tokens), "n_read": _bytes(srv, saved)}


def _take_checkpoints(srv: Core, slot: Slot, saved: SlotFile) -> None:
    """The file's checkpoints come to the slot. The newest one's draft part is loaded for a trial, which empties the
    draft context; if it does not fit there, no checkpoint keeps its draft part."""
    which = srv.rules.file_ckpts(len(saved.checkpoints), srv.settings.max_checkpoints)
    taken = [saved.checkpoints[k] for k in which.value]
    if not which.value and not saved.checkpoints:
        return
    slot.checkpoints = taken
    srv.decide(which, slot)
    if srv.dft is not None and taken and taken[-1].draft is not None:
        fits = saved.draft_model == _draft_model(srv)
        try:
            if fits:
                srv.dft.memory.state_read(slot.id, taken[-1].draft)
        except StateReadError:
            fits = False
        srv.dft.memory.seq_rm(slot.id, 0)
        if not fits:
            slot.checkpoints = [_without_draft(srv, ckpt) for ckpt in taken]
            srv.emit(ev.Warn("draft context checkpoint data does not match the draft context - dropped"))
    srv.emit(ev.CkptFromFile(slot.id, None, len(taken)))


def _without_draft(srv: Core, ckpt: Checkpoint) -> Checkpoint:
    lost = ckpt.draft.size + srv.rules.host_header if ckpt.draft else 0
    return Checkpoint(ckpt.facts._replace(size=ckpt.facts.size - lost), ckpt.blob)


def _refused(srv: Core, slot: Slot, cause: str) -> dict[str, Any]:
    """A restore that failed: what the slot held is forgotten."""
    failed = srv.rules.restore_failed(cause)
    text, everything = srv.decide(failed, slot)
    if everything:
        srv.clear(slot)
    else:
        slot.tokens.clear()
        srv.changed(slot, "cleared", failed.rule)
    srv.emit(ev.Error(f"error: {text}"))
    return {"status": 400, "error": text}


def read_slot_file(file: Path, model: str) -> SlotFile:
    """A slot file of this model. Raises BadInput; nothing has been touched then."""
    saved = unpack(read_bytes(file, SLOT_FILE_BYTES, "slot file"), str(file))
    check_model(saved.model, model, file)
    return saved
