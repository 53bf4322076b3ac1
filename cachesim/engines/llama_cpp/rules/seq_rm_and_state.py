"""Memory operations: refused removals, rollback, splits of a batch, contents of saved states.

Source: llama.cpp src/llama-memory-recurrent.cpp seq_rm, src/llama-kv-cache.cpp state_write (3f545be).
"""

from __future__ import annotations

import numpy as np

from cachesim.engines.llama_cpp.memory.ubatch import BatchSplit
from cachesim.engines.llama_cpp.source_files import HYBRID, KV_CACHE, RECURRENT, llama_cpp
from cachesim.engines.rule import Decision, Role, rule


@rule("LC-RS-RM.RM3", Role.REMOVE,
      llama_cpp(RECURRENT, "llama_memory_recurrent::seq_rm", "3f545be"), since="#22673 (b9180)")
def rs_rm_3(pos: int, p0: int, p1: int, goes_back: bool) -> Decision:
    """Refuse (returns True) a seq_rm that removes the end of a recurrent state but keeps its beginning, unless the
    state can be rolled back (LC-RS-BACK)."""
    return Decision(0 < p0 <= pos < p1 and not goes_back, {"pos": pos, "p0": p0, "p1": p1})


# [Gone in llama_cpp@b9230]
@rule("LC-RS-RM.RM2", Role.REMOVE,
      llama_cpp(RECURRENT, "seq_rm", "ffdd983fb"), since="#17009 (b7011)", until="#22673 (b9180)")
def rs_rm_2(pos: int, p0: int, p1: int, goes_back: bool) -> Decision:
    """Refuse (returns True) a seq_rm that removes the end of a recurrent state but keeps its beginning: the state
    cannot be rolled back."""
    return Decision(0 < p0 <= pos < p1, {"pos": pos, "p0": p0, "p1": p1})


# [Gone in llama_cpp@b7400]
@rule("LC-RS-RM.RM1", Role.REMOVE,
      llama_cpp(RECURRENT, "seq_rm", "f6dcda390"), since="#16382 (b6685)", until="#17009 (b7011)")
def rs_rm_1(pos: int, p0: int, p1: int, goes_back: bool) -> Decision:
    """Refuse (returns True) a seq_rm that begins or ends strictly before the state's position. A seq_rm that begins at
    the position is accepted, and drops the whole state without a log line."""
    return Decision(0 < p0 < pos or 0 < p1 <= pos, {"pos": pos, "p0": p0, "p1": p1})


# [Gone in llama_cpp@b6685]
@rule("LC-RS-RM.RM0", Role.REMOVE, llama_cpp(RECURRENT, "seq_rm", "d32e03f44"), until="#16382 (b6685)")
def rs_rm_0(pos: int, p0: int, p1: int, goes_back: bool) -> Decision:
    """Refuse (returns True) a seq_rm that begins or ends at or before the state's position."""
    return Decision(0 < p0 <= pos or 0 < p1 <= pos, {"pos": pos, "p0": p0, "p1": p1})


@rule("LC-RS-BACK.ANY", Role.REMOVE, llama_cpp(RECURRENT, "seq_rm", "3f545be"), since="#22673 (b9180)")
def back_any(back: int, n_rs_seq: int, pending: int, sharers: int) -> Decision:
    """True if a recurrent state can be rolled back by ``back`` tokens: up to n_rs_seq. A pending rollback is
    not checked: a second rollback counts from the new position and reads a wrong plane."""
    because = {"back": back, "n_rs_seq": n_rs_seq, "pending": pending}
    return Decision(1 <= back <= n_rs_seq, because)


# [New in llama_cpp@b10809]
@rule("LC-RS-BACK.ONCE", Role.REMOVE, llama_cpp(RECURRENT, "seq_rm", "b10809"), since="b10809")
def back_once(back: int, n_rs_seq: int, pending: int, sharers: int) -> Decision:
    """True if a recurrent state can be rolled back by ``back`` tokens: up to n_rs_seq, and only if no rollback
    is pending. The server never requests a second rollback: read in the source only."""
    because = {"back": back, "n_rs_seq": n_rs_seq, "pending": pending}
    return Decision(not pending and 1 <= back <= n_rs_seq, because)


# [New in llama_cpp@b11549]
@rule("LC-RS-BACK.ALONE", Role.REMOVE, llama_cpp(RECURRENT, "seq_rm", "b11549"), since="b11549")
def back_alone(back: int, n_rs_seq: int, pending: int, sharers: int) -> Decision:
    """True if a recurrent state can be rolled back by ``back`` tokens: as ONCE, and only in a cell that no
    other sequence shares. (Some draft contexts have a memory without recurrent layers, which keeps no planes and can
    change its position freely; no model here has such a context.)"""
    because = {"back": back, "n_rs_seq": n_rs_seq, "pending": pending, "sharers": sharers}
    return Decision(sharers == 1 and not pending and 1 <= back <= n_rs_seq, because)


@rule("LC-RS-PLANES.MTP", Role.SETUP,
      llama_cpp("common/common.h", "need_n_rs_seq, src/llama-context.cpp", "3f545be"), since="#22673 (b9180)")
def planes_for_mtp(spec_type: str, n_max: int, can_roll_back: bool) -> Decision:
    """Return n_rs_seq, the number of rollback planes of a recurrent state: the draft length of an MTP head in
    architectures with rollback, else 0."""
    n_rs_seq = n_max if spec_type == "draft-mtp" and can_roll_back else 0
    return Decision(n_rs_seq, {"spec_type": spec_type, "n_max": n_max, "can": can_roll_back})


# [Gone in llama_cpp@b9230]
@rule("LC-RS-PLANES.NONE", Role.SETUP, llama_cpp(RECURRENT, "", "ffdd983fb"), until="#22673 (b9180)")
def planes_none(spec_type: str, n_max: int, can_roll_back: bool) -> Decision:
    """Return n_rs_seq = 0: a recurrent memory has no rollback planes."""
    return Decision(0, {"spec_type": spec_type})


@rule("LC-RS-PLANE.DEPTH", Role.MEMORY, llama_cpp(RECURRENT, "set_rs_idx, find_slot", "3f545be"),
      since="#22673 (b9180)")
def plane_of_depth(back: int, pending: int, since: int, written: int) -> Decision:
    """Return the plane from which a state continues that is rolled back by ``back`` tokens: the plane of that number.
    Tokens evaluated after the planes (``since``) and the planes of a pending rollback are not counted."""
    return Decision(back, {"back": back, "pending": pending, "since": since, "written": written})


# [New in llama_cpp@pr29117-on-b9230]
@rule("LC-RS-PLANE.COUNTED", Role.MEMORY, llama_cpp(pull=29117, note="open"))
def plane_of_position(back: int, pending: int, since: int, written: int) -> Decision:
    """Return the plane that holds the state at the wanted position: counted from the end of the micro-batch that wrote
    the planes. 0 = no plane holds it: the removal fails."""
    plane = back + pending - since
    because = {"back": back, "pending": pending, "since": since, "written": written}
    return Decision(plane if 1 <= plane <= written else 0, because)


@rule("LC-RS-SAVED.PENDING", Role.MEMORY, llama_cpp(RECURRENT, "state_write", "3f545be"), since="#22673 (b9180)")
def saved_of_pending(pending: int) -> Decision:
    """Return the plane that is saved while a rollback is pending: the one from which the sequence continues."""
    return Decision(pending, {"pending": pending})


# [New in llama_cpp@22673-draft]
# [Gone in llama_cpp@b9231]
@rule("LC-RS-SAVED.ABORT", Role.MEMORY,
      llama_cpp(pull=22673, note="a development version, in the thread am17an/llama.cpp#15 only"))
def saved_aborts(pending: int) -> Decision:
    """Return -1: saving a state while a rollback is pending ends the process."""
    return Decision(-1, {"pending": pending})


def _split(split: BatchSplit, n_rs_seq: int, unified: bool) -> Decision:
    return Decision(split, {"n_rs_seq": n_rs_seq, "unified": unified})


@rule("LC-RS-SPLIT.TAIL", Role.MEMORY,
      llama_cpp(RECURRENT, 'init_batch, src/llama-batch.cpp split_equal "n_keep_tail"', "3f545be"),
      since="#25278 (b9922)")
def split_keeps_tail(n_rs_seq: int, attention: bool, unified: bool) -> Decision:
    """Return the split of a batch for recurrent layers: equally many tokens of several sequences per micro-batch. The
    last n_rs_seq + 1 tokens of a sequence stay in the same micro-batch, because only the micro-batch with the last
    token writes planes; the server aborts if it cannot hold them."""
    split = BatchSplit(False, not (attention and unified), n_rs_seq + 1 if n_rs_seq else 0)
    return _split(split, n_rs_seq, unified)


# [Gone in llama_cpp@b10587]
@rule("LC-RS-SPLIT.ALONE", Role.MEMORY,
      llama_cpp(RECURRENT, 'init_batch "TAG_RECURRENT_ROLLBACK_SPLITS"', "b9538", note="read in b9294 to b9873"),
      since="#23269 (b9235)", until="#25278 (b9922)")
def split_alone(n_rs_seq: int, attention: bool, unified: bool) -> Decision:
    """Return the split of a batch for recurrent layers: with rollback planes a micro-batch has tokens of a single
    sequence, and its last tokens may be divided."""
    split = BatchSplit(bool(n_rs_seq), not (attention and unified), 0)
    return _split(split, n_rs_seq, unified)


# [Gone in llama_cpp@b9473]
@rule("LC-RS-SPLIT.EQUAL", Role.MEMORY,
      llama_cpp(HYBRID, "init_batch", "b8672", note="read in b8672 to b9093"), since="#21224", until="#23269 (b9235)")
def split_equally(n_rs_seq: int, attention: bool, unified: bool) -> Decision:
    """Return the split of a batch for recurrent layers: equally many tokens of several sequences. Planes that the last
    micro-batch does not reach are stale. In a hybrid with a unified KV cache the ids need not be consecutive."""
    return _split(BatchSplit(False, not (attention and unified), 0), n_rs_seq, unified)


# [Gone in llama_cpp@b8916]
@rule("LC-RS-SPLIT.NEXT", Role.MEMORY,
      llama_cpp(HYBRID, "init_batch", note="read in xllamacpp 0.2.12 (2026-02)"), since="#16442", until="#21224")
def split_neighbours(n_rs_seq: int, attention: bool, unified: bool) -> Decision:
    """Return the split of a batch for recurrent layers: only sequences with consecutive ids share a micro-batch."""
    return _split(BatchSplit(False, True, 0), n_rs_seq, unified)


# [Gone in llama_cpp@b6740]
@rule("LC-RS-SPLIT.ANY", Role.MEMORY,
      llama_cpp(HYBRID, "init_batch, src/llama-kv-cache-unified.cpp find_slot", "4227c9be4", pull=16278),
      until="#16442")
def split_any_ids(n_rs_seq: int, attention: bool, unified: bool) -> Decision:
    """Return the split of a batch for recurrent layers: any sequences share a micro-batch; without a unified KV cache
    the server aborts unless their ids are consecutive."""
    return _split(BatchSplit(False, False, 0), n_rs_seq, unified)


@rule("LC-KV-COPY.LATER", Role.MEMORY,
      llama_cpp(KV_CACHE, 'llama_kv_cache::seq_cp "sc_info", llama_kv_cache::update', "3f545be",
                note="the same in b6170"), since="#14363")
def copy_waits() -> Decision:
    """Return True: seq_cp between streams marks the cells at once, but the next decode copies the rows, and overwrites
    rows written in between."""
    return Decision(True, {})


@rule("LC-KV-STATE.WINDOW", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::state_write", "3f545be"), since="#23981 (b9473)")
def keep_window(pos: np.ndarray, pos_max: int, n_swa: int) -> Decision:
    """Return a mask of the cells that a saved window cache contains: only what a query at pos_max still sees."""
    return Decision(pos_max - pos < n_swa, {"pos_max": pos_max, "n_swa": n_swa})


# [Gone in llama_cpp@b9473]
@rule("LC-KV-STATE.RING", Role.MEMORY, llama_cpp(KV_CACHE, "state_write", "ccee42642"), until="#23981 (b9473)")
def keep_ring(pos: np.ndarray, pos_max: int, n_swa: int) -> Decision:
    """Return a mask of the cells that a saved window cache contains: every cell of the sequence, also outside the
    window."""
    return Decision(np.ones(len(pos), dtype=bool), {"pos_max": pos_max, "n_swa": n_swa})


@rule("LC-KV-READ.ANY", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::state_read_meta", "3f545be"), since="#17982 (b7413)")
def read_anywhere() -> Decision:
    """Return False: a saved state may be read into any free cells, contiguous or not."""
    return Decision(False, {})


# [Gone in llama_cpp@b7789]
@rule("LC-KV-READ.TOGETHER", Role.MEMORY, llama_cpp(KV_CACHE, "state_read_meta", "f6dcda390"), until="#17982 (b7413)")
def read_together() -> Decision:
    """Return True: a saved state is read into contiguous cells, and the next search for free cells starts at the first
    of them, so a full ring loses the state's first rows."""
    return Decision(True, {})


@rule("LC-KV-FAIL.KEEP", Role.FAIL, llama_cpp(HYBRID, "state_read", "3f545be"), until="b11312")
def fail_keeps() -> Decision:
    """Return False: the parts of a state that were read before a failing part are not undone."""
    return Decision(False, {})


# [New in llama_cpp@b11312]
@rule("LC-KV-FAIL.UNDO", Role.FAIL,
      llama_cpp(HYBRID, "state_read, src/llama-kv-cache.cpp state_clear", "b11312"), since="b11312")
def fail_undoes() -> Decision:
    """Return True: if the recurrent part of a hybrid state cannot be read, the attention part is cleared too (but not
    a window). The server clears the slot right after, so no answer depends on it: read in the source only."""
    return Decision(True, {})


@rule("LC-KV-UNDO.USED", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::prepare", "3f545be",
                note="recorded in swa-first/gemma3l6-branch-3596; seen on the real b10566, b10809, "
                     "b11063 and b11549"))
def undo_used() -> Decision:
    """Return True: undoing a prepared batch restores only the cells found for its tokens. Other cells that the trial
    purged (window caches) stay purged, so the batch may miss a part of its own window. This requires several
    micro-batches and a window whose cells are not in the order of their positions: after a restored state, or with
    several sequences in a common buffer. Read in d32e03f44, in xllamacpp 0.2.12 (2026-02-27) and from b10566 to
    b11549."""
    return Decision(True, {})


@rule("LC-KV-FULL.FORGETS", Role.MEMORY,
      llama_cpp(KV_CACHE, 'llama_kv_cache::find_slot "is_masked_swa", state_write', "3f545be"))
def full_forgets() -> Decision:
    """Return True: with ``--swa-full`` a window cache has as many cells as the full-attention cache, but cells outside
    the window are still reused for new tokens and left out of a saved state."""
    return Decision(True, {})


@rule("LC-KV-SHARED.STAYS", Role.MEMORY,
      llama_cpp(KV_CACHE, 'llama_kv_cache::find_slot "cells.seq_count"', "3f545be"))
def shared_stays() -> Decision:
    """Return True: a cell of a window cache that several sequences use is not reused for new tokens, though it lies
    outside all their windows. Completions of one prompt can fill the cache so that nothing else fits."""
    return Decision(True, {})


@rule("LC-KV-MROPE.FIXED", Role.MEMORY,
      llama_cpp(KV_CACHE, 'llama_kv_cache::get_can_shift "n_pos_per_embd"', "3f545be", pull=19928),
      since="#19928 (b8165)")
def mrope_fixed() -> Decision:
    """Return "fixed": 2-D positions cannot be moved. The server switches context shifts and moved blocks off."""
    return Decision("fixed", {})


# [Gone in llama_cpp@b8260]
@rule("LC-KV-MROPE.ENDS", Role.MEMORY,
      llama_cpp(KV_CACHE, 'llama_kv_cache::seq_add "n_pos_per_embd() == 1"', "d7d826b3c", pull=19928,
                note="seen on the real b7376, b7964 and b8156"), since="#16825 (b6878)", until="#19928 (b8165)")
def mrope_ends() -> Decision:
    """Return "ends": the server takes 2-D positions for movable, and moving one ends the process."""
    return Decision("ends", {})


# [Gone in llama_cpp@b6914]
@rule("LC-KV-MROPE.MOVES", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache_unified::seq_add, get_can_shift", "d32e03f44", note="read in b6170, not run"),
      until="#16825 (b6878)")
def mrope_moves() -> Decision:
    """Return "moves": 2-D positions are moved like others, all dimensions alike."""
    return Decision("moves", {})


@rule("LC-KV-SHIFT.ANY", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::update, build_graph_shift, set_input_k_shift", "3f545be"))
def shift_dies() -> Decision:
    """Return True: the next decode applies shifted positions even in a cache without layers, which aborts the server
    (defect D21)."""
    return Decision(True, {})
