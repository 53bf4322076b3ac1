"""Rules of the scheduler and the block pool: pure functions, in the order in which they apply to a request.

B         tokens of a block             hit       tokens that need no evaluation
boundary  a multiple of B               junction  how far the rows reached, where states ended before
"""

from __future__ import annotations

import hashlib
from array import array
from functools import partial
from typing import NamedTuple, Sequence

from cachesim.engines.rule import Decision, Role, Source, rule

vllm = partial(Source, "vllm-project/vllm")
"""Source in vLLM: file, function, release."""

CORE = "vllm/v1/core"
POOL, UTILS = f"{CORE}/block_pool.py", f"{CORE}/kv_cache_utils.py"
COORDINATOR, MANAGERS = f"{CORE}/kv_cache_coordinator.py", f"{CORE}/single_type_kv_cache_manager.py"
SCHEDULER = f"{CORE}/sched/scheduler.py"


class Lookup(NamedTuple):
    """A request of ``n`` tokens is looked up. ``rows``: first blocks of which rows are cached, ``states``: boundaries
    at which a state is, ascending; None = the model has no such layers. ``drop``: a block of rows is not used."""

    n: int
    block: int
    rows: int | None
    states: Sequence[int] | None
    drop: bool


class Chunk(NamedTuple):
    """Tokens ``start`` .. ``stop`` - 1 of ``n`` are to be evaluated, the ``budget`` of a step allowing. ``prefill``:
    where the prompt ends."""

    start: int
    stop: int
    n: int
    prefill: int
    block: int
    budget: int
    junction: int
    drop: bool


class Kept(NamedTuple):
    """A state exists after ``end`` tokens of a prompt of ``n``. ``interval``: tokens from a kept state to the next."""

    end: int
    n: int
    block: int
    junction: int
    interval: int
    drop: bool


@rule("BP-HASH.CHAIN", Role.MEMORY, vllm(UTILS, "hash_block_tokens", "0.33.0"))
def hash_chain(parent: bytes, tokens: Sequence[int]) -> bytes:
    """A block is identified by the hash of its tokens and of the previous block: equal prefixes have equal blocks."""
    return hashlib.sha256(parent + array("q", tokens).tobytes()).digest()


@rule("BP-QUEUE.FCFS", Role.ADMIT, vllm(SCHEDULER, "schedule", "0.33.0"))
def queue_first(waiting: int) -> Decision:
    """The request that has waited longest is next; preempted requests precede all others. Value: its place."""
    return Decision(0, {"waiting": waiting})


@rule("BP-FIND.SHRINK", Role.LOAD, vllm(COORDINATOR, "find_longest_cache_hit", "0.33.0"))
def find_shrinking(ask: Lookup) -> Decision:
    """Find the longest prefix with rows and state, never with the last token. Rows are looked up from the left, the
    state from the right below them. Value: its length, None = nothing. ``junction``: length that the rows alone would
    give."""
    most = ask.n - 1
    reach = hit = most // ask.block * ask.block
    if ask.rows is not None:
        known = ask.n // ask.block
        blocks = min(ask.rows, known if ask.drop else most // ask.block)
        reach = hit = max(0, blocks - ask.drop) * ask.block
    if ask.states is not None:
        hit = max((end for end in ask.states if end <= reach), default=0)
        reach = reach if ask.rows is not None else hit
    return Decision(hit or None, {"n": ask.n, "rows": reach, "hit": hit, "junction": reach if reach > hit else 0})


@rule("BP-GUARD.NONE", Role.CONSULT, vllm(MANAGERS, "MambaManager", "0.15.1"), until="#29387")
def guard_none(fresh: bool) -> Decision:
    """A state may be used in the step in which it was promised: it is read before it is there."""
    return Decision(True, {"fresh": fresh})


@rule("BP-GUARD.STEP", Role.CONSULT, vllm(MANAGERS, "MambaManager cached_blocks_this_step", "0.33.0"), since="#29387")
def guard_step(fresh: bool) -> Decision:
    """A request whose state was promised in this step waits for the next step."""
    return Decision(not fresh, {"fresh": fresh})


@rule("BP-SPLIT.WHOLE", Role.PLAN, vllm(SCHEDULER, "schedule", "0.33.0"))
def split_whole(ask: Chunk) -> Decision:
    """Without states a chunk ends where the budget does."""
    return Decision(ask.stop, {"start": ask.start, "stop": ask.stop})


@rule("BP-SPLIT.ALIGN", Role.PLAN, vllm(SCHEDULER, "_mamba_block_aligned_split", "0.33.0"))
def split_aligned(ask: Chunk) -> Decision:
    """End chunks at the next boundary, the last boundary and the junction, because states exist only at chunk ends."""
    block, stop = ask.block, ask.stop
    if ask.start >= ask.prefill:
        return Decision(stop, {"start": ask.start, "stop": stop})
    if stop < ask.prefill and (stop // block * block > ask.start or ask.budget >= block):
        stop = stop // block * block
    last = max(0, ask.n // block * block - block if ask.drop else (ask.n - 1) // block * block)
    stops = [last, ask.junction // block * block]
    if ask.start % block:
        stops.append(ask.start // block * block + block)
    stop = min((one for one in stops if ask.start < one < stop), default=stop)
    return Decision(stop, {"start": ask.start, "stop": stop, "last": last, "junction": ask.junction})


@rule("BP-SHORT.PREEMPT", Role.PREEMPT, vllm(SCHEDULER, "schedule", "0.33.0"))
def preempt_last(running: int, needed: int, free: int) -> Decision:
    """The pool has no blocks for a running request: the request that came last is preempted, and restarts later. Value:
    its place among the running requests."""
    return Decision(running - 1, {"running": running, "needed": needed, "free": free})


@rule("BP-EVICT.FRONT", Role.DROP, vllm(POOL, "get_new_blocks _maybe_evict_cached_block", "0.33.0"))
def evict_front(block: int, end: int) -> Decision:
    """The block at the front of the free queue is reused, and its content can no longer be found. Value: its number."""
    return Decision(block, {"end": end})


@rule("BP-FREE.SIDES", Role.MEMORY, vllm(POOL, "free_blocks", "0.33.0"))
def free_sides(hashed: bool) -> str:
    """An unused block joins the free queue at the back if it can be found again, otherwise at the front."""
    return "back" if hashed else "front"


@rule("BP-PUBLISH.SCHEDULED", Role.PUBLISH,
      vllm(f"{CORE}/kv_cache_manager.py", "allocate_slots cache_blocks", "0.33.0"))
def publish_scheduled(stop: int, known: int, block: int) -> Decision:
    """Complete blocks can be found from the moment in which they are scheduled, before anything is computed. Value:
    how many."""
    return Decision(min(stop, known) // block, {"stop": stop})


@rule("BP-RETAIN.DENSE", Role.CREATE, vllm(MANAGERS, "cache_blocks", "0.20.2"), until="#52216")
def retain_dense(ask: Kept) -> Decision:
    """Every state that exists at a boundary can be found."""
    return Decision(True, {"start": ask.end})


@rule("BP-RETAIN.BOUNDARY", Role.CREATE, vllm(MANAGERS, "MambaManager.reachable_block_mask", "0.33.0"), since="#52216")
def retain_boundaries(ask: Kept) -> Decision:
    """The states at boundaries that an equal prompt would use can be found, and those at the junction and at every
    interval (0 = no others, less = all). The boundaries of a reply do not add states."""
    block = ask.block
    ends = {(ask.n - 1) // block * block}
    if ask.drop:
        ends = {end // block * block - block for end in (ask.n - 1, ask.n)} | {ask.junction - block}
    every = ask.interval > 0 and ask.end % ask.interval == 0
    kept = ask.interval < 0 or every or ask.end in ends or ask.end == ask.junction // block * block
    return Decision(kept, {"start": ask.end, "n": ask.n, "junction": ask.junction})


@rule("BP-RELEASE.NEXT", Role.DROP, vllm(MANAGERS, "MambaManager.remove_skipped_blocks", "0.33.0"))
def release_superseded(column: int, computed: int, block: int) -> Decision:
    """The state of an earlier column is released as soon as the state of a later column was computed."""
    return Decision(column < -(-computed // block) - 1, {"column": column, "computed": computed})
