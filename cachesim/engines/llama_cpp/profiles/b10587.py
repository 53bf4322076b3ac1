"""Build b10587 (commit 3f545be), which was read and run most thoroughly, and changes proposed for it."""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.llama_cpp.profiles.adapter_tables import NOT_RUN
from cachesim.engines.llama_cpp.profiles.rule_table import MediaRules, Rules
from cachesim.engines.llama_cpp.rules import checkpoint_create as make
from cachesim.engines.llama_cpp.rules import checkpoint_restore as use
from cachesim.engines.llama_cpp.rules import older_media
from cachesim.engines.llama_cpp.rules import prompt_cache as pc

WITH_COMPRESSED = ("A", "W", "R", "H", "HW", "dsv4")
"""Memories of b10229, the first wheel whose compressed rows are simulated. Those of b10068 differ."""
WITH_BLOCKS = (*WITH_COMPRESSED, "dsa", "msa")
"""Memories of b10566, the first wheel with index rows in caches of their own."""

B10587 = Rules(
    name="llama_cpp@b10587",
    build="b10587",
    source="ggml-org/llama.cpp 3f545beccee69d9975f466ec7e45fd9aacd8ba90 (2026-08-22)",
    most_adapters=64,
    most_images=64,
    media=MediaRules(cut=older_media.cut_between),
    image_bytes=141,
    memories=WITH_BLOCKS,
    silent=frozenset({"ckpt_search"}),
    unlogged={"slot_by_lcp": frozenset({"task", "lcp"}), "slot_by_lru": frozenset({"task"})},
    ended={"ext_bytes": "#27762", "state_form": "#27762", "memories": "b10809"},
    inferred=NOT_RUN,
)

PR24143_ON_B10587 = replace(
    B10587,
    name="llama_cpp@pr24143-on-b10587",
    source="3f545be with ggml-org/llama.cpp#24143 applied locally",
    pc_after_hit=pc.clone_entry,
)

V3_24035 = replace(
    B10587,
    name="llama_cpp@24035-v3",
    source="ggml-org/llama.cpp#24035, third version (thread only), on b10587",
    ckpt_pick=use.pick_v3,
    ckpt_restore=use.resume_count,
    ckpt_erase=use.erase_v3,
    ckpt_break=make.break_v3,
    ckpt_create=make.create_v3,
    ckpt_limit=make.limit_densest,
    inferred=(*NOT_RUN, "ckpt_pick", "ckpt_restore", "ckpt_erase", "ckpt_break", "ckpt_create", "ckpt_limit"),
)
