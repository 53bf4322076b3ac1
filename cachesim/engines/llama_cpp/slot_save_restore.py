"""Slot save, restore and erase: POST /slots/{id}?action=...

Source: llama.cpp tools/server/server-context.cpp SERVER_TASK_TYPE_SLOT_SAVE, _RESTORE, _ERASE (3f545be).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Sequence

import numpy as np

from cachesim import events as ev
from cachesim.base.errors import ProcessAborted
from cachesim.base.files import write_whole
from cachesim.base.keyed_tokens import KeyedToken, identity, key_of
from cachesim.base.limits import SLOT_FILE_BYTES
from cachesim.base.media_items import count_images, is_item
from cachesim.base.tokens import Tokens
from cachesim.base.untrusted_files import kind, read_bytes
from cachesim.engines.llama_cpp import events as llama_ev
from cachesim.engines.llama_cpp.memory.saved_state import AttentionState, Blob, RecurrentState, StateReadError
from cachesim.engines.llama_cpp.memory.torn_state import StateEnd, read_torn, torn_at
from cachesim.engines.llama_cpp.rules.adapters import SavedAdapters
from cachesim.engines.llama_cpp.rules.checkpoint_facts import FROM_FILE, Ckpt
from cachesim.engines.llama_cpp.rules.slot_file import ENDS, FREED
from cachesim.engines.llama_cpp.server_state import Core
from cachesim.engines.llama_cpp.slot import Checkpoint, Slot
from cachesim.engines.shared import array_file
from cachesim.engines.shared import slot_events as slot_ev
from cachesim.engines.shared.array_file import Arrays, array_text, text_array
from cachesim.engines.shared.slot_base import check_action

# File format of a saved slot: tokens, full state and checkpoints. A state consists of its declared size and, per part,
# its positions, rows and states.
#
# A damaged, truncated, foreign or oversized file raises BadInput before anything is changed.

MAGIC = b"CACHESIM-SLOT 2\n"
SCKP_HEADER, SCKP_ENTRY = 12, 40
"""Bytes of the real file's appendix: magic, version and count; per checkpoint n_tokens, pos_min, pos_max and the
lengths of three blobs."""


class SlotFile(NamedTuple):
    """Contents of a slot file."""

    model: str                                    # notation of the model
    form: int                                     # version of the state format
    tokens: tuple[int, ...]
    blob: Blob                                    # full state
    checkpoints: tuple[Checkpoint, ...] = ()
    draft_model: str = ""                         # notation of the draft model, "" = without draft context
    noted: SavedAdapters | None = None                    # adapters of the slot, None = the server had none
    streams: int = 0                              # of a memory that names them, 0 = none


def appendix_bytes(checkpoints: Sequence[Checkpoint]) -> int:
    """Return the size of the checkpoints in the real file [bytes], 0 without checkpoints."""
    return sum((SCKP_ENTRY + c.facts.size for c in checkpoints), SCKP_HEADER) if checkpoints else 0


def pack(file: SlotFile) -> bytes:
    """Return the bytes of the file."""
    arrays: Arrays = {
        "model": text_array(file.model), "draft_model": text_array(file.draft_model), "form": np.array([file.form]),
        "tokens": np.array(file.tokens, np.int64), "n_ckpt": np.array([len(file.checkpoints)]),
        "streams": np.array([file.streams]),
    }  # fmt: skip
    keys = [key_of(identity(token)) for token in file.tokens]
    if any(keys):
        arrays["keys"] = np.array(keys, np.int64)
    if file.noted is not None:
        arrays["scales"] = np.array(file.noted.scales, np.float64)
        arrays["active"] = np.array([file.noted.active], np.int64)
    _put_blob(arrays, "state", file.blob)
    for number, ckpt in enumerate(file.checkpoints):
        f = ckpt.facts
        arrays[f"ckpt{number}/facts"] = np.array([f.n_tokens, f.pos_min, f.pos_max, f.size])
        _put_blob(arrays, f"ckpt{number}/tgt", ckpt.blob)
        if ckpt.draft is not None:
            _put_blob(arrays, f"ckpt{number}/dft", ckpt.draft)
    return array_file.pack_arrays(MAGIC, arrays)


def _put_blob(arrays: Arrays, name: str, blob: Blob) -> None:
    arrays[f"{name}/size"] = np.array([blob.size])
    for part, state in (("base", blob.base), ("swa", blob.swa), ("idx", blob.idx)):
        if state is not None:
            arrays[f"{name}/{part}/pos"] = state.pos
            array_file.put_rows(arrays, f"{name}/{part}", state.rows)
    if blob.compressed is not None:
        arrays[f"{name}/numbered"] = text_array("")
        array_file.put_rows(arrays, f"{name}/compressed", blob.compressed)
    if blob.recr is not None:
        arrays[f"{name}/recr/pos"] = np.array([blob.recr.pos])
        array_file.put_states(arrays, f"{name}/recr", blob.recr.rows)


def unpack(data: bytes, name: str) -> SlotFile:
    """Parse the bytes of a slot file. Raise BadInput, naming the file, for anything else."""
    return array_file.unpack_arrays(MAGIC, data, name, lambda arrays: SlotFile(
        array_text(arrays["model"]),
        int(arrays["form"][0]),
        tokens=_tokens(arrays),
        blob=_blob(arrays, "state"),
        checkpoints=tuple(_checkpoint(arrays, f"ckpt{k}") for k in range(int(arrays["n_ckpt"][0]))),
        draft_model=array_text(arrays["draft_model"]),
        noted=_noted(arrays),
        streams=int(arrays["streams"][0]) if "streams" in arrays else 0,
    ))  # fmt: skip


def _tokens(arrays: Arrays) -> Tokens:
    tokens = arrays["tokens"].tolist()
    keys = arrays["keys"].tolist() if "keys" in arrays else [0] * len(tokens)
    return tuple([KeyedToken(token, key) if key else token for token, key in zip(tokens, keys, strict=True)])


def _noted(arrays: Arrays) -> SavedAdapters | None:
    return SavedAdapters(tuple(arrays["scales"].tolist()), int(arrays["active"][0])) if "scales" in arrays else None


def _checkpoint(arrays: Arrays, name: str) -> Checkpoint:
    n_tokens, pos_min, pos_max, size = arrays[f"{name}/facts"].tolist()
    draft = _blob(arrays, f"{name}/dft") if f"{name}/dft/size" in arrays else None
    return Checkpoint(Ckpt(
        n_tokens, pos_min, pos_max=pos_max, id_task=FROM_FILE, size=size
    ), _blob(arrays, f"{name}/tgt"), draft)


def _blob(arrays: Arrays, name: str) -> Blob:
    recr = None
    if f"{name}/recr/pos" in arrays:
        recr = RecurrentState(int(arrays[f"{name}/recr/pos"][0]), array_file.states_in(arrays, f"{name}/recr"))
    size = int(arrays[f"{name}/size"][0])
    base, swa, idx = (
        AttentionState(arrays[f"{part}/pos"], array_file.rows_in(arrays, part)) if f"{part}/pos" in arrays else None
        for part in (f"{name}/base", f"{name}/swa", f"{name}/idx")
    )
    compressed = array_file.rows_in(arrays, f"{name}/compressed") if f"{name}/numbered" in arrays else None
    return Blob(size, base, swa, recr, idx, compressed)


TOKEN_BYTES = 4


def slot_action(srv: Core, action: str, id_slot: int, file: Path | None, percent: int) -> dict[str, Any]:
    """Execute an action on an idle slot and return the real server's response. ``percent``: share of the file that is
    left to restore. Raise BadInput for an unknown action or an unreadable file; the slot is then unchanged."""
    found: int | None = srv.decide(srv.rules.slot_id(id_slot, len(srv.slots)), None)
    check_action(len(srv.slots), action, found or 0, file)
    if found is None:
        srv.emit(slot_ev.Error("error: Invalid slot ID"))
        return {"status": 400, "error": "Invalid slot ID"}
    slot = srv.slots[found]
    if file is None or action == "erase":
        n_erased = len(slot.tokens)
        srv.clear(slot)
        return {"status": 200, "n_erased": n_erased}
    return _save(srv, slot, file) if action == "save" else _restore(srv, slot, file, percent)


def _bytes(srv: Core, slot_file: SlotFile) -> int:
    """Return the size of the real server's file [bytes]."""
    state = slot_file.blob.size + srv.rules.slot_file_header + TOKEN_BYTES * len(slot_file.tokens)
    images = -(-srv.rules.image_bytes * count_images(slot_file.tokens) // TOKEN_BYTES) * TOKEN_BYTES
    return state + images + appendix_bytes(slot_file.checkpoints)


def _save(srv: Core, slot: Slot, file: Path) -> dict[str, Any]:
    """Save the tokens, the full state and the checkpoints that the rule selects, but not the draft context's state."""
    which = srv.rules.file_ckpts(len(slot.checkpoints), srv.settings.max_checkpoints)
    saved = tuple(slot.checkpoints[k] for k in srv.decide(which, slot))
    blob, model = srv.memory.state_write(slot.id, partial=False), srv.kind.spec.notation
    made = SlotFile(
        model,
        srv.rules.state_form,
        tokens=tuple(slot.tokens),
        blob=blob,
        checkpoints=saved,
        draft_model=_draft_model(srv),
        noted=slot.noted if srv.adapters else None,
        streams=_streams(srv),
    )  # fmt: skip
    write_whole(file, pack(made), sync=False)
    if saved:
        srv.emit(llama_ev.CkptAppend(slot.id, None, len(saved), ev.mib(appendix_bytes(saved))))
    return {"status": 200, "n_saved": len(slot.tokens), "n_written": _bytes(srv, made)}


def _draft_model(srv: Core) -> str:
    return srv.dft.memory.kind.spec.notation if srv.dft else ""


def _streams(srv: Core) -> int:
    """Return the number of streams that a state of this memory names: those of compressed rows, 0 = none that matters.
    (Other memories name them, too; here slots of one file are only moved between servers with shared cells.)"""
    return srv.settings.n_slots if srv.kind.kind == "dsv4" else 0


LOAD = "llama_state_seq_load_file: error loading sequence state file:"
OTHER_FORM = "state_seq_load_file: unknown (magic, version) for sequence state file:"
UNUSABLE = "No available space in KV cache or invalid slot save file"


def _restore(srv: Core, slot: Slot, file: Path, percent: int) -> dict[str, Any]:
    """Replace the slot's tokens, state and checkpoints by those of the file; the rule selects the checkpoints.

    A missing file, a state in the format of another build, too few free cells or more tokens than the context: status
    400, and the slot is cleared. Raise BadInput, with the slot unchanged, for a file of another model and for a file
    that is not cachesim's slot file. ``percent``: the share of
    the file that is left; a state that ends too early is refused or ends the process, and checkpoints that do so are
    ignored."""
    if not kind(file):
        srv.emit(slot_ev.Error(f"{LOAD} failed to open SLOTS/{file.name}: No such file or directory"))
        return _refused(srv, slot, UNUSABLE)
    saved = unpack(read_bytes(file, SLOT_FILE_BYTES, "slot file"), str(file))
    array_file.check_model(saved.model, srv.kind.spec.notation, file)
    if other := _other_format(srv, saved):
        srv.emit(slot_ev.Error(other))
        return _refused(srv, slot, UNUSABLE)
    try:
        torn = _torn_state(srv, saved, percent)
        if torn is not None:
            _read_torn(srv, slot, saved.blob, torn)
            return _refused(srv, slot, UNUSABLE)
        srv.memory.state_read(slot.id, saved.blob)
    except StateReadError as error:
        srv.emit(slot_ev.Error(str(error)))
        srv.emit(slot_ev.Error(f"{LOAD} failed to restore kv cache"))
        return _refused(srv, slot, UNUSABLE)
    refused = srv.rules.media.file(any(map(is_item, saved.tokens)), bool(srv.settings.projector))
    if refused.value:
        return _refused(srv, slot, srv.decide(refused, slot))
    if len(saved.tokens) > srv.settings.n_ctx_slot:
        return _refused(srv, slot, "Restored prompt does not fit in the slot context")
    if percent < 100:
        saved = saved._replace(checkpoints=())       # their file ends too early
    _take_tokens(srv, slot, saved)
    clear = srv.rules.clear(len(slot.checkpoints))
    if srv.decide(clear, slot):
        slot.checkpoints.clear()
    _take_checkpoints(srv, slot, saved)
    srv.changed(slot, "overwritten", clear.rule)
    return {"status": 200, "n_restored": len(saved.tokens), "n_read": _bytes(srv, saved)}


def _other_format(srv: Core, saved: SlotFile) -> str:
    """Return the error for a file that another build, or a server with other streams, has written; "" for any other."""
    if saved.form != srv.rules.state_form:
        return f"{OTHER_FORM} 67677371, {saved.form:08x}"
    return f"{LOAD} n_stream mismatch" if saved.streams != _streams(srv) else ""


def _torn_state(srv: Core, saved: SlotFile, percent: int) -> StateEnd | None:
    """Return the place at which the state ends in the first ``percent`` of the file, None if it is complete."""
    before = srv.rules.slot_file_header + TOKEN_BYTES * len(saved.tokens)
    return torn_at(srv.memory, saved.blob, _bytes(srv, saved) * percent // 100 - before) if percent < 100 else None


def _read_torn(srv: Core, slot: Slot, blob: Blob, torn: StateEnd) -> None:
    """Read a state that ends too early. If it ends in rows, the rule decides what the slot keeps of it. Raise
    ProcessAborted if the process ends."""
    end = srv.decide(srv.rules.file_torn(torn.part, torn.last), slot) if torn.rows else FREED
    read_torn(srv.memory, slot.id, blob, torn, frees=end == FREED)
    if end == ENDS:
        raise ProcessAborted("GGML_ASSERT(nread <= state_size) failed", "truncated-slot-file")
    cause = "failed to restore kv cache" if torn.rows and end == FREED else "unexpectedly reached end of file"
    srv.emit(slot_ev.Error(f"{LOAD} {cause}"))


def _take_tokens(srv: Core, slot: Slot, saved: SlotFile) -> None:
    """Give the file's tokens to the slot; rules say which adapters it has then, and whether an empty file clears it."""
    if not saved.tokens and srv.decide(srv.rules.file_empty(len(slot.tokens)), slot):
        srv.clear(slot)
    slot.tokens = list(saved.tokens)
    if srv.adapters:
        slot.noted = srv.decide(srv.rules.adapters.file(slot.noted, saved.noted, len(srv.adapters)), slot)


def _take_checkpoints(srv: Core, slot: Slot, saved: SlotFile) -> None:
    """Give the file's checkpoints to the slot. As a test, the draft part of the newest checkpoint is loaded, which
    empties the draft context. If it does not fit there, every checkpoint loses its draft part."""
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
            srv.emit(slot_ev.Warn("draft context checkpoint data does not match the draft context - dropped"))
    srv.emit(llama_ev.CkptFromFile(slot.id, None, len(taken)))


def _without_draft(srv: Core, ckpt: Checkpoint) -> Checkpoint:
    lost = ckpt.draft.size + srv.rules.host_header if ckpt.draft else 0
    return Checkpoint(ckpt.facts._replace(size=ckpt.facts.size - lost), ckpt.blob)


def _refused(srv: Core, slot: Slot, cause: str) -> dict[str, Any]:
    """Handle a failed restore: a rule decides whether the slot also loses its cells. Its tokens go as after every
    clearing of a slot, with or without its checkpoints."""
    failed = srv.rules.restore_failed(cause)
    text, everything = srv.decide(failed, slot)
    if everything:
        srv.clear(slot)
    else:
        slot.tokens.clear()
        if srv.decide(srv.rules.clear(len(slot.checkpoints)), slot):
            slot.checkpoints.clear()
        srv.changed(slot, "cleared", failed.rule)
    srv.emit(slot_ev.Error(f"error: {text}"))
    return {"status": 400, "error": text}
