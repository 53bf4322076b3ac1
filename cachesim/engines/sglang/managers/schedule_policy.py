"""Order of the waiting requests, and admission of requests to a prefill step.

Source: sgl-project/sglang python/sglang/srt/managers/schedule_policy.py (0.5.23).
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.base.tokens import common_prefix
from cachesim.engines.rule import Decision, rule_id
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.managers.step_limits import (
    NextChunk,
    PrefillBudget,
    first_chunk_limits,
    next_chunk_limits,
    order_limit,
    refusal_limit,
    room_limit,
    slot_limit,
)
from cachesim.engines.sglang.mem_cache.allocator import ceil_align
from cachesim.engines.sglang.mem_cache.common import match_kv_cache, match_prefix_of_req, release_mamba
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.mem_cache.unified_radix_cache import UnifiedRadixCache
from cachesim.engines.sglang.rules.schedule import (
    AWARE,
    CLIP,
    CONTINUE,
    NO_TOKEN,
    OTHER,
    SHORTEST,
    AdmissionCandidate,
    WaitingRequest,
    window_need,
)
from cachesim.engines.sglang.runtime_context import RuntimeContext
from cachesim.engines.shared.step_notes import StepNotes, number_of, numbers_of
from cachesim.events import Decided
from cachesim.events.scheduling import StepLimit

FCFS = "fcfs"
LPM = "lpm"
DFS_WEIGHT = "dfs-weight"


class SchedulePolicy:
    """Order of the waiting requests."""

    def __init__(self, context: RuntimeContext, tree_cache: UnifiedRadixCache) -> None:
        self.context = context
        self.rules = context.rules
        self.policy = context.server_args.schedule_policy
        self.tree_cache = tree_cache
        self.waiting_prefix_refresh_calls = 0
        self.waiting_facts: list[WaitingRequest] = []      # what the order of the queue was decided by

    def calc_priority(self, waiting_queue: list[Req]) -> None:
        """Sort the waiting requests."""
        policy = self._determine_active_policy(waiting_queue)
        is_aware = policy in AWARE
        late = self._compute_prefix_matches(waiting_queue) if is_aware else set()
        places = self._dfs_weight_places(waiting_queue) if policy == DFS_WEIGHT else {}
        facts = [WaitingRequest(
            seqlen=req.seqlen,
            num_matched_prefix_tokens=min(req.num_matched_prefix_tokens, req.seqlen - 1) if is_aware else 0,
            max_new_tokens=req.task.request.n_predict,
            is_deprioritized=req.rid in late,
            dfs_place=places.get(req.rid, 0),
        ) for req in waiting_queue]  # fmt: skip
        order = self.context.decide(self.rules.queue_order(policy, facts), None)
        waiting_queue[:] = [waiting_queue[at] for at in order]
        self.waiting_facts = [facts[at] for at in order]
        if not is_aware and waiting_queue:
            self._touch_waiting_prefixes(waiting_queue)

    def _determine_active_policy(self, waiting_queue: Sequence[Req]) -> str:
        """Return the policy; many waiting requests are not matched for the longest hit."""
        if self.policy == LPM and len(waiting_queue) > self.rules.many_waiting:
            return FCFS
        return self.policy

    def _compute_prefix_matches(self, waiting_queue: Sequence[Req]) -> set[int]:
        """Match all waiting requests; return those that should wait for another request of the queue."""
        threshold = self.context.server_args.in_batch_threshold
        late = set[int]()
        twins = list[Req]()
        for req in waiting_queue:
            match_kv_cache(req, self.tree_cache, req.seqlen)
            if req.prefix_len > threshold:
                continue
            common = max((common_prefix(req.fill_ids, twin.fill_ids) for twin in twins
                          if twin.extra_key == req.extra_key), default=0)  # fmt: skip
            if self.rules.waits_for_twin(common, threshold):
                late.add(req.rid)
            else:
                twins.append(req)
        return late

    def _dfs_weight_places(self, waiting_queue: Sequence[Req]) -> dict[int, int]:
        """Return the place of each waiting request in a depth-first walk of the tree."""
        ends: dict[UnifiedTreeNode, list[int]] = {}
        for req in waiting_queue:
            if req.last_node is not None:
                ends.setdefault(req.last_node, []).append(req.rid)
        return {rid: place for place, rid in enumerate(self.tree_cache.tree_core.dfs_weight_order(ends))}

    def _touch_waiting_prefixes(self, waiting_queue: Sequence[Req]) -> None:
        """Make the prefixes of waiting requests recent, once in a number of passes."""
        is_refreshed = self.context.server_args.radix_eviction_policy in self.rules.refreshed
        is_due = is_refreshed and self.waiting_prefix_refresh_calls % self.rules.refresh == 0
        self.waiting_prefix_refresh_calls += 1
        if is_due:
            for req in reversed(waiting_queue):
                match_prefix_of_req(req, self.tree_cache, req.seqlen)

    def shortest_prefill_chunk_limit(self, chunked_req: Req, rem_chunk_tokens: int) -> int | None:
        """Return the most tokens of the next chunk of a prompt; None = the policy sets no limit."""
        if self.policy != SHORTEST:
            return None
        left = chunked_req.seqlen - chunked_req.prefix_len
        limit: int = self.rules.chunk_share(left, self.waiting_facts, rem_chunk_tokens, self.context.page_size)
        return limit


class AdmissionResult(NamedTuple):
    """Result of an admission."""

    rid: int
    result: str


class PrefillAdder:
    """The requests of a prefill step, and the rest of its budgets. ``rem_chunk_tokens``: None = unlimited;
    ``new_chunked_reqs``: requests that start with a part of their prompts; ``notes``: why others wait."""

    def __init__(self, context: RuntimeContext, tree_cache: UnifiedRadixCache, running: Sequence[Req],
                 notes: StepNotes) -> None:
        args = context.server_args
        self.notes = notes
        self.running = running
        self.context = context
        self.rules = context.rules
        self.page_size = context.page_size
        self.tree_cache = tree_cache
        self.rem_input_tokens = args.max_prefill_tokens
        self.rem_chunk_tokens = args.chunked_prefill_size if args.chunked_prefill_size > 0 else None
        self.rem_total_token_offset: float = sum(
            min(req.max_new_tokens - req.num_output_ids, CLIP) * args.new_token_ratio for req in running)
        self.cur_rem_token_offset = 0
        self.rem_swa_token_offset = 0
        self.can_run_list: list[Req] = []
        self.new_chunked_reqs: list[Req] = []
        self.verdicts: list[AdmissionResult] = []

    @property
    def rem_total_tokens(self) -> float:
        """Slots that are free or evictable, and not promised to admitted and running requests."""
        return self.tree_cache.schedulable_size(FULL) - self.rem_total_token_offset

    @property
    def cur_rem_tokens(self) -> int:
        """Slots that are free or evictable, and not taken by the step."""
        return self.tree_cache.schedulable_size(FULL) - self.cur_rem_token_offset

    @property
    def rem_swa_tokens(self) -> int | None:
        """Window slots that are free or evictable, and not promised to admitted requests; None = no windows."""
        if self.tree_cache.swa is None:
            return None
        return self.tree_cache.schedulable_size(SWA) - self.rem_swa_token_offset

    def budget(self) -> PrefillBudget:
        """Return what the step can still take."""
        return PrefillBudget(self.rem_input_tokens, rem_chunk_tokens=self.rem_chunk_tokens,
                             rem_total_tokens=min(self.rem_total_tokens, self.cur_rem_tokens),
                             rem_swa_tokens=self.rem_swa_tokens)

    def holders(self) -> tuple[int, ...]:
        """Return the numbers of the requests that hold slots: those that run, and those of the step."""
        return numbers_of((*self.running, *self.can_run_list))

    def room_limit(self) -> StepLimit:
        """Return why no further request can join the step."""
        return room_limit(self.context.server_args, self.budget(), self.holders())

    def order_limit(self, first: Req) -> StepLimit:
        """Return why requests behind one that waits are not tried."""
        return order_limit(self.context.server_args, number_of(first))

    def budget_state(self) -> str:
        """True if further requests can be admitted."""
        swa = self.rem_swa_tokens
        if min(self.rem_total_tokens, self.cur_rem_tokens) <= 0 or (swa is not None and swa <= 0):
            return NO_TOKEN
        is_chunk_spent = self.rem_chunk_tokens is not None and self.rem_chunk_tokens <= 0
        return OTHER if self.rem_input_tokens <= 0 or is_chunk_spent else CONTINUE

    def add_chunked_req(self, req: Req, limit: int | None) -> None:
        """Add the next chunk of the request whose prompt is being evaluated. ``limit``: most tokens, None = any."""
        assert self.rem_chunk_tokens is not None
        fits = self.rules.next_chunk(self.rem_chunk_tokens, self.rem_total_tokens, self.rem_swa_tokens, self.page_size)
        if not fits:
            because = {"left": req.seqlen - req.prefix_len, "total": int(self.rem_total_tokens),
                       "window": self.rem_swa_tokens}  # fmt: skip
            self.context.log.emit(Decided(req.rid, rule_id(self.rules.next_chunk), fits, because=because))
            self._note_next_chunk(req, fits=0, share=limit)
            return
        self._note_next_chunk(req, fits=fits, share=limit)
        if limit is not None:
            fits = min(fits, limit)
        self._add(req, min(req.seqlen - req.prefix_len, fits))

    def _note_next_chunk(self, req: Req, fits: int, share: int | None) -> None:
        """Note what limits the next chunk of a prompt, or why it waits (``fits`` = 0)."""
        wanted = req.seqlen - req.prefix_len
        if not self.notes.is_recorded or wanted <= min(fits, fits if share is None else share):
            return
        limits = tuple(next_chunk_limits(self.context.server_args, NextChunk(wanted, fits=fits, share=share),
                                         self.budget(), self.holders()))
        if fits:
            self.notes.cut(req, limits)
        else:
            self.notes.hold(req, limits[0])

    def add_one_req(self, req: Req, has_chunked_req: bool) -> str:
        """Admit a matched request if there is room; return the verdict."""
        verdict = self._admit(req, has_chunked_req)
        self.verdicts.append(AdmissionResult(req.rid, verdict))
        return verdict

    def _admit(self, req: Req, has_chunked_req: bool) -> str:
        core = self.tree_cache.tree_core
        last_node = req.last_node
        assert last_node is not None
        pin = core.inc_lock_ref(last_node)
        ask = self._candidate(req, has_chunked_req)
        admitted = self.rules.admission(ask)
        n = self.context.decide(admitted, req)
        if n and req.needs_host_load_back:
            n = self._load_back(req, ask, n)
        if n:
            assert req.last_node is not None
            req.lock = core.inc_lock_ref(req.last_node)
            self._add(req, n)
            self.new_chunked_reqs += [req] if req.is_chunked else []
        if self.notes.is_recorded:
            self._note_admission(req, ask, admitted, n)
        core.dec_lock_ref(pin)
        if n:
            return self.budget_state()
        req.kv.mamba_cow_src_index = None
        release_mamba(req, self.tree_cache)
        return NO_TOKEN if n is None else OTHER

    def _note_admission(self, req: Req, ask: AdmissionCandidate, admitted: Decision, n: int | None) -> None:
        """Note why a request starts with ``n`` tokens of its prompt and not with all, or waits."""
        args = self.context.server_args
        if n and req.is_chunked:
            self.notes.cut(req, first_chunk_limits(args, ask, n))
        elif not n and admitted.value:
            self.notes.hold(req, slot_limit(args, self.rem_total_tokens, None, self.holders()))
        elif not n:
            chunked = numbers_of(one for one in self.can_run_list if one.is_chunked)
            self.notes.hold(req, refusal_limit(args, ask, admitted, self.holders(), chunked))

    def _load_back(self, req: Req, ask: AdmissionCandidate, n: int) -> int | None:
        """Load what a request matched in host memory, and return the tokens of its first chunk, of ``n`` that were
        admitted. Without the load it has more to evaluate, and may find no room."""
        core = self.tree_cache.tree_core
        load_back = self.tree_cache.load_back
        assert req.best_match_node is not None and load_back is not None
        host_lock = core.inc_host_lock_ref(req.best_match_node)
        loaded = load_back.init_load_back(req)
        core.dec_host_lock_ref(host_lock)
        left: int | None = n
        if loaded:
            req.last_node = req.best_match_node
            left = min(n, req.seqlen - req.last_node.end)
        elif ask.host_hit_length:
            ask = ask._replace(extend_len=ask.extend_len + ask.host_hit_length, prefix_len=req.prefix_len,
                               host_hit_length=0, swa_host_hit_length=0)  # fmt: skip
            left = self.context.decide(self.rules.admission(ask), req)
        if left:
            req.prefix_len += loaded
            req.kv.cache_protected_len = req.prefix_len
        return left

    def _candidate(self, req: Req, has_chunked_req: bool) -> AdmissionCandidate:
        """Return what admission needs to know of a request."""
        context = self.context
        swa = self.tree_cache.swa
        policy = context.server_args.schedule_policy
        return AdmissionCandidate(
            extend_len=req.seqlen - req.num_matched_prefix_tokens,
            prefix_len=req.num_matched_prefix_tokens,
            max_new_tokens=max(req.num_remaining_tokens, 0),
            is_first=not self.can_run_list,
            rem_input_tokens=self.rem_input_tokens,
            rem_chunk_tokens=self.rem_chunk_tokens,
            rem_total_tokens=self.rem_total_tokens,
            rem_swa_tokens=self.rem_swa_tokens,
            size_swa=0 if swa is None else swa.allocator.size_swa,
            swa_retain_window=context.swa_retain_window,
            page_size=self.page_size,
            waits_for_chunked_req=self.rules.cut_waits(policy, has_chunked_req, bool(self.new_chunked_reqs)),
            host_hit_length=req.host_hit_length,
            swa_host_hit_length=req.swa_host_hit_length,
        )

    def _add(self, req: Req, extend_len: int) -> None:
        """Add a chunk of a request to the step, and charge it to the budgets."""
        self.can_run_list.append(req)
        rest = req.seqlen - req.prefix_len - extend_len
        req.extend_end = req.prefix_len + extend_len
        req.is_chunked = rest > 0
        self._update_prefill_budget(req, ceil_align(extend_len, self.page_size), rest)

    def _update_prefill_budget(self, req: Req, extend_len: int, rest: int) -> None:
        """Charge whole pages of a chunk to the budgets. ``rest``: tokens of the prompt behind the chunk."""
        max_new_tokens = self.rules.reserve_later(rest, min(req.task.request.n_predict, CLIP))
        self.rem_total_token_offset += extend_len + self.page_size + max_new_tokens
        self.cur_rem_token_offset += extend_len + self.page_size
        if self.tree_cache.swa is not None:
            self.rem_swa_token_offset += window_need(
                extend_len, max_new_tokens, chunk=self.rem_chunk_tokens, width=self.context.swa_retain_window,
                page=self.page_size)
        self.rem_input_tokens -= extend_len
        if self.rem_chunk_tokens is not None:
            self.rem_chunk_tokens -= extend_len
