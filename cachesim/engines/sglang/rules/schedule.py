"""Rules of the queue and of admission."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Sequence

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.sglang.rules import OLD, POLICY, source

CLIP = 4096                  # most tokens of an answer that admission reserves
CONTINUE = "CONTINUE"
NO_TOKEN = "NO_TOKEN"
OTHER = "OTHER"
SHORTEST = "shortest-prefill-first"


class WaitingRequest(NamedTuple):
    """A waiting request."""

    seqlen: int                      # tokens of prompt and answer so far
    num_matched_prefix_tokens: int
    max_new_tokens: int              # tokens of its whole answer
    is_deprioritized: bool           # it waits for a request with the same beginning
    dfs_place: int                   # place in the depth-first order of the tree


class AdmissionCandidate(NamedTuple):
    """A request that could start."""

    extend_len: int                # tokens to evaluate
    prefix_len: int                # matched tokens
    max_new_tokens: int            # most further tokens of its answer
    is_first: bool                 # it is the first of the batch
    rem_input_tokens: int          # rest of the token budget of the step
    rem_chunk_tokens: int | None   # rest of the chunk [tokens], None = unlimited
    rem_total_tokens: float        # free and evictable slots that are not promised to others
    rem_swa_tokens: float | None   # free and evictable window slots that are not promised to others, None = no windows
    size_swa: int                  # slots of the window pool
    swa_retain_window: int         # window [tokens]
    page_size: int                 # tokens of a page
    waits_for_chunked_req: bool = False   # another prompt is cut, and this one waits rather than be cut, too
    host_hit_length: int = 0              # tokens of the hit that must be loaded from host memory first
    swa_host_hit_length: int = 0          # tokens of its window that must be loaded from host memory first


ORDERS: Mapping[str, Callable[[WaitingRequest], Any]] = {
    "lpm": lambda one: float("inf") if one.is_deprioritized else -one.num_matched_prefix_tokens,
    "dfs-weight": lambda one: one.dfs_place,
    "lof": lambda one: -one.max_new_tokens,
    SHORTEST: lambda one: (one.is_deprioritized, max(1, one.seqlen - one.num_matched_prefix_tokens)),
    "fcfs": lambda one: 0,
}
"""Sort key of a waiting request by policy; equal keys keep their order."""
AWARE = frozenset({"lpm", "dfs-weight", SHORTEST})
"""Policies that match all waiting requests first."""


@rule("SG-QUEUE-LATE.BATCH", Role.CONSULT, source(POLICY, "_compute_prefix_matches", spec="section 9"))
def waits_for_twin(common: int, threshold: int) -> bool:
    """True if a waiting request shares ``threshold`` tokens with an earlier one of the queue. If it has no better hit,
    it waits for the result of that request."""
    return common >= threshold


@rule("SG-QUEUE-ORDER.POLICY", Role.CONSULT, source(POLICY, "calc_priority", spec="section 9"))
def queue_order(policy: str, waiting: Sequence[WaitingRequest]) -> Decision:
    """Return the places of the waiting requests, sorted by the policy: longest hit first, depth first along the tree's
    heaviest branch, longest answer first, shortest prefill first, or in the order of arrival."""
    key = ORDERS[policy]
    return Decision(sorted(range(len(waiting)), key=lambda k: key(waiting[k])), {"waiting": len(waiting)})


def ceil(n: int, page: int) -> int:
    """Return ``n`` rounded up to pages."""
    return -(-n // page) * page


def window_need(n: int, answer: int, chunk: int | None, width: int, page: int, loads: int = 0) -> int:
    """Return the most window slots that a request needs at a time: tokens of its chunk beyond a window, a window of
    prompt and answer, a page, and pages of the ``loads`` tokens that come from host memory."""
    return max((n if chunk is None else min(n, chunk)) - width, 0) + min(n + answer, width) + page + ceil(loads, page)


@rule("SG-SCHED-ADMIT.BUDGET", Role.ADMIT, source(POLICY, "_select_prefill_admission", spec="section 9"))
def admission(ask: AdmissionCandidate) -> Decision:
    """Return the tokens of a request's first chunk, 0 if the token budget is used up, None if slots are missing.
    Prompt, answer and a page must be fewer than the slots that are free or evictable and not promised to running
    requests; the same holds for windows. A prompt beyond the rest of the chunk is cut to whole pages, or waits if
    SG-SCHED-CUT-WAITS decides so."""
    because = {"n": ask.extend_len, "hit": ask.prefix_len, "free": int(ask.rem_total_tokens)}
    needed = ceil(ask.extend_len, ask.page_size)
    limit = ask.rem_chunk_tokens
    answer = min(ask.max_new_tokens, CLIP)
    slots = ask.extend_len + ask.host_hit_length + answer + ask.page_size
    if slots >= ask.rem_total_tokens:
        return Decision(None, {**because, "needed": slots + 1, "answer": answer})
    if ask.rem_swa_tokens is not None:
        loads = ask.swa_host_hit_length
        width = ask.swa_retain_window
        need = window_need(needed, answer, chunk=ask.rem_chunk_tokens, width=width, page=ask.page_size, loads=loads)
        if need >= ask.rem_swa_tokens:
            head = window_need(0, answer, chunk=None, width=width, page=ask.page_size, loads=loads)
            cap = 0
            if need >= ask.size_swa:
                cap = max(0, (int(ask.rem_swa_tokens) - head) // ask.page_size * ask.page_size)
            if limit is None or not cap:
                return Decision(None, {**because, "free": int(ask.rem_swa_tokens), "window": need + 1})
            limit = min(limit, cap)
    if limit is None:
        return Decision(0 if not ask.is_first and needed >= ask.rem_input_tokens else ask.extend_len, because)
    if needed <= limit or ask.waits_for_chunked_req:
        return Decision(ask.extend_len if needed <= limit else 0, because)
    end = (ask.prefix_len + limit // ask.page_size * ask.page_size) // ask.page_size * ask.page_size
    return Decision(max(0, end - ask.prefix_len), because)


@rule("SG-SCHED-CUT-WAITS.SHORTEST", Role.ADMIT, source(POLICY, "_select_prefill_admission", spec="section 9"))
def cut_waits_if_shortest(policy: str, continuing: bool, in_step: bool) -> bool:
    """True if a prompt that would be cut waits for another one that is cut: with shortest-prefill-first, if the other
    one is ``continuing``. Other prompts are cut in the same step if the window pool limits them and the chunk has room.
    The scheduler remembers the last of them; the others are answered after their beginning."""
    return policy == SHORTEST and continuing


@rule("SG-SCHED-CHUNK.SHARE", Role.PLAN, source(POLICY, "shortest_prefill_chunk_limit", spec="section 9"))
def chunk_share(left: int, waiting: Sequence[WaitingRequest], chunk: int, page: int) -> int:
    """Return the most tokens of a chunk. With shortest-prefill-first it leaves room for the first waiting requests that
    have less to evaluate than its own request, and keeps at least a page for itself."""
    shared = 0
    for one in waiting if chunk >= 2 * page else ():
        work = max(1, one.seqlen - one.num_matched_prefix_tokens)
        if work >= left or shared + (pages := ceil(work, page)) > chunk - page:
            break
        shared += pages
    return (chunk - shared) // page * page if shared else chunk


@rule("SG-SCHED-FULL.STAYS", Role.MEMORY,
      source("managers/scheduler.py", "_get_new_batch_prefill_raw", spec="section 9"))
def stays_full(windows: bool) -> bool:
    """True if no further request is tried after one found no slots, until a running request leaves or is retracted. A
    model with windows tries again in each step."""
    return not windows


@rule("SG-SCHED-FULL.ALWAYS", Role.MEMORY,
      source("managers/scheduler.py", "_get_new_batch_prefill_raw", OLD, spec="section 9"), until="#24359")
def stays_always(windows: bool) -> bool:
    """True if no further request is tried after one found no slots, until a running request leaves or is retracted: for
    every model, also with windows."""
    return True


@rule("SG-SCHED-SPENT.STOPS", Role.MEMORY,
      source("managers/scheduler.py", "_get_new_batch_prefill_raw", spec="section 9"))
def stops_when_spent() -> bool:
    """True if a step whose tokens are used up tries no waiting request. A chunk of a long prompt can use them up."""
    return True


@rule("SG-SCHED-SPENT.TRIES", Role.MEMORY,
      source("managers/scheduler.py", "_get_new_batch_prefill_raw", "0.5.22", spec="section 9"), until="0.5.23")
def tries_when_spent() -> bool:
    """Return False: the first waiting request is tried even if the tokens of the step are used up. It does not start,
    but its prefix becomes recent."""
    return False


@rule("SG-SCHED-ROWS.HELD", Role.MEMORY,
      source("managers/scheduler.py", "get_num_allocatable_reqs", spec="section 9"))
def counts_held_rows(held: int) -> int:
    """Return the rows that admitted requests may use besides free ones: those that they hold already. A prompt that
    continues holds one."""
    return held


@rule("SG-SCHED-ROWS.FREE", Role.MEMORY,
      source("managers/scheduler.py", "get_num_allocatable_reqs", "0.5.22", spec="section 9"), until="0.5.23")
def counts_free_rows(held: int) -> int:
    """Return the rows that admitted requests may use besides free ones: none, although a prompt that continues needs no
    further row."""
    return 0


@rule("SG-SCHED-FULL.TRIES", Role.MEMORY,
      source("managers/scheduler.py", "_get_new_batch_prefill_raw", spec="section 9"))
def tries_each_step(windows: bool) -> bool:
    """Return False: the recorder's loop tries waiting requests in each step, even after one found no slots."""
    return False


@rule("SG-SCHED-CHUNK.NEXT", Role.PLAN, source(POLICY, "add_chunked_req", spec="section 9"))
def next_chunk(chunk: int, total: float, window: float | None, page: int) -> int:
    """Return the tokens of the next chunk of a prompt, 0 if it waits: as many as there is room for. Without room a
    prompt is evaluated anyway, because only its end frees slots; with windows it waits."""
    fits = min(chunk, int(total)) if window is None else min(chunk, int(total), int(window) - page)
    return fits if fits > 0 else 0 if window is not None else chunk
