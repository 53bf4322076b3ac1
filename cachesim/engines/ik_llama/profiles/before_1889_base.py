"""Versions before the base of #1889, newest first: development of the checkpoints of recurrent models. Not recorded."""

from __future__ import annotations

from dataclasses import replace

from cachesim.engines.ik_llama.profiles.since_1889_base import BASE_1889
from cachesim.engines.ik_llama.rules import carried_over, micro_batch, slot_file, speculative
from cachesim.engines.ik_llama.rules import checkpoint_create as make
from cachesim.engines.ik_llama.rules import checkpoint_restore as use

AFTER_1743 = replace(
    BASE_1889,
    name="ik_llama@1743",
    build="2026-05-06",
    source="ikawrakow/ik_llama.cpp#1743 (39b3a188e)",
    ckpt_reset=use.reset_counts,             # until #1789
    system=carried_over.system_clears_memory,    # until #1860
    parser=carried_over.parser_last,         # until #1794
    abort=micro_batch.abort_keeps,           # until #1787
    draft_from=speculative.draft_from_own,   # until #1781
    most_images=0,                           # rules known since #1758
    inferred=(),
    ended={**BASE_1889.ended, "most_images": "#1758"},
)

AFTER_1716 = replace(
    AFTER_1743,
    name="ik_llama@1716",
    build="2026-05-02",
    source="ikawrakow/ik_llama.cpp#1716 (9f1deefa7)",
    ckpt_need=use.need_beyond,               # until #1743
    ckpt_erase=use.erase_pos_min,            # until #1743
    ckpt_create=make.create_by_position,     # until #1743
    graph=micro_batch.graph_of_one_token,    # until #1713
)

AFTER_1698 = replace(
    AFTER_1716,
    name="ik_llama@1698",
    build="2026-04-28",
    source="ikawrakow/ik_llama.cpp#1698 (67e634622)",
    ckpt_need=use.need_states,               # until #1716
    ckpt_pick=use.pick_within,               # until #1716
    ckpt_erase=use.erase_beyond,             # until #1716
)

AFTER_1679 = replace(
    AFTER_1698,
    name="ik_llama@1679",
    build="2026-04-24",
    source="ikawrakow/ik_llama.cpp#1679 (1c1328816)",
    ckpt_reset=use.reset_none,               # until #1698
)

AFTER_1673 = replace(
    AFTER_1679,
    name="ik_llama@1673",
    build="2026-04-23",
    source="ikawrakow/ik_llama.cpp#1673 (48819dada)",
    undecoded=1,                             # until #1679
    ended={**AFTER_1743.ended, "undecoded": "#1679"},
)

AFTER_1398 = replace(
    AFTER_1673,
    name="ik_llama@1398",
    build="2026-03-13",
    source="ikawrakow/ik_llama.cpp#1398 (433531dda)",
    kv_seen=micro_batch.seen_exact,          # until #1430
    ckpt_need=use.need_beyond,               # until #1673
    ckpt_pick=use.pick_pos_min,              # until #1673
    ckpt_erase=use.erase_pos_min,            # until #1673
    ckpt_reset=use.reset_counts,             # until #1673
    slot_save=slot_file.save_state_only,     # until #1584
    slot_restore=slot_file.restore_state_only,  # until #1584
    slot_erase=slot_file.erase_tokens,       # until #1584
    parser=carried_over.parser_own,          # until #1376: the parser before it accepts plain text
    ended={
        "parser": "#1376",
        **AFTER_1673.ended, "kv_seen": "#1430",
        **dict.fromkeys(("ckpt_need", "ckpt_pick", "ckpt_erase", "ckpt_reset"), "#1673"),
        **dict.fromkeys(("slot_save", "slot_restore", "slot_erase"), "#1584"),
    },
)

AFTER_1346 = replace(
    AFTER_1398,
    name="ik_llama@1346",
    build="2026-03-02",
    source="ikawrakow/ik_llama.cpp#1346 (8f9e19d57)",
    undecoded=0,                             # until #1398
    defaults={"ctx_checkpoints": 8},         # until #1398
    ended={**AFTER_1743.ended, "undecoded": "#1398", "defaults": "#1398"},
)

AFTER_1310 = replace(
    AFTER_1346,
    name="ik_llama@1310",
    build="2026-02-26",
    source="ikawrakow/ik_llama.cpp#1310 (3fac78c48)",
    ckpt_break=make.break_none,              # until #1346
    ckpt_first=make.first_always,            # until #1346
)

AFTER_1295 = replace(
    AFTER_1310,
    name="ik_llama@1295",
    build="2026-02-21",
    source="ikawrakow/ik_llama.cpp#1295 (66323b92f)",
    ckpt_need=use.need_deep,                 # until #1310
    ckpt_on=make.on_never,                   # until #1310
)
