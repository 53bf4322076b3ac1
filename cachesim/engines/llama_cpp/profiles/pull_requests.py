"""Bases of the two open pull requests, and the pull requests applied to them.

Each is derived from its newer neighbour; a comment names the change that ended the older behaviour.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Mapping, Sequence

from cachesim.engines.llama_cpp.profiles.b10587 import B10587
from cachesim.engines.llama_cpp.profiles.rule_table import Rules
from cachesim.engines.llama_cpp.rules import checkpoint_create as make
from cachesim.engines.llama_cpp.rules import checkpoint_restore as use
from cachesim.engines.llama_cpp.rules import older_checkpoint_create as old_make
from cachesim.engines.llama_cpp.rules import prompt_cache as pc
from cachesim.engines.llama_cpp.rules import prompt_lifecycle, seq_rm_and_state, slot_selection, speculative
from cachesim.engines.shared.timeline import Landed, Timeline

# Build and date of each change. The build does not contain a change that is not listed here.
#
# A build number is the number of commits on master. Source: `git rev-list --count` and the dates of the merged commits
# of ggml-org/llama.cpp, up to 3f545be (b10587).

_DATE = re.compile(r"\((20\d\d-\d\d-\d\d)\)")

LANDED: Mapping[str, Landed] = {
    "#15293": Landed(6160, "2025-08-14"), "#15913": Landed(6455, "2025-09-12"), "#16382": Landed(6685, "2025-10-03"),
    "#16442": Landed(6704, "2025-10-07"), "#16440": Landed(6711, "2025-10-08"), "#16391": Landed(6723, "2025-10-09"),
    "#16736": Landed(6925, "2025-11-02"), "#17046": Landed(6975, "2025-11-07"), "#17009": Landed(7011, "2025-11-10"),
    "#17982": Landed(7413, "2025-12-15"), "#19207": Landed(7890, "2026-01-30"), "#19408": Landed(7970, "2026-02-08"),
    "#19849": Landed(8152, "2026-02-25"), "#19924": Landed(8166, "2026-02-26"), "#20132": Landed(8215, "2026-03-06"),
    "#20087": Landed(8218, "2026-03-06"), "#20279": Landed(8257, "2026-03-09"), "#20287": Landed(8260, "2026-03-09"),
    "#20288": Landed(8271, "2026-03-10"), "#20671": Landed(8393, "2026-03-17"), "#20726": Landed(8450, "2026-03-20"),
    "#20993": Landed(8658, "2026-04-03"), "#21510": Landed(8693, "2026-04-07"), "#19493": Landed(8842, "2026-04-19"),
    "#22114": Landed(8854, "2026-04-20"), "#22288": Landed(8916, "2026-04-24"), "#22838": Landed(9109, "2026-05-11"),
    "#22673": Landed(9180, "2026-05-16"), "#23280": Landed(9231, "2026-05-19"), "#23269": Landed(9235, "2026-05-19"),
    "#22929": Landed(9310, "2026-05-25"), "#23981": Landed(9473, "2026-06-02"), "#24110": Landed(9509, "2026-06-04"),
    "#24190": Landed(9574, "2026-06-09"), "#24411": Landed(9593, "2026-06-11"), "#24755": Landed(9718, "2026-06-19"),
    "#24843": Landed(9752, "2026-06-21"), "#24176": Landed(9765, "2026-06-23"), "#25070": Landed(9908, "2026-07-07"),
    "#25278": Landed(9922, "2026-07-08"), "#25420": Landed(9936, "2026-07-09"), "#25472": Landed(9978, "2026-07-12"),
    "#25649": Landed(10011, "2026-07-14"), "#26320": Landed(10210, "2026-07-31"),
    "#26640": Landed(10388, "2026-08-12"),
}  # fmt: skip
"""Change -> build and date."""


def timeline(line: Sequence[Rules]) -> Timeline:
    """Return the timeline of these rule sets: builds of master, and the changes between them."""
    own = {rules.name: Landed(int(rules.build[1:]), _DATE.findall(rules.source)[0]) for rules in line}
    releases = {commit: own[rules.name] for rules in line for commit in re.findall(r"\b[0-9a-f]{9,40}\b", rules.source)}
    return Timeline(own, LANDED, releases, builds=True)


B9765 = replace(
    B10587,
    name="llama_cpp@b9765",
    build="b9765",
    source="ggml-org/llama.cpp 73618f27a (2026-06-23)",
    pc_alloc=pc.admit_any,                   # until #25070
    pc_update=pc.evict_spare_one,            # until #25070
    clear=prompt_lifecycle.clear_tokens,               # until #25649
    restore_failed=prompt_lifecycle.restore_failed_tokens,   # until #26640
    ckpt_break=old_make.break_cr8,           # until #25420
    ckpt_create=old_make.create_cr8,         # until #25472
    ckpt_spacing=make.space_none,            # until #25472
    rs_split=seq_rm_and_state.split_alone,             # until #25278
    spec_count=speculative.count_all,        # until #26320
    slot_file_header=12,                     # until the packed tokens of #26640
    silent=B10587.silent | {"slot_sim", "slot_skip_busy", "slot_skip_empty", "pc_cand"},
    ended={"slot_file_header": "#26640", "restore_failed": "#26640"},
)

B9518 = replace(
    B9765,
    name="llama_cpp@b9518",
    build="b9518",
    source="ggml-org/llama.cpp 7c158fbb4 (2026-06-04), the base of #24143",
    slot_select=slot_selection.slot_select_2,        # until #24755
    idle_save=slot_selection.idle_save_unified,      # until #24190
    ckpt_pick=use.pick_pk2,                  # until #24411
    ckpt_break=make.break_cr7,               # until #24176
    ckpt_create=make.create_cr7,             # until #24176
    spec_room=speculative.batch_has_room,           # until #24843
    spec_split=speculative.split_is_not_seen,       # until #24843
    min_step=256,                            # until #24176
    fatal_lines=("{text} i = {off}, n_batch = {n_batch}, ret = {ret}",),     # recorded at b8152; ended by #24843
    silent=B9765.silent | {"slot_by_id"},
    ended={"min_step": "#24176"},
)

PR24143_ON_B9518 = replace(
    B9518,
    name="llama_cpp@pr24143-on-b9518",
    source="ggml-org/llama.cpp#24143 on its own base",
    pc_after_hit=pc.clone_entry,
    inferred=("pc_after_hit",),
)

B9473 = replace(
    B9518,
    name="llama_cpp@b9473",
    build="b9473",
    source="ggml-org/llama.cpp 236531595 (2026-06-02), the base of #24035",
    ckpt_need=use.need_th3,                  # until #24110
)

V1_24035 = replace(
    B9473,
    name="llama_cpp@24035-v1",
    source="ggml-org/llama.cpp#24035, first version (750c8d8), derived from its text and log",
    ckpt_pick=use.pick_v1,
    ckpt_restore=use.resume_count,
    ckpt_erase=use.erase_v1,
    inferred=("ckpt_pick", "ckpt_restore", "ckpt_erase"),
)
