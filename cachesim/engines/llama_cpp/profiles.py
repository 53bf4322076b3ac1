"""Which rules does each version of llama-server follow? The file reads as a changelog, newest first.

A profile is a table of rules and numbers, made from its neighbour; every difference names its source. The
names are those of the history document (section 3). ``head`` is frozen at commit 3f545be.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Callable

from cachesim.engines.base import Decision
from cachesim.engines.llama_cpp.memory.state import HOST_HEADER
from cachesim.engines.llama_cpp.rules import checkpoint_make as make
from cachesim.engines.llama_cpp.rules import checkpoint_use as use
from cachesim.engines.llama_cpp.rules import choice, memory, prompt, shift, spec
from cachesim.engines.llama_cpp.rules import prompt_cache as pc

Rule = Callable[..., Decision]


@dataclass(frozen=True)
class Rules:
    """One version. Fields in the order in which a request meets them; each is a rule or a number.

    ``silent`` are kinds of events that this build does not log, ``inferred`` fields that nobody saw run.
    """

    name: str
    build: str
    source: str
    slot_select: Rule
    pc_alloc: Rule
    pc_load: Rule
    pc_after_hit: Rule
    pc_update: Rule
    idle_save: Rule
    clear: Rule
    n_past: Rule
    reuse: Rule
    ckpt_need: Rule
    ckpt_pick: Rule
    ckpt_restore: Rule
    ckpt_reset: Rule
    ckpt_erase: Rule
    need_one: Rule
    ckpt_on: Rule
    ckpt_break: Rule
    ckpt_create: Rule
    ckpt_spacing: Rule
    ckpt_limit: Rule
    decode_retry: Rule
    end: Rule
    context_shift: Rule
    draft_max: Rule
    spec_ckpt: Rule
    spec_replay: Rule
    rs_rm: Rule
    kv_state: Rule
    min_step: int = 8192
    host_header: int = HOST_HEADER
    slot_file_header: int = 28
    silent: frozenset[str] = frozenset()
    inferred: tuple[str, ...] = ()


HEAD = Rules(
    name="llama_cpp@head",
    build="b10587",
    source="ggml-org/llama.cpp 3f545beccee69d9975f466ec7e45fd9aacd8ba90 (2026-08-22)",
    slot_select=choice.slot_select_3,
    pc_alloc=pc.admit_strict,
    pc_load=pc.pick_entry,
    pc_after_hit=pc.take_entry,
    pc_update=pc.evict_strict,
    idle_save=choice.idle_save_all,
    clear=prompt.clear_both,
    n_past=prompt.n_past_lcp,
    reuse=shift.reuse_chunks,
    ckpt_need=use.need_th4,
    ckpt_pick=use.pick_pk3,
    ckpt_restore=use.resume_re4,
    ckpt_reset=use.resume_nothing,
    ckpt_erase=use.erase_er2,
    need_one=prompt.need_one,
    ckpt_on=make.ckpt_on,
    ckpt_break=make.break_cr10,
    ckpt_create=make.create_cr10,
    ckpt_spacing=make.space_older,
    ckpt_limit=make.limit_oldest,
    decode_retry=prompt.next_attempt,
    end=prompt.end_of_generation,
    context_shift=shift.context_shift,
    draft_max=spec.draft_max,
    spec_ckpt=spec.needs_checkpoint,
    spec_replay=spec.must_replay,
    rs_rm=memory.rs_rm_3,
    kv_state=memory.keep_window,
)

PR24143_ON_HEAD = replace(
    HEAD,
    name="llama_cpp@pr24143-on-head",
    source="3f545be with ggml-org/llama.cpp#24143 applied locally",
    pc_after_hit=pc.clone_entry,
)

V3_24035 = replace(
    HEAD,
    name="llama_cpp@24035-v3",
    source="ggml-org/llama.cpp#24035, third version (thread only), on head",
    ckpt_pick=use.pick_v3,
    ckpt_restore=use.resume_count,
    ckpt_erase=use.erase_v3,
    ckpt_break=make.break_v3,
    ckpt_create=make.create_v3,
    ckpt_limit=make.limit_densest,
    inferred=("ckpt_pick", "ckpt_restore", "ckpt_erase", "ckpt_break", "ckpt_create", "ckpt_limit"),
)

BASE_24143 = replace(
    HEAD,
    name="llama_cpp@base-24143",
    build="b9518",
    source="ggml-org/llama.cpp 7c158fbb4 (2026-06-04), the base of #24143",
    slot_select=choice.slot_select_2,        # until #24755
    pc_alloc=pc.admit_any,                   # until #25070
    pc_update=pc.evict_spare_one,            # until #25070
    idle_save=choice.idle_save_unified,      # until #24190
    clear=prompt.clear_tokens,               # until #25649
    ckpt_pick=use.pick_pk2,                  # until #24411
    ckpt_break=make.break_cr7,               # until #24176, #25420
    ckpt_create=make.create_cr7,             # until #24176, #25472
    ckpt_spacing=make.space_none,            # until #25472
    min_step=256,                            # until #24176
    slot_file_header=12,                     # until the packed tokens of #26640
    silent=frozenset({"slot_sim", "slot_skip_busy", "slot_skip_empty", "pc_cand", "slot_by_id", "ckpt_too_close"}),
)

PR24143_ON_BASE = replace(
    BASE_24143,
    name="llama_cpp@pr24143-on-base",
    source="ggml-org/llama.cpp#24143 on its own base",
    pc_after_hit=pc.clone_entry,
    inferred=("pc_after_hit",),
)

BASE_24035 = replace(
    BASE_24143,
    name="llama_cpp@base-24035",
    build="b9473",
    source="ggml-org/llama.cpp 236531595 (2026-06-02), the base of #24035",
    ckpt_need=use.need_th3,                  # until #24110
)

V1_24035 = replace(
    BASE_24035,
    name="llama_cpp@24035-v1",
    source="ggml-org/llama.cpp#24035, first version (750c8d8), derived from its text and log",
    ckpt_pick=use.pick_v1,
    ckpt_restore=use.resume_count,
    ckpt_erase=use.erase_v1,
    inferred=("ckpt_pick", "ckpt_restore", "ckpt_erase"),
)

PROFILES: dict[str, Rules] = {
    rules.name: rules
    for rules in (HEAD, PR24143_ON_HEAD, V3_24035, BASE_24143, PR24143_ON_BASE, BASE_24035, V1_24035)
}


COMMITS = {"3f545beccee69d9975f466ec7e45fd9aacd8ba90": HEAD.name}
"""Commit of a recording that names no profile -> profile."""


def rule_fields(rules: Rules) -> dict[str, Any]:
    """The profile's rules by field, in the order in which a request meets them."""
    return {f.name: getattr(rules, f.name) for f in fields(rules) if callable(getattr(rules, f.name))}


def differences(a: Rules, b: Rules) -> list[tuple[str, Any, Any]]:
    """Fields in which two profiles differ, names and sources aside."""
    skip = {"name", "build", "source", "inferred"}
    return [
        (f.name, getattr(a, f.name), getattr(b, f.name))
        for f in fields(a)
        if f.name not in skip and getattr(a, f.name) != getattr(b, f.name)
    ]
