"""Rules that a release had before a pull request mended them, and repairs of open faults."""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.rule import Role, rule
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import MAMBA, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules import BATCH, MIDDLE, OLD, POLICY, STATES, WINDOW, source
from cachesim.engines.sglang.rules.host import state_as_matched
from cachesim.engines.sglang.rules.request import RequestWindow
from cachesim.engines.sglang.rules.schedule import cut_waits_if_shortest
from cachesim.engines.shared.rule_set import instead_of

BACKEND = "layers/attention/hybrid_linear_attn_backend.py"


class EndingRequest(NamedTuple):
    """A request that ends."""

    kv_committed_len: int        # computed tokens
    num_input_tokens: int        # tokens of its prompt
    len_through_stop: int        # tokens up to the end of its answer
    cache_protected_len: int     # tokens that it has published
    strip_thinking_cache: bool   # --strip-thinking-cache removes its answer


class TrackedState(NamedTuple):
    """A tracked state of a request in a step."""

    len_to_track: int           # tokens of the step after which it is the state
    extend_seq_len: int         # tokens that the step evaluates of the request
    query_start_loc: int        # tokens of the requests before it
    track_ssm_src_offset: int   # whole chunks of the requests before it
    state_chunk_size: int       # grid of the kernel [tokens]


@rule("SG-FINISH-OWN.PROMPT", Role.MEMORY, source(BATCH, "Req.owned_kv_len", spec="section 7"))
def owned_prompt(ask: EndingRequest) -> int:
    """Return the tokens that a finished request leaves in the tree. With --strip-thinking-cache a request with
    reasoning leaves only its prompt and frees all further slots, even those published since a retraction. Otherwise it
    leaves the tokens up to the end of its answer, without draft tokens after it."""
    return min(ask.kv_committed_len, ask.num_input_tokens if ask.strip_thinking_cache else ask.len_through_stop)


@rule("SG-FINISH-OWN.RUN", Role.MEMORY,
      source(BATCH, "Req.effective_kv_committed_len", MIDDLE, spec="section 7"), until="#35694")
def owned_run(ask: EndingRequest) -> int:
    """Return the tokens that a finished request leaves in the tree: like SG-FINISH-OWN.PROMPT, but with all accepted
    draft tokens of its last step, including those after its answer."""
    return min(ask.kv_committed_len, ask.num_input_tokens) if ask.strip_thinking_cache else ask.kv_committed_len


@rule("SG-FINISH-OWN.ALL", Role.MEMORY,
      source("mem_cache/common.py", "release_kv_cache", OLD, spec="section 7"), until="#23315")
def owned_all(ask: EndingRequest) -> int:
    """Return the tokens that a finished request leaves in the tree: all of them. The release has no
    --strip-thinking-cache."""
    return ask.kv_committed_len


@rule("SG-FINISH-OWN.PUBLISHED", Role.MEMORY, instead_of(owned_prompt))
def owned_published(ask: EndingRequest) -> int:
    """Return the tokens that a finished request leaves in the tree. With --strip-thinking-cache a request with
    reasoning leaves its prompt, or all that it has published if that is more."""
    return max(owned_prompt(ask), ask.cache_protected_len)


@rule("SG-SCHED-RESERVE.CHUNK", Role.ADMIT, source(POLICY, "_update_prefill_budget", spec="section 9"))
def reserve_chunk(rest: int, answer: int) -> int:
    """Return the slots [tokens] that a chunk reserves beyond itself: none if ``rest`` tokens of the prompt follow it,
    those of the answer if it is the last chunk."""
    return 0 if rest else answer


@rule("SG-SCHED-RESERVE.REST", Role.ADMIT, instead_of(reserve_chunk))
def reserve_rest(rest: int, answer: int) -> int:
    """Return the slots [tokens] that a chunk reserves beyond itself: those for the rest of the prompt and for the
    answer."""
    return rest + answer


@rule("SG-STATE-PLACE.LAUNCHED", Role.MEMORY, source("managers/scheduler_components/batch_result_processor.py",
                                                     "_handle_finish_state_updated_req", spec="not named"))  # fmt: skip
def place_after_launch(launched: bool, reused: bool) -> bool:
    """True if a request takes the other of its places for the next tracked state: if the last launched decode step of
    the request tracks one. No decode step is processed before the first one is launched, so that a state which the
    first one tracks keeps its place, and the next one overwrites it."""
    return launched


@rule("SG-STATE-PLACE.PROCESSED", Role.MEMORY, source("managers/scheduler_output_processor_mixin.py",
                                                      "_mamba_prefix_cache_update", OLD, spec="not named"),
      until="#29792")  # fmt: skip
def place_after_result(launched: bool, reused: bool) -> bool:
    """True if a request takes the other of its places for the next tracked state: if the last processed decode step has
    tracked a state in the place that is next."""
    return reused


@rule("SG-STATE-PLACE.ALWAYS", Role.MEMORY, instead_of(place_after_launch))
def place_after_each(launched: bool, reused: bool) -> bool:
    """True if a request takes the other of its places for the next tracked state: if the last launched decode step of
    the request tracks one, or if the last processed one has tracked a state in the place that is next."""
    return launched or reused


@rule("SG-SCHED-CUT-WAITS.ALWAYS", Role.ADMIT, instead_of(cut_waits_if_shortest))
def cut_waits(policy: str, continuing: bool, in_step: bool) -> bool:
    """True if a prompt that would be cut waits for another one that is cut: always, whether that one is ``continuing``
    or cut ``in_step``."""
    return continuing or in_step


@rule("SG-HOST-LOAD-FAILED.AT-PREFIX", Role.MEMORY, instead_of(state_as_matched))
def state_at_prefix() -> bool:
    """True if a request whose load was declined gets the state at the end of the prefix that it has on the device:
    always."""
    return True


@rule("SG-STATE-TAKE.OWN", Role.MEMORY, source(BACKEND, "_init_track_ssm_indices", spec="section 14"))
def taken_at_own(ask: TrackedState) -> int:
    """Return the tokens of the request in the step after which the tracked state is taken: those up to its own tracked
    length."""
    return ask.len_to_track


@rule("SG-STATE-TAKE.FLAT", Role.MEMORY, source(BACKEND, "_init_track_ssm_indices", spec="section 14"), until="#37836")
def taken_on_flat_grid(ask: TrackedState) -> int:
    """Return the tokens of the request after which the tracked state is taken, 0 if the state belongs to another
    request. Mamba-2 kernels keep states at multiples of G tokens of the whole batch. Their index counts whole chunks of
    each request, so a request that starts off the grid gets an earlier state."""
    if ask.len_to_track == ask.extend_seq_len:
        return ask.len_to_track
    chunks = ask.track_ssm_src_offset + ask.len_to_track // ask.state_chunk_size
    return max(0, chunks * ask.state_chunk_size - ask.query_start_loc)


@rule("SG-MATCH-COPY-UNLOCK.MARK", Role.MEMORY, source(STATES, "finalize_match_result", spec="S-MAM-1"))
def unlock_to_mark(mark: int | None) -> int | None:
    """Return the position up to which the window of a matched path is unlocked after a state is evicted for a copy: as
    far as it was locked."""
    return mark


@rule("SG-MATCH-COPY-UNLOCK.ROOT", Role.MEMORY, source(STATES, "finalize_match_result", spec="S-MAM-1"), until="#27038")
def unlock_to_root(mark: int | None) -> int | None:
    """Return None: after a state is evicted for a copy, the windows of the matched path are unlocked up to the root,
    including those that other requests locked."""
    return None


@rule("SG-MATCH-ACCEPT.CARRY", Role.MEMORY,
      source("mem_cache/swa_radix_cache.py", "_match_prefix_helper", "0.5.7", spec="S-SWA-1"),
      until="#17061")  # fmt: skip
def accept_unreset(run: int, node: UnifiedTreeNode, parts: tuple[int, ...], window: int) -> tuple[int, bool]:
    """Return the run of live tokens up to the end of a node, and whether a match can end there. A tombstone ends the
    run only if the run has W tokens; a shorter run continues after it."""
    if node.value[SWA] is None and SWA in parts:
        return run if run < window else 0, False
    run += len(node.key)
    return run, (SWA not in parts or run >= window) and (MAMBA not in parts or node.value[MAMBA] is not None)


@rule("SG-WINDOW-FRONTIER.BARE", Role.MEMORY,
      source(WINDOW, "free_out_of_window_slots", spec="S-SWA-6"), until="#29860")
def frontier_without_page(ask: RequestWindow) -> tuple[int, int]:
    """Return first and last position of the window slots that a request gives back. With
    SGLANG_OPT_SWA_EVICT_DROP_PAGE_MARGIN it gives back whole pages before its window, even if a page is larger than the
    window."""
    start = max(ask.swa_evicted_seqlen, ask.cache_protected_len)
    return start, max(start, ask.pre_len + 1 - ask.sliding_window_size) // ask.page_size * ask.page_size
