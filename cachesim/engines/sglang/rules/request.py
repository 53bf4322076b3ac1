"""Rules of a running request: window slots that it gives back, states that it tracks and gives to the tree."""

from __future__ import annotations

from math import lcm
from typing import NamedTuple, Sequence

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import MAMBA
from cachesim.engines.sglang.rules import BATCH, CACHE, MIDDLE, OLD, OLD_WINDOW, STATES, WINDOW, source


class RequestWindow(NamedTuple):
    """Window slots of a running request."""

    pre_len: int               # tokens before the next key
    swa_evicted_seqlen: int    # first tokens, without window slots of the request
    cache_protected_len: int   # first tokens, which belong to the tree
    retain_floor: int | None   # first position of the window before a tracked state, None = no state
    sliding_window_size: int   # W [tokens]
    page_size: int             # P [tokens]
    eviction_interval: int     # fewest tokens to give back


def _frontier(ask: RequestWindow, kept: int) -> tuple[int, int]:
    """Return first and last position to give back, so that ``kept`` tokens stay."""
    if ask.pre_len - ask.sliding_window_size < ask.swa_evicted_seqlen + ask.eviction_interval:
        return ask.swa_evicted_seqlen, ask.swa_evicted_seqlen
    start = max(ask.swa_evicted_seqlen, ask.cache_protected_len)
    stop = ask.pre_len - kept if ask.retain_floor is None else min(ask.pre_len - kept, ask.retain_floor)
    return start, max(start, stop) // ask.page_size * ask.page_size


class TrackingSlots(NamedTuple):
    """Places for tracked states of a request, and how many of them have a slot from the beginning."""

    places: int
    slots: int


@rule("SG-STATE-SOURCE", Role.SETUP,
      source("arg_groups/overrides.py", "_mamba_radix_cache_resolution", spec="not named"))
def state_source(supported: bool, overlap: bool, page: int) -> str:
    """Return where the tree gets its states if the server chooses: tracked ones for a model that supports them, if
    steps overlap or pages have several tokens, else the running one."""
    return "extra_buffer" if supported and (overlap or page > 1) else "no_buffer"


@rule("SG-STATE-SOURCE.RUNNING", Role.SETUP,
      source("server_args.py", "ServerArgs._handle_mamba_radix_cache", "0.5.9", spec="not named"), until="#27418")
def state_source_running(supported: bool, overlap: bool, page: int) -> str:
    """Return where the tree gets its states if the server chooses: always the running one."""
    return "no_buffer"


@rule("SG-SCHED-OVERLAP.STRICT", Role.SETUP,
      source("arg_groups/mamba_hook.py", "validate_mamba_no_buffer", spec="not named"))
def overlaps(disabled: bool, chosen: bool, running: bool, drafts: bool) -> bool | None:
    """True if a step is launched before the results of the one before are processed: unless it is disabled, or the
    server chose the running state of requests as the source of states. None, because the server does not start, if the
    flags name that source and do not disable it."""
    if disabled or not running:
        return not disabled
    return False if chosen else None


@rule("SG-SCHED-OVERLAP.TURNED-OFF", Role.SETUP,
      source("server_args.py", "ServerArgs._handle_mamba_radix_cache", "0.5.9", spec="not named"), until="#19391")
def overlaps_if_possible(disabled: bool, chosen: bool, running: bool, drafts: bool) -> bool | None:
    """True if a step is launched before the results of the one before are processed: unless it is disabled, the source
    of states is the running state of requests, or there are drafts (SGLANG_ENABLE_SPEC_V2 is not modelled)."""
    return not (disabled or running or drafts)


@rule("SG-SCHED-OVERLAP.UNLESS-RUNNING", Role.SETUP,
      source("server_args.py", "ServerArgs._handle_mamba_radix_cache", "0.5.11", spec="not named"), until="#27418")
def overlaps_with_drafts(disabled: bool, chosen: bool, running: bool, drafts: bool) -> bool | None:
    """True if a step is launched before the results of the one before are processed: unless it is disabled, or the
    source of states is the running state of requests. None, because the server does not start, with that source and
    drafts."""
    return None if running and drafts else not (disabled or running)


@rule("SG-SCHED-OVERLAP.UNLESS-RUNNING-OR-DRAFTS", Role.SETUP,
      source("server_args.py", "ServerArgs._handle_mamba_radix_cache", "0.5.10", spec="not named"), until="0.5.11")
def overlaps_without_drafts(disabled: bool, chosen: bool, running: bool, drafts: bool) -> bool | None:
    """True if a step is launched before the results of the one before are processed: unless it is disabled, the source
    of states is the running state of requests, or there are drafts (SGLANG_ENABLE_SPEC_V2 is not modelled). None,
    because the server does not start, with that source and drafts."""
    return None if running and drafts else not (disabled or running or drafts)


@rule("SG-STATE-DRAFTS.TREE", Role.SETUP,
      source("arg_groups/mamba_hook.py", "validate_mamba_no_buffer", spec="not named"))
def keeps_states(running: bool, drafts: bool) -> bool:
    """True if a model with states has a prefix cache: always, whatever the source of states and with drafts."""
    return True


@rule("SG-STATE-DRAFTS.NONE", Role.SETUP,
      source("server_args.py", "ServerArgs._handle_mamba_radix_cache", OLD, spec="not named"), until="#19391")
def keeps_states_without_drafts(running: bool, drafts: bool) -> bool:
    """True if a model with states has a prefix cache: not if the source of states is the running state of requests and
    there are drafts."""
    return not (running and drafts)


@rule("SG-SCHED-FINISHING.SKIP", Role.MEMORY,
      source("managers/scheduler.py", "_reqs_finishing_inflight", spec="not named"))
def skips_finishing(is_last: bool) -> bool:
    """True if a decode step leaves out a request whose token on the way is the last by length."""
    return is_last


@rule("SG-SCHED-FINISHING.RUN", Role.MEMORY,
      source("managers/scheduler.py", "update_running_batch", MIDDLE, spec="not named"), until="0.5.22")
def runs_finishing(is_last: bool) -> bool:
    """Return False: a request whose token on the way is the last takes part in one more decode step, whose result is
    dropped."""
    return False


@rule("SG-SCHED-LEAVE.STEP", Role.MEMORY, source("managers/scheduler.py", "get_next_batch_to_run", spec="not named"))
def leaves_each_step() -> bool:
    """True if requests that ended leave the running batch when the next step is chosen."""
    return True


@rule("SG-SCHED-LEAVE.DECODE", Role.MEMORY,
      source("managers/scheduler.py", "update_running_batch", MIDDLE, spec="not named"), until="0.5.23")
def leaves_at_decode() -> bool:
    """True if requests that ended leave the running batch when the next step is chosen: no, only when the next decode
    step is prepared. Until then they count as running, so that fewer others can start."""
    return False


@rule("SG-STATE-SLOTS.OVERLAP", Role.SETUP,
      source("mem_cache/allocation_sizing.py", "get_mamba_tracking_slots", spec="not named"))
def tracking_slots(strategy: str, overlaps: bool, drafts: int) -> TrackingSlots:
    """Return the places for tracked states of a request: two if steps overlap, else one, which the next state
    overwrites. With extra_buffer_lazy only one has a slot from the beginning."""
    places = (2 if overlaps else 1) if strategy.startswith("extra_buffer") else 0
    return TrackingSlots(places, min(1, places) if strategy == "extra_buffer_lazy" else places)


@rule("SG-STATE-SLOTS.DRAFTS", Role.SETUP,
      source("mem_cache/memory_pool.py", "HybridReqToTokenPool.__init__", OLD, spec="not named"), until="0.5.10")
def tracking_slots_by_drafts(strategy: str, overlaps: bool, drafts: int) -> TrackingSlots:
    """Return the places for tracked states of a request: two, with drafts one."""
    places = (1 if drafts else 2) if strategy == "extra_buffer" else 0
    return TrackingSlots(places, places)


@rule("SG-STATE-SLOTS.PAIR", Role.SETUP,
      source("mem_cache/memory_pool.py", "HybridReqToTokenPool._alloc_ping_pong_buffer", spec="not named"))
def tracking_pair(strategy: str, overlaps: bool, drafts: int) -> TrackingSlots:
    """Return the places for tracked states of a request: the recorder gave each request two."""
    places = 2 if strategy == "extra_buffer" else 0
    return TrackingSlots(places, places)


@rule("SG-WINDOW-FRONTIER.WINDOW", Role.MEMORY,
      source("mem_cache/common.py", "free_swa_out_of_window_slots", spec="S-SWA-6"))
def window_frontier(ask: RequestWindow) -> tuple[int, int]:
    """Return first and last position of the window slots that a request gives back. They are whole pages more than
    max(W, P) tokens before the next position. Slots of the tree and the window before a tracked state stay."""
    return _frontier(ask, -(-max(ask.sliding_window_size, ask.page_size) // ask.page_size) * ask.page_size)


@rule("SG-WINDOW-FRONTIER.TOKENS", Role.MEMORY,
      source("mem_cache/common.py", "free_swa_out_of_window_slots", MIDDLE, spec="S-SWA-6"),
      until="0.5.23")
def unrounded_frontier(ask: RequestWindow) -> tuple[int, int]:
    """Return first and last position of the window slots that a request gives back: as in SG-WINDOW-FRONTIER.WINDOW,
    but it keeps max(W, P) tokens, not whole pages. If P does not divide W, less than a window can be left before the
    end of an insertion, so no prompt can use it."""
    return _frontier(ask, max(ask.sliding_window_size, ask.page_size))


@rule("SG-WINDOW-FRONTIER.RAISED", Role.MEMORY,
      source("mem_cache/common.py", "free_swa_out_of_window_slots", MIDDLE, spec="S-SWA-6"), until="0.5.21")
def raised_frontier(ask: RequestWindow) -> tuple[int, int]:
    """Return first and last position of the window slots that a request gives back at the end of a chunk: as in
    SG-WINDOW-FRONTIER.TOKENS, but the first position moves to the end of the tree's part even if no slot is freed, so
    that the next decode steps wait for as many further tokens."""
    start = max(ask.swa_evicted_seqlen, ask.cache_protected_len)
    stop = ask.pre_len - max(ask.sliding_window_size, ask.page_size)
    stop = stop if ask.retain_floor is None else min(stop, ask.retain_floor)
    return start, max(start, stop) // ask.page_size * ask.page_size


def _frontier_at(ask: RequestWindow, kept: int) -> tuple[int, int]:
    """Return first and last position to give back, so that ``kept`` tokens stay, whatever was given back before."""
    start = max(ask.swa_evicted_seqlen, ask.cache_protected_len)
    return start, max(start, ask.pre_len - kept) // ask.page_size * ask.page_size


@rule("SG-WINDOW-FRONTIER.EACH", Role.MEMORY,
      source("mem_cache/common.py", "free_swa_out_of_window_slots", "0.5.15", spec="S-SWA-6"), until="#33404")
def frontier_each_time(ask: RequestWindow) -> tuple[int, int]:
    """Return first and last position of the window slots that a request gives back: whole pages more than max(W, P)
    tokens before the next position, however few they are."""
    return _frontier_at(ask, max(ask.sliding_window_size, ask.page_size))


@rule("SG-WINDOW-FRONTIER.PAGE-MORE", Role.MEMORY,
      source(BATCH, "ScheduleBatch._evict_swa", "0.5.11", spec="S-SWA-6"), until="#29860")
def frontier_page_more(ask: RequestWindow) -> tuple[int, int]:
    """Return first and last position of the window slots that a request gives back: whole pages more than W + P tokens
    before the next position."""
    return _frontier_at(ask, ask.sliding_window_size + ask.page_size)


@rule("SG-WINDOW-FRONTIER.WINDOW-ONLY", Role.MEMORY,
      source(BATCH, "ScheduleBatch._evict_swa", OLD, spec="S-SWA-6"), until="#22470")
def frontier_window_only(ask: RequestWindow) -> tuple[int, int]:
    """Return first and last position of the window slots that a request gives back: whole pages more than W tokens
    before the next position. If a page is longer than the window, all slots of its last page can be among them."""
    return _frontier_at(ask, ask.sliding_window_size)


@rule("SG-WINDOW-FRONTIER.NONE", Role.MEMORY,
      source(OLD_WINDOW, "cache_unfinished_req", OLD, spec="S-SWA-6"), until="#34653")
def no_frontier(ask: RequestWindow) -> tuple[int, int]:
    """Return an empty range of positions: at the end of a chunk a request gives back no window slots."""
    return ask.swa_evicted_seqlen, ask.swa_evicted_seqlen


class DecodeStep(NamedTuple):
    """A decode step of a request that may give back window slots."""

    decode_batch_idx: int      # decode steps of the request before it
    forward_iter: int          # steps of the server when its batch ran last
    sliding_window_size: int   # W [tokens]
    page_size: int             # P [tokens]
    eviction_interval: int     # SGLANG_SWA_EVICTION_INTERVAL


@rule("SG-WINDOW-SLIDE.STEP", Role.MEMORY, source(BATCH, "maybe_evict_swa", spec="S-SWA-6"))
def slides_each_step(step: DecodeStep) -> bool:
    """True if a request frees window slots in this step: from its second generated token on."""
    return step.decode_batch_idx >= 1


@rule("SG-WINDOW-SLIDE.ITERATION", Role.MEMORY, source(BATCH, "maybe_evict_swa", "0.5.15", spec="S-SWA-6"),
      until="#33404")
def slides_at_iterations(step: DecodeStep) -> bool:
    """True if a request frees window slots in this step: all requests do once per SGLANG_SWA_EVICTION_INTERVAL steps of
    the server."""
    return step.decode_batch_idx >= 1 and step.forward_iter % step.eviction_interval == 0


@rule("SG-WINDOW-SLIDE.PAGES", Role.MEMORY, source(BATCH, "maybe_evict_swa", "0.5.11", spec="S-SWA-6"), until="#28755")
def slides_each_window_of_pages(step: DecodeStep) -> bool:
    """True if a request frees window slots in this step: once per W generated tokens, rounded down to pages, but at
    least one page."""
    width = max(step.page_size, step.sliding_window_size) // step.page_size * step.page_size
    return step.decode_batch_idx % width == 1


@rule("SG-WINDOW-SLIDE.WINDOW", Role.MEMORY, source(BATCH, "maybe_evict_swa", OLD, spec="S-SWA-6"), until="#22645")
def slides_each_window(step: DecodeStep) -> bool:
    """True if a request frees window slots in this step: once per W generated tokens."""
    return step.decode_batch_idx % step.sliding_window_size == 1


@rule("SG-STATE-TRACK.PREFILL", Role.CREATE,
      source(BATCH, "_mamba_radix_cache_v2_req_prepare_for_extend", spec="section 8"))
def track_prefill(start: int, stop: int, branch: int | None, grid: int) -> Decision:
    """Return the length [tokens] after which a chunk keeps a state, None for no state. A chunk of at least G tokens
    keeps the state after its last multiple of G tokens, counted from its start. A branching point inside the chunk, on
    the same grid, takes its place."""
    if stop - start < grid:
        return Decision(None, {"start": stop, "grid": grid})
    end = start + (stop - start) // grid * grid
    if branch is not None and start < branch < stop and (branch - start) % grid == 0:
        end = branch
    return Decision(end, {"start": end, "grid": grid})


@rule("SG-STATE-TRACK.DECODE", Role.CREATE, source(BATCH, "prepare_for_decode", spec="section 8"))
def track_decode(before: int, n: int, grid: int, interval: int) -> Decision:
    """Return the length [tokens] after which a generating request keeps a state, None for no state: multiples of the
    grid and the tracking interval. A step with drafts keeps the last one, even if it lies after the end of the
    answer."""
    step = lcm(grid, interval)
    return Decision(n // step * step if n // step > before // step else None, {"start": n, "grid": step})


@rule("SG-STATE-UNLOCK.LAZY", Role.MEMORY, source(STATES, "_alloc_mamba_slot", spec="not named"))
def unlocks_if_lazy(lazy: bool) -> bool:
    """True if a running request gives up the lock on the state that it started with, when it needs a slot and none is
    free: with extra_buffer_lazy. Its own chunk has read that state, which can then be evicted."""
    return lazy


@rule("SG-STATE-UNLOCK.NEVER", Role.MEMORY,
      source(STATES, "_alloc_mamba_slot", "0.5.22", spec="not named"), until="0.5.23")
def never_unlocks(lazy: bool) -> bool:
    """Return False: a running request keeps the lock on the state that it started with. If all states of the tree are
    locked, the server ends for lack of a slot."""
    return False


@rule("SG-STATE-ROOM.NEED", Role.MEMORY,
      source("mem_cache/allocation.py", "ensure_mamba_capacity", spec="not named"))
def states_needed(missing: int, requests: int, lazy: bool) -> int:
    """Return the slots of states that must be free before a prefill step: as many as its requests lack. States of the
    tree are evicted for the others."""
    return missing


@rule("SG-STATE-ROOM.EACH", Role.MEMORY,
      source("mem_cache/allocation.py", "alloc_req_slots", "0.5.21", spec="not named"), until="0.5.22")
def states_for_each(missing: int, requests: int, lazy: bool) -> int:
    """Return the slots of states that must be free before a prefill step: three for each of its requests, two with
    extra_buffer_lazy, whether it lacks them or not. A prompt that continues has all of its slots, and evicts three
    states of the tree with every chunk (sgl-project/sglang#38151)."""
    return requests * (2 if lazy else 3)


@rule("SG-STATE-IN-PLACE.FORGET", Role.MEMORY, source(BATCH, "mamba_lazy_prealloc_at_boundary", spec="not named"))
def forgets_overwritten() -> bool:
    """True if a request forgets the length of its last tracked state when the next one overwrites it, because no second
    slot is free: yes, it then hands over none until the next one is tracked."""
    return True


@rule("SG-STATE-IN-PLACE.KEEP", Role.MEMORY,
      source(BATCH, "mamba_lazy_prealloc_at_boundary", "0.5.21", spec="not named"), until="0.5.22")
def keeps_overwritten() -> bool:
    """Return False: a request keeps the length of its last tracked state while the next one overwrites it. If its
    prompt enters the tree meanwhile, the tree has a state of later tokens."""
    return False


@rule("SG-FINISH-LESS.ENDS", Role.MEMORY, source(CACHE, "checkpoint_into_tree", spec="not named"))
def ends_below_published() -> bool:
    """Return False: where a finished request leaves fewer tokens in the tree than it has published, with
    --strip-thinking-cache after a retraction, an assertion fails, and the scheduler ends."""
    return False


@rule("SG-FINISH-LESS.FREES", Role.MEMORY, source(CACHE, "insert_req", "0.5.21", spec="not named"), until="0.5.22")
def frees_published() -> bool:
    """Return True: where a finished request leaves fewer tokens in the tree than it has published, the slots of the
    others become free although the tree has them."""
    return True


@rule("SG-FREE-WINDOW.OWN", Role.MEMORY, source("mem_cache/common.py", "free_kv_row_segments", spec="not named"))
def gone_from_published(published: int) -> int:
    """Return the first position whose window slot may be gone when a request frees its row. The slots before it are
    those of the tree, and are freed with their window slots."""
    return published


@rule("SG-FREE-WINDOW.ROW", Role.MEMORY,
      source("mem_cache/common.py", "free_kv_row_segments", MIDDLE, spec="not named"), until="0.5.21")
def gone_from_beginning(published: int) -> int:
    """Return the first position whose window slot may be gone when a request frees its row: the first of the row."""
    return 0


@rule("SG-DECODE-RESERVE.DOUBLE", Role.MEMORY,
      source("mem_cache/allocation_sizing.py", "get_alloc_reserve_per_decode", spec="section 10"))
def reserved_ahead(drafted: int) -> int:
    """Return the slots that a decode step reserves after the evaluated tokens: one, with drafts those of two steps,
    each a draft and one token more."""
    return 2 * (drafted + 1) if drafted else 1


@rule("SG-FINISH-DRAFT.SKIP", Role.PUBLISH, source("managers/scheduler_components/batch_result_processor.py",
                                          "_mamba_can_cache_finished_req", spec="section 8"))  # fmt: skip
def keeps_stopped(own: int, computed: int, buffered: bool, parts: tuple[int, ...]) -> bool:
    """True if a finished request leaves its tokens in the tree. Without extra buffer, a request with states whose
    answer ends inside a draft leaves nothing, because its state is that after the whole draft."""
    return buffered or MAMBA not in parts or own == computed


@rule("SG-FINISH-DRAFT.KEEP", Role.PUBLISH,
      source("mem_cache/common.py", "release_kv_cache", "0.5.22", spec="not named"), until="0.5.23")
def keeps_all_stopped(own: int, computed: int, buffered: bool, parts: tuple[int, ...]) -> bool:
    """Return True: every finished request leaves its tokens in the tree. Without extra buffer, one with states whose
    answer ends inside a draft leaves the state after the whole draft at the end of its answer."""
    return True


@rule("SG-STATE-GIVE.CHUNK", Role.PUBLISH, source(STATES, "prepare_for_caching_req", spec="section 8"))
def give_at_chunk(n: int, tracked: int | None, buffered: bool) -> int:
    """Return the number of tokens that the end of a chunk inserts into the tree. With extra buffer these are the tokens
    up to the tracked state; without, all of them, with a copy of the running state."""
    return min(n, tracked or 0) if buffered else n


@rule("SG-STATE-GIVE.END", Role.PUBLISH, source(STATES, "_select_finished_checkpoint", spec="section 8"))
def give_at_end(n: int, tracked: int | None, previous: int | None, buffered: bool) -> int:
    """Return the number of tokens that a finished request inserts into the tree with its state. With extra buffer the
    state is the tracked one, or the one before it if the tracked one lies beyond the tokens to keep."""
    if not buffered:
        return n
    if (tracked or 0) <= n:
        return tracked or 0
    return previous if previous is not None and previous <= n else 0


@rule("SG-STATE-GIVE.LAST", Role.PUBLISH,
      source(STATES, "prepare_for_caching_req", "0.5.21", spec="section 8"), until="0.5.22")
def give_last_at_end(n: int, tracked: int | None, previous: int | None, buffered: bool) -> int:
    """Return the number of tokens that a finished request inserts into the tree with its state. With extra buffer the
    state is the tracked one, even if it lies beyond the tokens to keep: a prompt that reuses them starts with a state
    of later tokens."""
    return min(n, tracked or 0) if buffered else n


@rule("SG-INSERT-END.BRANCH", Role.PUBLISH, source(WINDOW, "prepare_for_caching_req", spec="S-MATCH-6"))
def insert_to_branch(n: int, branch: int | None, protected: int) -> int:
    """Return the number of inserted tokens. Without states, an insertion ends where a window would have given a longer
    hit, if that lies beyond the request's part of the tree."""
    return branch if branch is not None and protected < branch <= n else n


@rule("SG-INSERT-END.ALL", Role.PUBLISH,
      source(OLD_WINDOW, "cache_unfinished_req", OLD, spec="S-MATCH-6"), until="#34565")
def insert_all(n: int, branch: int | None, protected: int) -> int:
    """Return the number of inserted tokens: without states, all of them."""
    return n


@rule("SG-INSERT-PAGES.WHOLE", Role.PUBLISH,
      source("mem_cache/radix_cache.py", "RadixKey.page_aligned", spec="S-KEY-3"))
def publish_pages(n: int, page: int) -> Decision:
    """Return the number of tokens that the tree takes over: whole pages."""
    return Decision(n // page * page, {"n": n, "page": page})


@rule("SG-RETRACT-ORDER.LENGTH", Role.PREEMPT, source(BATCH, "_get_decode_retraction_order", spec="section 10"))
def retract_order(running: Sequence[tuple[int, int]]) -> Decision:
    """Return the places of the running requests, the first to retract last. Requests with more generated tokens are
    kept longer, then those with shorter prompts; ``running`` holds both numbers [tokens]."""
    order = sorted(range(len(running)), key=lambda k: (running[k][0], -running[k][1]), reverse=True)
    return Decision(order, {"running": len(running)})


@rule("SG-SCHED-SETTLE.CHUNK", Role.MEMORY, source("managers/scheduler.py", "get_next_batch_to_run", spec="section 7"))
def settles_next_step() -> bool:
    """True if the chunk of a prompt that continues enters the tree with the results of its step: no, it enters when the
    next step begins."""
    return False


@rule("SG-SCHED-SETTLE.BATCH", Role.MEMORY, source("managers/scheduler.py", "get_next_batch_to_run", spec="section 7"))
def settles_with_batch() -> bool:
    """True if the chunk of a prompt that continues enters the tree with the results of its step: the recorder's loop
    inserts it in the order of the batch."""
    return True


@rule("SG-RETRACT-BATCH-ORDER.SORTED", Role.MEMORY, source(BATCH, "filter_batch", spec="section 10"))
def kept_in_order(order: Sequence[int]) -> Sequence[int]:
    """Return the order of the batch after a retraction: that in which its requests are kept."""
    return order


@rule("SG-RETRACT-BATCH-ORDER.SAME", Role.MEMORY, source(BATCH, "filter_batch", spec="section 10"))
def kept_in_place(order: Sequence[int]) -> Sequence[int]:
    """Return the order of the batch after a retraction: the recorder's loop does not change it."""
    return sorted(order)
