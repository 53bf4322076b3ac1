"""Rules that a release had before a pull request mended them, and repairs of open faults."""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.rule import Role, rule
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import MAMBA, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules import BATCH, MIDDLE, OLD, POLICY, STATES, WINDOW, source
from cachesim.engines.sglang.rules.request import RequestWindow
from cachesim.engines.shared.rule_set import instead_of

BACKEND = "layers/attention/hybrid_linear_attn_backend.py"


class EndingRequest(NamedTuple):
    """A request that ends: ``n`` computed tokens, tokens of its prompt, those up to the end of its answer, those that
    it has ``published``, and whether --strip-thinking-cache ``strips`` its answer."""

    n: int
    prompt: int
    stop: int
    published: int
    strips: bool


class TrackedState(NamedTuple):
    """A tracked state, that after ``length`` of the ``n`` tokens that a step evaluates of a request. ``flat``,
    ``chunks``: tokens and whole chunks of the requests before it; ``grid`` of the kernel."""

    length: int
    n: int
    flat: int
    chunks: int
    grid: int


@rule("SG-FINISH-OWN.PROMPT", Role.MEMORY, source(BATCH, "Req.owned_kv_len", spec="section 7"))
def owned_prompt(ask: EndingRequest) -> int:
    """With --strip-thinking-cache a request with reasoning leaves only its prompt in the tree, and frees the slots of
    all further tokens, even of those that it has published since a retraction. Without, it leaves the tokens up to the
    end of its answer, no draft tokens behind it. Return the tokens that it leaves."""
    return min(ask.n, ask.prompt if ask.strips else ask.stop)


@rule("SG-FINISH-OWN.RUN", Role.MEMORY,
      source(BATCH, "Req.effective_kv_committed_len", MIDDLE, spec="section 7"), until="0.5.23")
def owned_run(ask: EndingRequest) -> int:
    """As SG-FINISH-OWN.PROMPT, but a request leaves all right draft tokens of its last step, those behind its answer,
    too. Return the tokens that it leaves."""
    return min(ask.n, ask.prompt) if ask.strips else ask.n


@rule("SG-FINISH-OWN.ALL", Role.MEMORY, source("mem_cache/common.py", "release_kv_cache", OLD, spec="section 7"))
def owned_all(ask: EndingRequest) -> int:
    """A request leaves all of its tokens; the release has no --strip-thinking-cache. Return their number."""
    return ask.n


@rule("SG-FINISH-OWN.PUBLISHED", Role.MEMORY, instead_of(owned_prompt))
def owned_published(ask: EndingRequest) -> int:
    """With --strip-thinking-cache a request with reasoning leaves its prompt, or all that it has published, if that is
    more. Return the tokens that it leaves."""
    return max(owned_prompt(ask), ask.published)


@rule("SG-SCHED-RESERVE.CHUNK", Role.ADMIT, source(POLICY, "_update_prefill_budget", spec="section 9"))
def reserve_chunk(rest: int, answer: int) -> int:
    """A prompt with ``rest`` tokens behind its chunk reserves slots for that chunk only, its last chunk those of the
    answer, too. Return the tokens that it reserves beyond its chunk."""
    return 0 if rest else answer


@rule("SG-SCHED-RESERVE.REST", Role.ADMIT, instead_of(reserve_chunk))
def reserve_rest(rest: int, answer: int) -> int:
    """Each chunk of a prompt reserves slots for the rest of the prompt and for the answer. Return the tokens that it
    reserves beyond its chunk."""
    return rest + answer


@rule("SG-STATE-TAKE.OWN", Role.MEMORY, source(BACKEND, "_init_track_ssm_indices", spec="section 14"))
def taken_at_own(ask: TrackedState) -> int:
    """A tracked state is the state after the last of its own request's tokens up to it. Return the number of tokens of
    the request in the step."""
    return ask.length


@rule("SG-STATE-TAKE.FLAT", Role.MEMORY, source(BACKEND, "_init_track_ssm_indices", spec="section 14"), until="#37836")
def taken_on_flat_grid(ask: TrackedState) -> int:
    """Mamba-2 kernels keep states at multiples of G tokens of the whole batch, and their index counts whole chunks of
    each request: of a request that starts off the grid, an earlier state is taken. Return the tokens (0 if the state
    belongs to another request)."""
    return ask.length if ask.length == ask.n else max(0, (ask.chunks + ask.length // ask.grid) * ask.grid - ask.flat)


@rule("SG-MATCH-COPY-UNLOCK.MARK", Role.MEMORY, source(STATES, "finalize_match_result", spec="S-MAM-1"))
def unlock_to_mark(mark: int | None) -> int | None:
    """After a state is evicted for a copy, the matched path is unlocked as far as it was locked. Return the boundary
    of its window."""
    return mark


@rule("SG-MATCH-COPY-UNLOCK.ROOT", Role.MEMORY, source(STATES, "finalize_match_result", spec="S-MAM-1"), until="#27038")
def unlock_to_root(mark: int | None) -> int | None:
    """After a state is evicted for a copy, the windows of the matched path are unlocked to the root, those that other
    requests locked, too. Return None for no boundary."""
    return None


@rule("SG-MATCH-ACCEPT.CARRY", Role.MEMORY,
      source("mem_cache/swa_radix_cache.py", "_match_prefix_helper", "0.5.7", spec="S-SWA-1"),
      until="#17061")  # fmt: skip
def accept_unreset(run: int, node: UnifiedTreeNode, parts: tuple[int, ...], window: int) -> tuple[int, bool]:
    """A tombstone ends the run of live tokens only if the run has W of them; a shorter run goes on behind it. Return
    the run, and whether the node is a stop."""
    if node.value[SWA] is None and SWA in parts:
        return run if run < window else 0, False
    run += len(node.key)
    return run, (SWA not in parts or run >= window) and (MAMBA not in parts or node.value[MAMBA] is not None)


@rule("SG-WINDOW-FRONTIER.BARE", Role.MEMORY,
      source(WINDOW, "free_out_of_window_slots", spec="S-SWA-6"), until="#29860")
def frontier_without_page(ask: RequestWindow) -> tuple[int, int]:
    """With SGLANG_OPT_SWA_EVICT_DROP_PAGE_MARGIN a request gives back whole pages before its window, even if a page is
    larger than the window. Return first and last position."""
    start = max(ask.evicted, ask.protected)
    return start, max(start, ask.pos + 1 - ask.window) // ask.page * ask.page
