"""Rules of a running request: window slots that it gives back, states that it tracks and gives to the tree."""

from __future__ import annotations

from math import lcm
from typing import NamedTuple

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.sglang.rules import BATCH, CACHE, STATES, WINDOW, source


class Window(NamedTuple):
    """Window of a request: ``pos`` = length of the next key, ``evicted`` = tokens before this have no window slots of
    the request, ``protected`` = tokens that the tree owns, ``floor`` = the window before a tracked state begins here
    (None = no limit), ``interval`` = smallest number of tokens to give back."""

    pos: int
    evicted: int
    protected: int
    floor: int | None
    window: int
    page: int
    interval: int = 1


class Chunk(NamedTuple):
    """A chunk of a prompt: tokens start .. stop-1; ``branch``: point where a state would have given a longer hit, None
    = none; ``grid`` of the states."""

    start: int
    stop: int
    branch: int | None
    grid: int


@rule("S-FRONTIER.WINDOW", Role.MEMORY, source("mem_cache/common.py", "free_swa_out_of_window_slots"))
def window_frontier(ask: Window) -> tuple[int, int]:
    """A request gives back window slots, in whole pages, that lie more than max(W, P) tokens before the next position;
    not those of the tree, and not the window before a tracked state. Value: first and last position."""
    if ask.pos - ask.window < ask.evicted + ask.interval:
        return ask.evicted, ask.evicted
    start = max(ask.evicted, ask.protected)
    stop = ask.pos - -(-max(ask.window, ask.page) // ask.page) * ask.page
    if ask.floor is not None:
        stop = min(stop, ask.floor)
    return start, max(start, stop) // ask.page * ask.page


@rule("S-TRACK.PREFILL", Role.CREATE, source(BATCH, "_mamba_radix_cache_v2_req_prepare_for_extend"))
def track_prefill(ask: Chunk) -> Decision:
    """A chunk of at least G tokens keeps the state after its last multiple of G tokens, counted from its start. A
    branching point before that, on the same grid, takes its place. Value: length of the state, None = no state."""
    start, stop, branch, grid = ask
    if stop - start < grid:
        return Decision(None, {"start": stop, "grid": grid})
    end = start + (stop - start) // grid * grid
    if branch is not None and start < branch < stop and (branch - start) % grid == 0:
        end = branch
    return Decision(end, {"start": end, "grid": grid, "stop": stop})


@rule("S-TRACK.DECODE", Role.CREATE, source(BATCH, "prepare_for_decode"))
def track_decode(n: int, grid: int, interval: int) -> Decision:
    """While a request generates, it keeps the state at multiples of the grid and the tracking interval. Value: length
    of the state, None = no state."""
    return Decision(None if n % lcm(grid, interval) else n, {"start": n, "grid": lcm(grid, interval)})


@rule("S-GIVE.CHUNK", Role.MEMORY, source(STATES, "prepare_for_caching_req"))
def give_at_chunk(n: int, tracked: int | None, buffered: bool) -> int:
    """At the end of a chunk the tree gets a state: with extra buffer the tracked one, and only the tokens up to it;
    without, a copy of the running state. Value: number of inserted tokens."""
    return min(n, tracked or 0) if buffered else n


@rule("S-GIVE.END", Role.MEMORY, source(STATES, "_select_finished_checkpoint"))
def give_at_end(n: int, tracked: int | None, previous: int | None, buffered: bool) -> int:
    """At its end a request gives its state to the tree: with extra buffer the tracked one, or the one before it if that
    lies behind the tokens to keep. Value: number of inserted tokens."""
    if not buffered:
        return n
    if (tracked or 0) <= n:
        return tracked or 0
    return previous if previous is not None and previous <= n else 0


@rule("S-INSERT.BRANCH", Role.PUBLISH, source(WINDOW, "prepare_for_caching_req"))
def insert_to_branch(n: int, branch: int | None, protected: int) -> int:
    """Without states, an insertion ends at the point where a window would have given a longer hit, if that lies behind
    the request's part of the tree. Value: number of inserted tokens."""
    return branch if branch is not None and protected < branch <= n else n


@rule("S-RELEASE.WINDOW", Role.MEMORY, source(BATCH, "maybe_evict_swa release_leaf_lock"))
def release_window(steps: int, window: int, enabled: bool) -> bool:
    """A request that has generated W tokens no longer reads the window of its prompt. The server keeps the lock on it
    unless an option releases it."""
    return enabled and steps >= window


@rule("S-EVICT-RETRACT.STEPS", Role.MEMORY, source(BATCH, "release_req"))
def retract_room(remaining: int) -> int:
    """After a retraction, room for 20 tokens of each remaining request is evicted."""
    return 20 * remaining


@rule("S-RETRACT.ORDER", Role.PREEMPT, source(BATCH, "_get_decode_retraction_order"))
def retract_order(running: list[tuple[int, int]]) -> Decision:
    """Requests with more generated tokens are kept longer, then those with shorter prompts; ``running`` holds both
    numbers. Value: places of the requests, the first to retract at the end."""
    order = sorted(range(len(running)), key=lambda k: (running[k][0], -running[k][1]), reverse=True)
    return Decision(order, {"running": len(running)})


@rule("S-NEED.PAGES", Role.MEMORY, source(BATCH, "new_tokens_required_next_decode"))
def decode_need(lengths: list[int], page: int) -> int:
    """A step needs a page for every request that is at the start of one."""
    return page * sum(n % page == 0 for n in lengths)


@rule("S-ASK.PAGED", Role.MEMORY, source("mem_cache/allocation.py", "alloc_paged_token_slots_extend"))
def alloc_need(tokens: int, requests: int, page: int) -> int:
    """Before an allocation, room for its tokens is evicted, with pages of several tokens for another page per
    request."""
    return tokens if page == 1 else tokens + requests * page


@rule("S-PUBLISH.PAGES", Role.PUBLISH, source("mem_cache/radix_cache.py", "RadixKey.page_aligned"))
def publish_pages(n: int, page: int) -> Decision:
    """The tree takes over whole pages. Value: number of tokens."""
    return Decision(n // page * page, {"n": n, "page": page})


@rule("S-COUNT.ONCE", Role.MEMORY, source(CACHE, "checkpoint_into_tree"))
def counted_length(inserted: int, n: int) -> int:
    """A request counts a hit only at nodes beyond the tokens that it inserted before."""
    return max(inserted, n)


@rule("S-ASK-DECODE.PAGES", Role.MEMORY, source("mem_cache/allocation.py", "alloc_for_decode_default"))
def decode_room(requests: int, page: int) -> int:
    """Before a decode step, room for a page per request is evicted."""
    return requests * page


@rule("S-ASK-DECODE.NEED", Role.MEMORY, source(BATCH, "check_decode_mem"))
def decode_room_checked(requests: int, page: int) -> int:
    """The recorder's loop evicts nothing for a decode step but what the check of the step asked for."""
    return 0


@rule("S-BATCH-ORDER.KEPT", Role.MEMORY, source(BATCH, "filter_batch"))
def order_of_retraction(order: list[int]) -> list[int]:
    """After a retraction the batch is in the order in which its requests are kept."""
    return order


@rule("S-BATCH-ORDER.SAME", Role.MEMORY, source(BATCH, "filter_batch"))
def order_unchanged(order: list[int]) -> list[int]:
    """The recorder's loop keeps the order of the batch after a retraction."""
    return sorted(order)


@rule("S-SLIDE.AFTER", Role.MEMORY, source("mem_cache/allocation.py", "alloc_for_decode_default maybe_evict_swa"))
def slides_after_check() -> bool:
    """Generating requests give back window slots after the server has checked whether a step fits. Value: whether they
    do before."""
    return False


@rule("S-SLIDE.BEFORE", Role.MEMORY, source(BATCH, "maybe_evict_swa"))
def slides_before_check() -> bool:
    """In the recorder's loop generating requests give back window slots before the check."""
    return True
