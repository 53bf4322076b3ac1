"""Builds between b6685 and b7789 that reported faults need, newest first.

Each is derived from its newer neighbour; a comment names the change that ended the older behaviour.
Source: ggml-org/llama.cpp at the commits that the tables name.
"""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.llama_cpp.profiles import adapter_tables
from cachesim.engines.llama_cpp.profiles.older_builds import B7789, without
from cachesim.engines.llama_cpp.rules import before_checkpoints as old
from cachesim.engines.llama_cpp.rules import (
    context_shift,
    older_slot_selection,
    prompt_lifecycle,
    seq_rm_and_state,
    slot_file,
    slot_selection,
    speculative,
    startup,
)
from cachesim.engines.llama_cpp.rules import prompt_cache as pc

B7400 = replace(
    B7789,
    name="llama_cpp@b7400",
    build="b7400",
    source="ggml-org/llama.cpp 0759b09c9 (2025-12-14), rules between #17775 (b7308) and #17982 (b7413); read only",
    children=older_slot_selection.children_evaluate,   # until #18263
    reuse_start=context_shift.reuse_off,     # until #18263
    trim=prompt_lifecycle.assert_if_refused,           # until #18391
    kv_read=seq_rm_and_state.read_together,            # until #17982
    file_torn=slot_file.torn_stays,                    # until #18801
    adapters=adapter_tables.OF_B7400,        # until #18263, #18547
    slots_open=startup.slots_open_at_one,    # until #17997
    silent=B7789.silent | {"lora_set"},      # until #18263
    defaults={**B7789.defaults, "ctx_size": 4096},     # until #16653
    unlogged=without(B7789, launch="is_child"),        # until #18663
    ended={"defaults": "#16653", "unlogged.launch": "#18663", "silent.lora_set": "#18263"},
)

B6998 = replace(
    B7400,
    name="llama_cpp@b6998",
    build="b6998",
    source="ggml-org/llama.cpp before cb1adf885 (2025-11-09), rules between #17046 (b6975) and #17078; read only",
    load_failed=pc.keep_after_failed_load,             # until #17078
    spec_batch=speculative.batch_is_own,               # until #17808
    trim=prompt_lifecycle.clear_if_refused,            # since #17267 only
    fail_clears=old.failure_keeps,           # until #17267
    rs_rm=seq_rm_and_state.rs_rm_1,                    # until #17009
    least_batch=64,                          # until #17505
    adapters=adapter_tables.OF_B6914,        # until #17263
    silent=B7400.silent | {"slot_clear"},    # until #17267
    children=older_slot_selection.children_ignored,    # until #17775
    ended={"least_batch": "#17505", "trim": "#17267", "silent.slot_clear": "#17267"},
)

B6914 = replace(
    B6998,
    name="llama_cpp@b6914",
    build="b6914",
    source="ggml-org/llama.cpp d8b860a21 (2025-11-01), in xllamacpp 0.2.4; read only",
    shift_when=old.shift_busy,               # until #17000
    slot_ctx=startup.slot_ctx_share,           # until #16736
    idle_purge=slot_selection.purge_none,            # until #16736
    auto_slots=1,                            # until #16736
    slots_open=startup.slots_open_if_auto,   # ONE since #16736 only
    ctx_pad=1,                               # until #17046
    window_pad=1,                            # until #17046
    silent=B6998.silent | {"trim_refused"},  # until #16736
    ended={"auto_slots": "#16736", "ctx_pad": "#17046", "window_pad": "#17046", "silent.trim_refused": "#16736"},
)

B6740 = replace(
    B6914,
    name="llama_cpp@b6740",
    build="b6740",
    source="ggml-org/llama.cpp 4b2dae383 (2025-10-12), rules between #16391 (b6723) and #16560 (b6756); read only",
    shift_when=context_shift.shift_generating,         # BUSY since #16818 only
    pc_update=pc.evict_fixed_tokens,         # until #16560
    kv_mrope=seq_rm_and_state.mrope_moves,   # until #16825
    adapters=adapter_tables.OF_B6740,        # until #16818
    end=old.end_untold,                      # until #16812
    ctx_pad=32,                              # until #16812
    window_pad=32,                           # until #16812
    ended={"ctx_pad": "#16812", "window_pad": "#16812", "shift_when": "#16818", "kv_mrope": "#16825"},
)
