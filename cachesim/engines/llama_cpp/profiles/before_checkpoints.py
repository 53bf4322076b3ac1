"""Builds before b6160, the first with checkpoints, newest first, back to November 2023.

Each is derived from its newer neighbour; a comment names the change that ended the older behaviour.
Source: ggml-org/llama.cpp at the commits that the tables name. Of these builds b5833, b4579, b2781 and b1573 were also
run (`tests/live/older_servers.py`); a rule of a table that was only read says so. Not simulated: system prompts (until
b3910), self-extension, the search for adjacent cells with defragmentation, and one more context shift of b1573 when a
generation ends in a full context.

Until b4170 the request field cache_prompt was false unless a client set it. Until b5913 all slots share one cache.
Before b5429 a window is only a mask: every cell of a sequence stays.
"""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.llama_cpp.profiles.older_builds import B6160
from cachesim.engines.llama_cpp.rules import before_checkpoints as old
from cachesim.engines.llama_cpp.rules import cell_faults as cells
from cachesim.engines.llama_cpp.rules import repaired, seq_rm_and_state, slot_file, speculative, startup
from cachesim.engines.llama_cpp.rules import server_of_2023 as first

B6110 = replace(
    B6160,
    name="llama_cpp@b6110",
    build="b6110",
    source="ggml-org/llama.cpp 9a9638954 (2025-08-07), rules between #14742 (b5923) and #15293 (b6160); read only",
    ckpt_on=old.never_on,                    # until #15293
    defaults={**B6160.defaults, "ctx_checkpoints": 0},
    ended={"defaults": "#15293"},
)

B5913 = replace(
    B6110,
    name="llama_cpp@b5913",
    build="b5913",
    source="ggml-org/llama.cpp 225e7a143 (2025-07-16), the first with a cache per slot; read only",
    kv_turn=cells.turn_first,                # until #14742
)

B5833 = replace(
    B5913,
    name="llama_cpp@b5833",
    build="b5833",
    source="ggml-org/llama.cpp a0374a67e (2025-07-05), in llama-cpp-python 0.3.12",
    memories=("A", "W", "R"),                # hybrid models since #14534
    kv_turn=cells.turn_own,                  # since #14363 only
    rs_split=old.split_lost,                 # until #14575
    defaults={**B5913.defaults, "kv_unified": True},         # until #14363
    ended={"defaults": "#14363", "rs_split": "#14575", "kv_turn": "#14363", "memories": "#14534"},
)

B5735 = replace(
    B5833,
    name="llama_cpp@b5735",
    build="b5735",
    source="ggml-org/llama.cpp 5d5c066de (2025-06-22), rules between #14163 (b5653) and #14339 (b5742); read only",
    rs_split=seq_rm_and_state.split_any_ids,     # since #14512 only
    kv_pos=cells.set_of_positions,           # until #14339
    ended={"rs_split": "#14512"},
)

B5630 = replace(
    B5735,
    name="llama_cpp@b5630",
    build="b5630",
    source="ggml-org/llama.cpp 4c763c8d1 (2025-06-10), rules between #14079 (b5610) and #14163 (b5653); read only",
    ckpt_need=old.need_below_zero,           # until #14163
    batch_check=cells.check_nothing,         # until #14177
)

B5554 = replace(
    B5630,
    name="llama_cpp@b5554",
    build="b5554",
    source="ggml-org/llama.cpp 3600cc288 (2025-05-31), the first with a small window cache; read only",
    slot_select=old.slot_select_00,          # until #14079
)

B5340 = replace(
    B5554,
    name="llama_cpp@b5340",
    build="b5340",
    source="ggml-org/llama.cpp 15e6125a3 (2025-05-10), rules between #12898 (b5331) and #13533 (b5379); read only",
    n_swa=startup.n_swa_unless_full,         # windows are only a mask until #13194
    kv_full=repaired.full_keeps,             # until #13194
    kv_pos=cells.count_positions,            # since #13808 only
    list_kept=old.list_asserts,              # until #13533
    end=old.end_late,                        # until #13577 (b5409)
    defaults={**B5554.defaults, "swa_full": True},           # until #13194
    ended={"defaults": "#13194", "kv_full": "#13194", "n_swa": "#13194", "kv_pos": "#13808"},
)

B5308 = replace(
    B5340,
    name="llama_cpp@b5308",
    build="b5308",
    source="ggml-org/llama.cpp 8733e0cf6 (2025-05-08), in llama-cpp-python 0.3.9; read only",
    slot_like=old.like_by_substring,         # until #12898
    list_kept=old.list_zeros,                # until #12898
    ended={"list_kept": "#12898"},
)

B4579 = replace(
    B5308,
    name="llama_cpp@b4579",
    build="b4579",
    source="ggml-org/llama.cpp 794fe23f2 (2025-01-28), in llama-cpp-python 0.3.7",
    reuse=old.reuse_open,                    # until #12161
    spec_types=("none", "draft-simple"),     # later builds draft too, which is not simulated until #18471
)

B4265 = replace(
    B4579,
    name="llama_cpp@b4265",
    build="b4265",
    source="ggml-org/llama.cpp before 1da7b7656 (2024-12-04), rules between #10455 (b4164) and #10641; read only",
    most_adapters=0,                         # adapters of a request since #10994 (b4406); older ones were not read
    draft_max=speculative.draft_any,         # until #10641
    ended={"most_adapters": "#10994"},
)

B4094 = replace(
    B4265,
    name="llama_cpp@b4094",
    build="b4094",
    source="ggml-org/llama.cpp 74d73dc85 (2024-11-15), in llama-cpp-python 0.3.2; b4265 without drafts; read only",
    spec_types=("none",),                    # drafts since #10455
    ended={"spec_types": "#10455"},
)

B3642 = replace(
    B4094,
    name="llama_cpp@b3642",
    build="b3642",
    source="ggml-org/llama.cpp 1d1ccce67 (2024-08-28), rules of llama-cpp-python 0.2.90; read only",
    rs_tail=cells.tail_stale,                # until #9249 (b3658)
    reuse=old.reuse_none,                    # until #9866
    ended={"reuse": "#9866"},
)

B2781 = replace(
    B3642,
    name="llama_cpp@b2781",
    build="b2781",
    source="ggml-org/llama.cpp 6ecf3189e (2024-05-02), in llama-cpp-python 0.2.69; recurrent models were not examined",
    slot_select=old.slot_select_named,       # until #7728
    file_torn=slot_file.torn_buffer,         # until #8699
    memories=("A", "R"),                     # windows since #8227
    ctx_pad=256,                             # seen on the real server; 32 in b4579
    ended={"ctx_pad": "#7257", "memories": "#8227", "slot_select": "#7728"},
)

B1573 = replace(
    B2781,
    name="llama_cpp@b1573",
    build="b1573",
    source="ggml-org/llama.cpp b38a16dfc (2023-11-27), in llama-cpp-python 0.2.20; attention only",
    list_kept=first.list_sampled,              # until #5882
    trim_at=first.trim_at_prefix,              # until #5420
    ckpt_break=first.break_nowhere,            # until #5882
    context_shift=first.shift_after_one,       # until #5622
    memories=("A",),                         # recurrent models since #5328
    ctx_pad=32,                              # seen on the real server
    ended={"ctx_pad": "#5021", "memories": "#5328"},
    end=first.end_after_three,                 # until #4798
)
