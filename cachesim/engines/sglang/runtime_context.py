"""Facts that every part of a server knows: rules, options, layers, the log, and what follows from them.

Source: sgl-project/sglang python/sglang/srt/runtime_context.py, mem_cache/cache_init_params.py (0.5.23).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import Any, Callable

from cachesim.base.errors import NotInBuild
from cachesim.engines.rule import Decision, rule_id
from cachesim.engines.sglang.flags import BUFFERED, LAZY, Options
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.mem_cache.allocator import ceil_align
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA
from cachesim.engines.sglang.pool_sizes import resolved
from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.sglang.rules.request import TrackingSlots
from cachesim.engines.shared.server_loop import log_decision
from cachesim.events import Declined, Log
from cachesim.model import Spec


@dataclass(frozen=True, slots=True)
class RuntimeContext:
    """What every part of a server knows."""

    rules: Rules
    server_args: Options
    spec: Spec                          # layers of the model
    log: Log
    tree_components: tuple[int, ...]    # parts that a node of the tree can have
    sliding_window_size: int            # window of the model [tokens], 0 = none
    swa_retain_window: int              # window that the tree keeps [tokens]
    is_eagle: bool                      # prefixes are compared as pairs of tokens
    num_draft_tokens: int               # tokens of a draft, 0 = no drafts
    alloc_reserve_per_decode: int       # slots behind the computed tokens that a decode step needs
    tracking_slots: TrackingSlots       # places for tracked states of a request

    @property
    def page_size(self) -> int:
        """Tokens of a page."""
        return self.server_args.page_size

    @property
    def enable_mamba_extra_buffer(self) -> bool:
        """True if requests keep states of their own while they run."""
        return self.server_args.mamba_radix_cache_strategy in (BUFFERED, LAZY)

    @property
    def enable_mamba_extra_buffer_lazy(self) -> bool:
        """True if they take the second slot for these states only where they need it."""
        return self.server_args.mamba_radix_cache_strategy == LAZY

    @property
    def enable_overlap(self) -> bool:
        """True if a step is launched before the results of the one before are processed."""
        return not self.server_args.disable_overlap_schedule

    @property
    def mamba_track_grid(self) -> int:
        """Tokens between the states that a chunk can keep."""
        return ceil_align(self.server_args.state_grid, self.page_size)

    def other_track_idx(self, track_idx: int) -> int:
        """Return the other place of a buffer of tracked states, or the same if it has only one."""
        return 1 - track_idx if self.tracking_slots.places == 2 else track_idx

    def reaches_boundary(self, n: int) -> bool:
        """True if two steps with drafts behind ``n`` tokens can reach the length of a tracked state."""
        step = lcm(self.mamba_track_grid, self.server_args.mamba_track_interval)
        return n // step != (n + 2 * (self.num_draft_tokens + 1)) // step

    @property
    def supports_mamba(self) -> bool:
        """True if the tree keeps states."""
        return MAMBA in self.tree_components

    def decide(self, decision: Decision, req: Req | None) -> Any:
        """Log a decision and return its value."""
        return log_decision(self.log, decision, req)

    def decline(self, req: Req, n: int, rule: Callable[..., Any]) -> None:
        """Log that a rule made no restore point after the first ``n`` tokens of a request and one more."""
        if n < req.kv.kv_committed_len:
            self.log.emit(Declined(req.rid, n + 1, rule_id(rule)))


def get_runtime_context(rules: Rules, spec: Spec, server_args: Options, log: Log) -> RuntimeContext:
    """Return the facts of a server. Raise BadInput."""
    for name, policies in (("radix_eviction_policy", rules.eviction_policies),
                           ("schedule_policy", rules.queue_policies)):  # fmt: skip
        policy = getattr(server_args, name)
        if policy not in policies:
            known = ", ".join(sorted(policies))
            raise NotInBuild(f"{name} {policy} does not exist in {rules.name}", hint=known)
    server_args = resolved(rules, server_args, spec)
    window = max(layer.window for layer in spec.layers)
    components = [FULL]
    if window:
        components.append(SWA)
    if any(layer.recurrence for layer in spec.layers):
        components.append(MAMBA)
    parts = tuple(components)
    num_draft_tokens = server_args.speculative_num_steps if server_args.speculative_algorithm else 0
    overlaps = not server_args.disable_overlap_schedule
    tracking = rules.tracking_slots(server_args.mamba_radix_cache_strategy, overlaps, num_draft_tokens)
    return RuntimeContext(
        rules, server_args, spec, log, tree_components=parts, sliding_window_size=window,
        swa_retain_window=rules.retained_window(window, server_args.draft_window) if window else 0,
        is_eagle=rules.keys_are_pairs(server_args.speculative_algorithm, parts), num_draft_tokens=num_draft_tokens,
        alloc_reserve_per_decode=rules.reserved_ahead(num_draft_tokens), tracking_slots=tracking,
    )  # fmt: skip
