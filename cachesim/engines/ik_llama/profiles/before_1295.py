"""Versions before #1295, newest first: servers without context checkpoints. Not recorded.

Hybrid models load since #1266 (2026-02-16). Without a checkpoint their recurrent rows are never restored. Drafts from
n-grams and MTP heads exist since #1261 and #1270 (2026-02); earlier rule sets simulate them as #1295 does.
"""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.ik_llama.profiles.before_1889_base import AFTER_1295
from cachesim.engines.ik_llama.rules import (
    checkpoint_restore,
    common_prefix,
    context_shift,
    micro_batch,
    slot_selection,
)
from cachesim.engines.ik_llama.rules import prompt_cache as pc

AFTER_1134 = replace(
    AFTER_1295,
    name="ik_llama@1134",
    build="2026-01-13",
    source="ikawrakow/ik_llama.cpp#1134 (1a461525d)",
    ckpt_need=checkpoint_restore.need_never,         # until #1295
)

AFTER_1079 = replace(
    AFTER_1134,
    name="ik_llama@1079",
    build="2025-12-22",
    source="ikawrakow/ik_llama.cpp#1079 (2a633c435)",
    abort=micro_batch.abort_never,                   # until #1134
)

AFTER_1008 = replace(
    AFTER_1079,
    name="ik_llama@1008",
    build="2025-11-26",
    source="ikawrakow/ik_llama.cpp#1008 (0b126b2ca)",
    compare=slot_selection.compare_text,             # until #1079
    pc_peek=pc.peek_directly,                        # until #1079
)

AFTER_973 = replace(
    AFTER_1008,
    name="ik_llama@973",
    build="2025-11-19",
    source="ikawrakow/ik_llama.cpp#973 (bacb8fb79)",
    compare=slot_selection.compare_tokens,           # until #1008
    prefix=common_prefix.prefix_tokens,              # until #1008
    shift_find=context_shift.shift_equal,            # until #1008
)

AFTER_954 = replace(
    AFTER_973,
    name="ik_llama@954",
    build="2025-11-14",
    source="ikawrakow/ik_llama.cpp#954 (bb358223c)",
    shifted=slot_selection.compare_unshifted,        # until #973
    prompt_shift=context_shift.shift_prompt_halves,  # until #973
    prompt_cut=context_shift.prompt_cut_nothing,     # until #973
)

AFTER_645 = replace(
    AFTER_954,
    name="ik_llama@645",
    build="2025-08-16",
    source="ikawrakow/ik_llama.cpp#645 (b6bc5eeda); with cache_prompt false its token list is not simulated",
    slot_select=slot_selection.slot_select_last_prompt,  # until #924
    pc_save=slot_selection.save_never,               # until #954
    graph=micro_batch.graph_new,                     # until #947
    kv_window=micro_batch.window_in_all_cells,       # until #757
    defaults={**AFTER_954.defaults, "cache_ram": 0},     # until #954
    ended={**AFTER_954.ended, "defaults": "#954"},
)
