"""Rules of a running request: window slots that it gives back, states that it tracks and gives to the tree."""

from __future__ import annotations

from math import lcm
from typing import NamedTuple, Sequence

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import MAMBA
from cachesim.engines.sglang.rules import BATCH, MIDDLE, OLD, OLD_WINDOW, STATES, WINDOW, source


class RequestWindow(NamedTuple):
    """Window of a request: the next key has ``pos`` tokens, the first ``evicted`` have no window slots of the request,
    the first ``protected`` belong to the tree; the window before a tracked state begins at ``floor`` (None = no state);
    ``interval``: fewest tokens to give back."""

    pos: int
    evicted: int
    protected: int
    floor: int | None
    window: int
    page: int
    interval: int


def _frontier(ask: RequestWindow, kept: int) -> tuple[int, int]:
    """Return first and last position to give back, so that ``kept`` tokens stay."""
    if ask.pos - ask.window < ask.evicted + ask.interval:
        return ask.evicted, ask.evicted
    start = max(ask.evicted, ask.protected)
    stop = ask.pos - kept if ask.floor is None else min(ask.pos - kept, ask.floor)
    return start, max(start, stop) // ask.page * ask.page


@rule("SG-WINDOW-FRONTIER.WINDOW", Role.MEMORY,
      source("mem_cache/common.py", "free_swa_out_of_window_slots", spec="S-SWA-6"))
def window_frontier(ask: RequestWindow) -> tuple[int, int]:
    """A request gives back window slots, in whole pages, that lie more than max(W, P) tokens before the next position;
    not those of the tree, and not the window before a tracked state. Return first and last position."""
    return _frontier(ask, -(-max(ask.window, ask.page) // ask.page) * ask.page)


@rule("SG-WINDOW-FRONTIER.TOKENS", Role.MEMORY,
      source("mem_cache/common.py", "free_swa_out_of_window_slots", MIDDLE, spec="S-SWA-6"),
      until="0.5.23")
def unrounded_frontier(ask: RequestWindow) -> tuple[int, int]:
    """A request gives back window slots as in SG-WINDOW-FRONTIER.WINDOW, but keeps max(W, P) tokens, not whole pages:
    if P does not divide W, less than a window can be left before the end of an insertion, which no prompt can
    use then."""
    return _frontier(ask, max(ask.window, ask.page))


@rule("SG-WINDOW-FRONTIER.NONE", Role.MEMORY, source(OLD_WINDOW, "cache_unfinished_req", OLD, spec="S-SWA-6"))
def no_frontier(ask: RequestWindow) -> tuple[int, int]:
    """At the end of a chunk a request gives back no window slots."""
    return ask.evicted, ask.evicted


@rule("SG-WINDOW-SLIDE.STEP", Role.MEMORY, source(BATCH, "maybe_evict_swa", spec="S-SWA-6"))
def slides_each_step(steps: int, window: int) -> bool:
    """A request frees window slots from its second generated token on."""
    return steps >= 1


@rule("SG-WINDOW-SLIDE.WINDOW", Role.MEMORY, source(BATCH, "maybe_evict_swa", OLD, spec="S-SWA-6"))
def slides_each_window(steps: int, window: int) -> bool:
    """A request frees window slots once per W generated tokens."""
    return steps % window == 1 % window


@rule("SG-STATE-TRACK.PREFILL", Role.CREATE,
      source(BATCH, "_mamba_radix_cache_v2_req_prepare_for_extend", spec="section 8"))
def track_prefill(start: int, stop: int, branch: int | None, grid: int) -> Decision:
    """A chunk of at least G tokens keeps the state after its last multiple of G tokens, counted from its start. A
    branching point inside, on the same grid, takes its place. Return the length of the state, None for no state."""
    if stop - start < grid:
        return Decision(None, {"start": stop, "grid": grid})
    end = start + (stop - start) // grid * grid
    if branch is not None and start < branch < stop and (branch - start) % grid == 0:
        end = branch
    return Decision(end, {"start": end, "grid": grid})


@rule("SG-STATE-TRACK.DECODE", Role.CREATE, source(BATCH, "prepare_for_decode", spec="section 8"))
def track_decode(before: int, n: int, grid: int, interval: int) -> Decision:
    """While a request generates, it keeps the state at multiples of the grid and the tracking interval; of a step with
    drafts, that at the last one, even if it lies behind the end of the answer. Return the length of the state, None
    for no state."""
    step = lcm(grid, interval)
    return Decision(n // step * step if n // step > before // step else None, {"start": n, "grid": step})


@rule("SG-DECODE-RESERVE.DOUBLE", Role.MEMORY,
      source("mem_cache/allocation_sizing.py", "get_alloc_reserve_per_decode", spec="section 10"))
def reserved_ahead(drafted: int) -> int:
    """A decode step needs a slot for a token. With drafts it reserves two steps, each a draft and one token more.
    Return the slots behind the evaluated tokens."""
    return 2 * (drafted + 1) if drafted else 1


@rule("SG-FINISH-DRAFT.SKIP", Role.PUBLISH, source("managers/scheduler_components/batch_result_processor.py",
                                          "_mamba_can_cache_finished_req", spec="section 8"))  # fmt: skip
def keeps_stopped(own: int, computed: int, buffered: bool, parts: tuple[int, ...]) -> bool:
    """Without extra buffer, a request whose answer ends inside a draft leaves nothing in the tree: its state is that
    after the whole draft. Return whether it leaves its tokens."""
    return buffered or MAMBA not in parts or own == computed


@rule("SG-STATE-GIVE.CHUNK", Role.PUBLISH, source(STATES, "prepare_for_caching_req", spec="section 8"))
def give_at_chunk(n: int, tracked: int | None, buffered: bool) -> int:
    """At the end of a chunk the tree gets a state: with extra buffer the tracked one, and only the tokens up to it;
    without, a copy of the running state. Return the number of inserted tokens."""
    return min(n, tracked or 0) if buffered else n


@rule("SG-STATE-GIVE.END", Role.PUBLISH, source(STATES, "_select_finished_checkpoint", spec="section 8"))
def give_at_end(n: int, tracked: int | None, previous: int | None, buffered: bool) -> int:
    """At its end a request hands its state to the tree: with extra buffer the tracked one, or the one before it if that
    lies beyond the tokens to keep. Return the number of inserted tokens."""
    if not buffered:
        return n
    if (tracked or 0) <= n:
        return tracked or 0
    return previous if previous is not None and previous <= n else 0


@rule("SG-INSERT-END.BRANCH", Role.PUBLISH, source(WINDOW, "prepare_for_caching_req", spec="S-MATCH-6"))
def insert_to_branch(n: int, branch: int | None, protected: int) -> int:
    """Without states, an insertion ends at the point where a window would have given a longer hit, if that lies beyond
    the request's part of the tree. Return the number of inserted tokens."""
    return branch if branch is not None and protected < branch <= n else n


@rule("SG-INSERT-END.ALL", Role.PUBLISH, source(OLD_WINDOW, "cache_unfinished_req", OLD, spec="S-MATCH-6"))
def insert_all(n: int, branch: int | None, protected: int) -> int:
    """Without states, all tokens are inserted. Return their number."""
    return n


@rule("SG-INSERT-PAGES.WHOLE", Role.PUBLISH,
      source("mem_cache/radix_cache.py", "RadixKey.page_aligned", spec="S-KEY-3"))
def publish_pages(n: int, page: int) -> Decision:
    """The tree takes over whole pages. Return the number of tokens."""
    return Decision(n // page * page, {"n": n, "page": page})


@rule("SG-RETRACT-ORDER.LENGTH", Role.PREEMPT, source(BATCH, "_get_decode_retraction_order", spec="section 10"))
def retract_order(running: Sequence[tuple[int, int]]) -> Decision:
    """Requests with more generated tokens are kept longer, then those with shorter prompts; ``running`` holds both
    numbers. Return the places of the requests, the first to retract at the end."""
    order = sorted(range(len(running)), key=lambda k: (running[k][0], -running[k][1]), reverse=True)
    return Decision(order, {"running": len(running)})


@rule("SG-SCHED-SETTLE.CHUNK", Role.MEMORY, source("managers/scheduler.py", "get_next_batch_to_run", spec="section 7"))
def settle_chunk_last(chunked: Sequence[bool]) -> Sequence[int]:
    """The chunk of a request whose prompt goes on enters the tree after all other requests of its step, when the next
    step begins. Return the order of the requests."""
    return sorted(range(len(chunked)), key=lambda k: chunked[k])


@rule("SG-SCHED-SETTLE.BATCH", Role.MEMORY, source("managers/scheduler.py", "get_next_batch_to_run", spec="section 7"))
def settle_in_place(chunked: Sequence[bool]) -> Sequence[int]:
    """The recorder's loop goes through the requests of a step in the order of the batch."""
    return range(len(chunked))


@rule("SG-RETRACT-BATCH-ORDER.SORTED", Role.MEMORY, source(BATCH, "filter_batch", spec="section 10"))
def kept_in_order(order: Sequence[int]) -> Sequence[int]:
    """After a retraction the batch has the order in which its requests are kept."""
    return order


@rule("SG-RETRACT-BATCH-ORDER.SAME", Role.MEMORY, source(BATCH, "filter_batch", spec="section 10"))
def kept_in_place(order: Sequence[int]) -> Sequence[int]:
    """The recorder's loop does not change the order of the batch."""
    return sorted(order)
