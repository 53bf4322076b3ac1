"""Rules of CPU offload: chunks of blocks that are stored in CPU memory, and loaded by requests that start."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.shared.rule_set import instead_of
from cachesim.engines.vllm.rules.sources import file, scheduler

connector = file("vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py")
policy = file("vllm/v1/kv_offload/cpu/policies/lru.py")
cpu_manager = file("vllm/v1/kv_offload/cpu/manager.py")
BY_REQUEST = "requests"
BY_STORE = "stores"
BY_IDLENESS = "idleness"


@rule("VL-OFF-KINDS", Role.SETUP, connector("SchedulerOffloadConfig.from_spec"))
def offloaded_kinds() -> tuple[str, ...]:
    """Return the kinds of groups whose chunks are simulated; a server with CPU offload and another kind does not
    start."""
    return "full", "rswa", "swa", "chunked", "mamba"


@rule("VL-OFF-WAIT", Role.CONSULT, connector("get_num_new_matched_tokens"))
def wait_for_chunks(busy: bool) -> Decision:
    """True if a request can start now. It waits while one of its transfers runs, or while a chunk that it needs is
    stored or loaded for another request. A request that starts although it is busy loads nothing."""
    return Decision(not busy, {"busy": busy})


@rule("VL-OFF-UNREAD", Role.CONSULT, scheduler("schedule"))
def unread_waits() -> bool:
    """False: a request that reads no cached prefix waits for no transfer, not even its own of before a restart."""
    return False


@rule("VL-OFF-UNREAD.WAITS", Role.CONSULT, connector("get_num_new_matched_tokens", "0.30.0"), until="#57269")
def unread_waits_for_own() -> bool:
    """True: a request that reads no cached prefix waits for its own transfers of before a restart, like any other."""
    return True


@rule("VL-OFF-LOAD", Role.LOAD, connector("get_num_new_matched_tokens"))
def load_chunks(found: int, local: int) -> Decision:
    """Return the tokens that a starting request loads, None = nothing: whole chunks in CPU memory after the ``local``
    tokens found in the pool."""
    return Decision(found or None, {"local": local})


@rule("VL-OFF-END", Role.LOAD, connector("_lookup_complete_chunks"))
def end_of_others(end: int, chunk: int) -> int:
    """Return the end of a load that keeps states: the ``end`` that the other groups leave, also inside a ``chunk`` of
    states, whose only state is that at its end."""
    return end


@rule("VL-OFF-END.STATE", Role.LOAD, instead_of(end_of_others))
def end_at_state(end: int, chunk: int) -> int:
    """Return the end of a load that keeps states: the last end of a ``chunk`` of states that the other groups allow."""
    return end - end % chunk


@rule("VL-OFF-RESERVE", Role.NEED, scheduler("_inflight_prefill_reserved_blocks"))
def reserve_for_prompts(missing: Sequence[int]) -> int:
    """Return the free blocks that a load leaves to others: as many as prompts in progress, and requests that load,
    still miss."""
    return sum(missing)


class DraftStep(NamedTuple):
    """A step with drafts."""

    num_spec_decode_tokens: int      # its tokens behind the known ones
    blocks_by_group: Sequence[int]   # blocks of each group with rows that hold them
    blocks_of_common_size: int       # blocks of the common size of all groups that hold them


class LoadReserve(NamedTuple):
    """Free blocks that a load leaves beside those of prompts in progress. ``ahead``: tokens behind a prompt that it
    needs room for, too; ``each``: blocks more for each prompt; ``own``: blocks more for the request itself."""

    ahead: int
    each: int
    own: int


@rule("VL-OFF-RESERVE.DRAFTS", Role.NEED, scheduler("_request_remaining_blocks"))
def reserve_draft_step(step: DraftStep) -> LoadReserve:
    """Return what a load leaves free for the first step with drafts of every request, in all groups with rows."""
    return LoadReserve(step.num_spec_decode_tokens, each=0, own=sum(step.blocks_by_group))


@rule("VL-OFF-RESERVE.DRAFTS.ONE", Role.NEED, scheduler("_spec_decode_step_blocks", "0.31.0"))
def reserve_one_step(step: DraftStep) -> LoadReserve:
    """Return what a load leaves free for steps with drafts: for every request blocks of the common size, of which other
    groups need more."""
    return LoadReserve(0, each=step.blocks_of_common_size, own=step.blocks_of_common_size)


@rule("VL-OFF-RESERVE.DRAFTS.NONE", Role.NEED, scheduler("_request_remaining_blocks", "0.30.0"), until="#57104")
def reserve_no_step(step: DraftStep) -> LoadReserve:
    """Return what a load leaves free for steps with drafts: nothing."""
    return LoadReserve(0, each=0, own=0)


@rule("VL-OFF-FENCE", Role.MEMORY, scheduler("_request_blocks_can_be_freed"))
def free_after_steps(last: int, processed: int) -> bool:
    """True if blocks are free at once. Where loads are not ordered with steps in flight, the blocks of a request are
    free after the ``last`` step that writes them. ``processed``: number of processed steps."""
    return last <= processed


@rule("VL-OFF-OFFER", Role.PLAN, connector("_calc_num_offloadable_tokens"))
def offered(computed: int, prompt: int, prompt_only: bool) -> int:
    """Return the first tokens whose complete chunks are stored: those of the prompt; with offload_prompt_only off, also
    those of the answer."""
    return min(computed, prompt) if prompt_only else computed


@rule("VL-OFF-CHUNK", Role.PLAN, connector("_build_store_jobs"))
def chunk_with_reachable(held: Sequence[bool], reachable: Sequence[bool]) -> bool:
    """True if a complete chunk is stored: the request holds its last block, and all blocks that can be found again.
    The worker takes the blocks that are left for consecutive ones, and writes those after a gap at wrong places."""
    return held[-1] and any(reachable) and all(has or not need for has, need in zip(held, reachable, strict=True))


@rule("VL-OFF-CHUNK.LAST", Role.PLAN, connector("_build_store_jobs", "0.32.0"))
def chunk_with_last(held: Sequence[bool], reachable: Sequence[bool]) -> bool:
    """True if a complete chunk is stored: the request holds its last block, and one of its blocks can be found again.
    Blocks that the request gave back are not written."""
    return held[-1] and any(reachable)


@rule("VL-OFF-CHUNK.WHOLE", Role.PLAN, instead_of(chunk_with_reachable))
def chunk_without_gap(held: Sequence[bool], reachable: Sequence[bool]) -> bool:
    """True if a complete chunk is stored: the request holds all its blocks, so that each goes to its own place."""
    return any(reachable) and all(held)


@rule("VL-OFF-RESTART", Role.PLAN, connector("get_num_new_matched_tokens"))
def offer_again() -> bool:
    """True if a request that starts again offers its chunks again."""
    return True


@rule("VL-OFF-RESTART.ONCE", Role.PLAN, connector("get_num_new_matched_tokens", "0.32.0"))
def offer_once() -> bool:
    """False: a request that starts again offers only chunks behind those that it offered before."""
    return False


@rule("VL-OFF-ORDER", Role.DROP, policy("LRUCachePolicy"))
def order_by_request() -> str:
    """Return the order in which chunks make room: those of a running request share its first use, its end first."""
    return BY_REQUEST


@rule("VL-OFF-ORDER.STORED", Role.DROP, policy("LRUCachePolicy", "0.32.0"))
def order_by_store() -> str:
    """Return the order in which chunks make room: as they were stored, or last used by a request that ended."""
    return BY_STORE


@rule("VL-OFF-ORDER.IDLE", Role.DROP, policy("LRUCachePolicy", "0.30.0"), until="#51787")
def order_by_idleness() -> str:
    """Return the order in which chunks make room: as transfers of them ended, or requests touched them. The order among
    chunks of one transfer is that of a set of bytes, another one in every process; here it is that of the transfer."""
    return BY_IDLENESS


@rule("VL-OFF-KEPT", Role.DROP, cpu_manager("prepare_store"))
def keep_offered(offers: int, threshold: int) -> bool:
    """True: a chunk in CPU memory that is offered makes no room for others of the same offer. ``offers``: times that it
    was offered; ``threshold``: times after which a chunk is stored."""
    return True


@rule("VL-OFF-KEPT.OFTEN", Role.DROP, cpu_manager("prepare_store", "0.30.0"), until="#51787")
def keep_often_offered(offers: int, threshold: int) -> bool:
    """True if a chunk in CPU memory that is offered makes no room for others of the same offer: it was offered often
    enough to be stored. A server that stores at the first offer counts none, and keeps all."""
    return threshold < 2 or offers >= threshold


@rule("VL-OFF-TOUCH", Role.MEMORY, connector("get_num_new_matched_tokens"))
def touch_nothing(found: int, window: int) -> int | None:
    """Return None: lookups and stores of a request touch none of its chunks."""
    return None


@rule("VL-OFF-TOUCH.WINDOW", Role.MEMORY, connector("_touch", "0.30.0"), until="#51787")
def touch_window(found: int, window: int) -> int | None:
    """Return the first chunk of a request that its lookup or store touches. ``found``: chunks in pool or CPU memory;
    ``window``: chunks of them that a request needs, 0 = all."""
    return max(0, found - window) if window else 0


@rule("VL-OFF-STORE", Role.STORE, file("vllm/v1/kv_offload/cpu/manager.py")("prepare_store"))
def store_chunks(missing: int, free: int, idle: int) -> Decision:
    """Return the number of chunks that are stored, None = they are offered again. Chunks that are not in CPU memory are
    stored all or none: ``free`` places are left, and ``idle`` chunks can make room in the order of the eviction
    policy."""
    fits = missing <= free + idle
    return Decision(missing if fits else None, {"missing": missing, "evicted": max(0, missing - free) if fits else 0})
