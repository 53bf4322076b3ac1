"""Whole conversations with a server. The tests of this folder and those below say what they must lead to."""

from __future__ import annotations

from collections.abc import Callable

from cachesim.engines.base import Request
from cachesim.engines.vllm import ENGINE
from cachesim.engines.vllm.server import Server
from cachesim.events import Log

P, Q = tuple(range(100, 140)), tuple(range(200, 220))


def server(model: str = "A", mode: str = "none", **flags: object) -> Server:
    options = {"block_size": 8, "max_num_batched_tokens": 32, **flags}
    return ENGINE.start(ENGINE.rules("vllm@0.33.0"), model, options, mode, Log())


def evicted() -> Server:
    """A pool of seven blocks: the blocks of a conversation are evicted from its end."""
    srv = server(num_gpu_blocks=8)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    return srv


def preempted() -> Server:
    """Two requests whose answers do not fit into the pool together."""
    srv = server(num_gpu_blocks=9)
    srv.submit(Request(P[:30], 20))
    srv.submit(Request(Q, 20))
    while srv.working:
        srv.iterate()
    return srv


def window() -> Server:
    """Blocks that left the window are freed."""
    srv = server("W8 A")
    srv.complete(Request(P, 3))
    srv.complete(Request((*P, *Q), 2))
    return srv


def states() -> Server:
    """A recurrent state of the last complete block is kept."""
    srv = server("GA")
    srv.complete(Request(P, 3))
    srv.complete(Request((*P, *Q), 2))
    return srv


def drafts() -> Server:
    srv = server("A", speculative_method="ngram", num_speculative_tokens=3)
    srv.complete(Request(P, 12, draft_else=2))
    return srv


def offloaded() -> Server:
    """Chunks are stored in CPU memory, and loaded again."""
    srv = server(num_gpu_blocks=8, num_cpu_chunks=8, async_scheduling=False)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    return srv


def checkpoints() -> Server:
    """States are kept inside chunks, on a grid of four tokens; prompts part inside a block."""
    srv = server("GA", mamba_block_size=16, prefix_match_unit=4, mamba_prefill_checkpoint_alignment=4,
                 enable_mamba_shared_prefix_checkpoint=True)  # fmt: skip
    srv.complete(Request(P, 3))
    srv.complete(Request((*P, *Q), 2))
    srv.complete(Request((*P[:30], *Q), 2))
    srv.complete(Request((*P[:30], *Q[:14]), 2))
    return srv


def drafted_states() -> Server:
    """Drafts pass the ends of blocks of states: scratch blocks hold the states of the drafted tokens."""
    srv = server("GA", speculative_method="ngram", num_speculative_tokens=3)
    srv.complete(Request(P[:13], 10, draft_else=2))
    srv.complete(Request((*P[:13], *Q), 6, draft_else=3))
    return srv


def offloaded_states() -> Server:
    """States and rows of a hybrid are stored in CPU memory, and loaded again."""
    srv = server("GA", num_gpu_blocks=11, num_cpu_chunks=16)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    return srv


def offloaded_window() -> Server:
    """The chunks of a window are stored where prompts end."""
    srv = server("W8 A", num_gpu_blocks=16, num_cpu_chunks=16)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    return srv


def urgent() -> Server:
    """A request of higher priority takes the blocks of another one, which starts again."""
    srv = server(num_gpu_blocks=9, scheduling_policy="priority")
    srv.submit(Request(P[:30], 20, extra={"priority": 1}))
    srv.iterate()
    srv.submit(Request(Q, 20))
    while srv.working:
        srv.iterate()
    return srv


CONVERSATIONS: tuple[Callable[[], Server], ...] = (
    evicted, preempted, window, states, drafts, offloaded, checkpoints, drafted_states, offloaded_states,
    offloaded_window, urgent,
)  # fmt: skip
