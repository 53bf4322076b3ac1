"""Versions from the base of #1889 to the newest, newest first. Every difference names the change that ended it."""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.ik_llama.profiles.main import MAIN
from cachesim.engines.ik_llama.profiles.rule_table import READ_ONLY, MediaRules
from cachesim.engines.ik_llama.rules import checkpoint_create as make
from cachesim.engines.ik_llama.rules import checkpoint_restore as use
from cachesim.engines.ik_llama.rules import common_prefix, media, micro_batch, speculative, trim
from cachesim.engines.ik_llama.rules import prompt_cache as pc

AFTER_2491 = replace(
    MAIN,
    name="ik_llama@2491",
    build="2026-09",
    source="ikawrakow/ik_llama.cpp#2491 (merged 2026-09), derived from its text; other changes since main not read",
    ckpt_evict=make.evict_but_prompt_end,
    inferred=("window", "ckpt_evict", *READ_ONLY),
)

AFTER_2378 = replace(
    MAIN,
    name="ik_llama@2378",
    build="2026-09",
    source="ikawrakow/ik_llama.cpp#2378 (merged 2026-09), derived from its text; other changes since main not read",
    window=trim.window_compact_any,
    inferred=("window", *READ_ONLY),
)

AFTER_2441 = replace(
    MAIN,
    name="ik_llama@2441",
    build="2026-09-12",
    source="ikawrakow/ik_llama.cpp#2441 (merged 2026-09), derived from its text; other changes since main not read",
    ckpt_resume=use.resume_from_cache,
    inferred=("window", "ckpt_resume", *READ_ONLY),
)

AFTER_2205 = replace(
    MAIN,
    name="ik_llama@2205",
    build="2026-07-30",
    source="ikawrakow/ik_llama.cpp#2205 (dd837ff21)",
    graph=micro_batch.graph_by_shape,        # until #2260
    warm_up=speculative.warm_up_last,        # until #2222
    window=trim.window_whole,                # until #2253
    inferred=READ_ONLY,
)

AFTER_2195 = replace(
    AFTER_2205,
    name="ik_llama@2195",
    source="ikawrakow/ik_llama.cpp#2195 (52836917a)",
    spec_save=speculative.save_or_anyway,           # until #2205
)

AFTER_2105 = replace(
    AFTER_2195,
    name="ik_llama@2105",
    build="2026-07-10",
    source="ikawrakow/ik_llama.cpp#2105 (606d9db30)",
    ckpt_need=use.need_reached,              # until #2195
    ckpt_pick=use.pick_pos_min,              # until #2195
    ckpt_resume=use.resume_prompt_max,       # until #2195
    ckpt_interval=make.interval_one_early,   # until #2195
    last_checkpoint=0,                       # until #2195
    ended={"last_checkpoint": "#2195"},
)

DRAFT_2195 = replace(
    AFTER_2105,
    name="ik_llama@2195-draft",
    build="2026-07-30",
    source="ikawrakow/ik_llama.cpp#2195, its first commits as the message of the merged one (52836917a) tells them",
    ckpt_need=use.need_or_private,
    ckpt_resume=use.resume_checkpoint,
    ckpt_erase=use.erase_restored,
    ended={},
    inferred=("ckpt_need", "ckpt_resume", "ckpt_erase", *READ_ONLY),
)

DRAFT2_2195 = replace(
    DRAFT_2195,
    name="ik_llama@2195-draft2",
    source="ikawrakow/ik_llama.cpp#2195, between its first commits and the merged one (52836917a)",
    ckpt_pick=use.pick_within,
    inferred=("ckpt_need", "ckpt_pick", "ckpt_resume", "ckpt_erase", *READ_ONLY),
)

AFTER_2020 = replace(
    AFTER_2105,
    name="ik_llama@2020",
    build="2026-06-24",
    source="ikawrakow/ik_llama.cpp#2020 (befbc0945)",
    prefix=common_prefix.prefix_strict,             # until #2105
    one=common_prefix.one_behind,                   # until #2105
    pc_load=pc.pick_any,                     # until #2105
)

AFTER_1992 = replace(
    AFTER_2020,
    name="ik_llama@1992",
    build="2026-06-19",
    source="ikawrakow/ik_llama.cpp#1992 (0d59973e4)",
    ckpt_evict=make.evict_oldest,            # until #2020
)

AFTER_1949 = replace(
    AFTER_1992,
    name="ik_llama@1949",
    build="2026-06-12",
    source="ikawrakow/ik_llama.cpp#1949 (8a3802517)",
    spec_start=speculative.start_with_any,          # until #1970
    spec_purge=speculative.purge_known,             # until #1992
    spec_commit=speculative.commit_level,           # until #1992
    warm_up=speculative.warm_up_same,               # until #1992
)

BASE_1889 = replace(
    AFTER_1949,
    name="ik_llama@1889-base",
    build="2026-05-26",
    source="ikawrakow/ik_llama.cpp d2da6da05, the base of #1889, #1888 and #1877",
    trim=trim.trim_both,                     # until #1949
    media=MediaRules(cut=media.cut_behind),         # until #1913
)

PR1889 = replace(
    BASE_1889,
    name="ik_llama@pr1889",
    source="ikawrakow/ik_llama.cpp#1889 (3d1c5bdec)",
    trim_failed=trim.failed_companion,
)

PR1888 = replace(
    BASE_1889,
    name="ik_llama@pr1888",
    source="ikawrakow/ik_llama.cpp#1888 (open)",
    ckpt_pick=use.pick_pr1888,
    ckpt_create=make.create_from_four,
    inferred=("ckpt_pick", "ckpt_create", *READ_ONLY),
)

PR1877 = replace(
    BASE_1889,
    name="ik_llama@pr1877",
    source="ikawrakow/ik_llama.cpp#1877 (open), derived from its text",
    pc_peek=pc.peek_copies,
    pc_load=pc.pick_viable,
    pc_after_hit=pc.clone_entry,
    ckpt_evict=make.evict_second,
    inferred=("pc_peek", "pc_load", "pc_after_hit", "ckpt_evict", *READ_ONLY),
)
