"""Bookkeeping of cells that was wrong in some builds, and what replaced it.

Each pair of rules is one fault: the first variant is right, the others belong to the builds that they name.
Source: llama.cpp src/llama-kv-cache.cpp, src/llama-kv-cells.h, src/llama-memory-recurrent.cpp (3f545be).
"""

from __future__ import annotations

from cachesim.engines.llama_cpp.source_files import KV_CACHE, RECURRENT, llama_cpp
from cachesim.engines.rule import Decision, Role, rule

CELLS = "src/llama-kv-cells.h"


@rule("LC-RS-TAIL.CLEARED", Role.REMOVE,
      llama_cpp(RECURRENT, "llama_memory_recurrent::seq_rm", "3f545be", note="read in b4094 too"),
      since="#9249 (b3658)")
def tail_cleared() -> Decision:
    """Return False: a sequence whose recurrent state is removed no longer points to the cell that held it."""
    return Decision(False, {})


# [Gone in llama_cpp@b4094]
@rule("LC-RS-TAIL.STALE", Role.REMOVE,
      llama_cpp("src/llama.cpp", "llama_kv_cache_seq_rm, llama_kv_cache_find_slot", "b3642", pull=9249),
      until="#9249 (b3658)")
def tail_stale() -> Decision:
    """Return True: a sequence whose recurrent state is removed still points to the emptied cell, and its next batch
    aborts the server. Read, not run."""
    return Decision(True, {})


@rule("LC-KV-TURN.OWN", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::set_input_k_shift", "3f545be", note="read in b6170 too"),
      since="#14742 (b5923)")
def turn_own() -> Decision:
    """Return False: a K-shift turns the keys of each stream by the shifts of this stream."""
    return Decision(False, {})


# [Gone in llama_cpp@b6110]
@rule("LC-KV-TURN.FIRST", Role.MEMORY, llama_cpp(pull=14742), since="#14363 (b5913)", until="#14742 (b5923)")
def turn_first() -> Decision:
    """Return True: a K-shift turns only the keys of the first stream, by the shifts of the last: the index into its
    input ignores the stream. Other streams keep keys of old positions. Read in the change, not run."""
    return Decision(True, {})


@rule("LC-KV-MASK.OWN", Role.MEMORY,
      llama_cpp(KV_CACHE, "llama_kv_cache::is_masked_swa", "3f545be"), since="#15811 (b6389)")
def mask_own() -> Decision:
    """Return False: a full-attention cache keeps all cells, whatever window the model's other layers have."""
    return Decision(False, {})


# [Gone in llama_cpp@b6685]
@rule("LC-KV-MASK.MODEL", Role.MEMORY,
      llama_cpp(pull=15811, note="not yet so in b6170"), since="#15798 (b6384)", until="#15811 (b6389)")
def mask_model() -> Decision:
    """Return True: the full-attention cache of a model with windows also takes cells outside the window for new
    tokens, because it reads the window from the model. Read in the change, not run."""
    return Decision(True, {})


@rule("LC-KV-POS.COUNTED", Role.MEMORY, llama_cpp(CELLS, "seq_pos", "3f545be"), since="#14339 (b5742)")
def count_positions() -> Decision:
    """Return False: the cell table counts how often a sequence has a position."""
    return Decision(False, {})


# [Gone in llama_cpp@b5833]
@rule("LC-KV-POS.SET", Role.MEMORY, llama_cpp(pull=14339), since="#13808 (b5504)", until="#14339 (b5742)")
def set_of_positions() -> Decision:
    """Return True: the cell table keeps a set of positions per sequence. If two cells have the same position for a
    moment, moving one of them removes the position although the other still has it. Read in the change, not run."""
    return Decision(True, {})


@rule("LC-BATCH-CHECK.NEXT", Role.MEMORY,
      llama_cpp("src/llama-batch.cpp", "llama_batch_allocr::init", "3f545be"), since="#14177 (b5666)")
def check_next() -> Decision:
    """Return False: a batch must continue each sequence at the position after its last, or it is refused."""
    return Decision(False, {})


# [Gone in llama_cpp@b5735]
@rule("LC-BATCH-CHECK.NONE", Role.MEMORY, llama_cpp("src/llama-context.cpp", "decode", "b5308"), until="#14177 (b5666)")
def check_nothing() -> Decision:
    """Return True: a batch may begin at any position of a sequence, whatever the memory holds before it."""
    return Decision(True, {})
