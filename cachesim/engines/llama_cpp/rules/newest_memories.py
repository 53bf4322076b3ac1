"""Memories with index rows, chosen blocks or compressed rows: what a server derives from them, and K-shifts.

Source: llama.cpp src/llama-kv-cache.cpp, llama-kv-cache-dsv4.cpp, src/models/minimax-m3.cpp (b11549).
"""

from __future__ import annotations

from cachesim.engines.llama_cpp.source_files import KV_CACHE, llama_cpp
from cachesim.engines.rule import Decision, Role, rule

DSV4 = "dsv4"
ROTATED = 64                  # a matrix that rotates quantized K rows exists for heads of a multiple of this width


@rule("LC-N-SWA-TOLD.ROWS", Role.SETUP,
      llama_cpp("src/llama-model.cpp", "llama_model_n_swa, llama_hparams", "b11549", note="the same in b10229"),
      since="b10229")
def window_told(n_swa: int, memory: str) -> Decision:
    """Return the window that the library tells the server: that of the model, but 0 for a memory with compressed rows,
    whose checkpoints are those of a recurrent state."""
    return Decision(0 if memory == DSV4 else n_swa, {"n_swa": n_swa, "memory": memory})


@rule("LC-KV-STREAMS.OWN", Role.SETUP,
      llama_cpp("src/llama-kv-cache-dsv4.cpp", 'llama_kv_cache_dsv4 "unified_compressed"', "b11549",
                note="the same in b10229"), since="b10229")
def streams_shared(unified: bool, memory: str) -> Decision:
    """True if the slots share the cells: as ``--kv-unified`` asks, but never with compressed rows. Every slot
    then has room for the whole context, while the server still clears and purges idle slots."""
    return Decision(unified and memory != DSV4, {"unified": unified, "memory": memory})


@rule("LC-MSA-READ.ONE-STREAM", Role.SETUP,
      llama_cpp("src/models/minimax-m3.cpp", "llama_model_minimax_m3::graph", "b11549", note="the same in b10566"),
      since="b10566")
def reads_all(n_slots: int, unified: bool) -> Decision:
    """True if all rows are read instead of the chosen blocks: several slots share the cells. (Also without flash
    attention, which is not an option here.) A cold run reads the same."""
    return Decision(n_slots > 1 and unified, {"n_slots": n_slots, "unified": unified})


@rule("LC-KV-INDEX.SPOILT", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::build_graph_shift, build_rope_shift", "b11549", note="the same in b10809"),
      since="b10809")
def index_spoilt() -> Decision:
    """Return True: a K-shift turns the last numbers of an index key, which is stored behind a rotation of the whole
    head with the positions in its first numbers. The key is then that of no token."""
    return Decision(True, {})


@rule("LC-INDEX-SHIFT.DIES", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::build_graph_shift", "b10566", note="seen on the real b10566"),
      until="#27967")
def index_shift_dies() -> Decision:
    """Return True: a K-shift of index keys ends the process."""
    return Decision(True, {})


# [New in llama_cpp@b10809]
@rule("LC-INDEX-SHIFT.DONE", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::build_graph_shift", "b10809", pull=27967), since="#27967")
def index_shift_done() -> Decision:
    """Return False: a K-shift moves index keys."""
    return Decision(False, {})


# [New in llama_cpp@b11549-proposed]
@rule("LC-KV-INDEX.TURNED", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::build_graph_shift", "b11549",
                note="proposed here, tried on a build: for an index cache rotate the whole head back, turn its first "
                     "n_rot numbers, rotate it again"))
def index_turned() -> Decision:
    """Return False: a K-shift turns index keys like other keys."""
    return Decision(False, {})


@rule("LC-POOL-READ.CUT", Role.MEMORY,
      llama_cpp("src/llama-memory-hybrid-idx.cpp", "llama_memory_hybrid_idx::set_input_qsa, "
                "src/models/qwen4exp.cpp build_qsa_top_k", "b11063", note="the same in b10809 and b11312"),
      since="b10809", until="b11549")
def pools_cut() -> Decision:
    """Return True: a token reads a number of rows, not of pools. A sorting routine cuts its last pool, and the choice
    among its equal rows depends on the cells of the sequence. Only rows from cell 0 on, in order, are read as in a cold
    run. A pool whose rows belong to different sets of sequences is always read."""
    return Decision(True, {})


# [New in llama_cpp@b11549]
@rule("LC-POOL-READ.WHOLE", Role.MEMORY,
      llama_cpp("src/llama-memory-hybrid-idx.cpp", "llama_memory_hybrid_idx_context::set_input_kpool", "b11549"),
      since="b11549")
def pools_whole() -> Decision:
    """Return False: a token reads whole pools of its own sequence, whatever their cells are."""
    return Decision(False, {})


@rule("LC-ROWS-READ.ALL", Role.MEMORY,
      llama_cpp("src/llama-kv-cache-dsv4.cpp", "llama_kv_cache_dsv4::state_read", "b10229", note="the same in b10566"),
      until="b10809")
def all_emptied() -> Decision:
    """Return True: reading a full state first empties the compressed rows of all sequences, which other slots go on
    reading."""
    return Decision(True, {})


# [New in llama_cpp@b10809]
@rule("LC-ROWS-READ.OWN", Role.MEMORY,
      llama_cpp("src/llama-kv-cache-dsv4.cpp", "llama_kv_cache_dsv4::state_read", "b10809"), since="b10809")
def own_emptied() -> Decision:
    """Return False: reading a full state first empties the compressed rows of its own sequence."""
    return Decision(False, {})


@rule("LC-KV-QUANT.DIES", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::build_rope_shift", "b11549", note="the same in b10809"), until="#25636")
def quantized_shift_dies(head: int, quantized: bool) -> Decision:
    """True if a K-shift ends the process: K rows are quantized, and their heads are no multiple of 64 numbers,
    so that the matrix that it uses does not exist. ``head`` 0 = not known: it does not end."""
    return Decision(quantized and head % ROTATED > 0, {"head": head, "quantized": quantized})


# [New in llama_cpp@b11549-proposed]
@rule("LC-KV-QUANT.LIVES", Role.MEMORY,
      llama_cpp(KV_CACHE, "build_rope_shift", pull=25636, note="open; its change was tried on a build: rotate only if "
                                                              "there is a matrix"))
def quantized_shift_lives(head: int, quantized: bool) -> Decision:
    """Return False: a K-shift of quantized rows uses the matrix only if there is one."""
    return Decision(False, {"head": head, "quantized": quantized})
