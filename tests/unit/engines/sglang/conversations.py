"""Whole conversations with a server. The tests of this folder and those below say what they must lead to."""

from __future__ import annotations

from collections.abc import Callable

from cachesim.engines.base import Request
from cachesim.engines.sglang import ENGINE
from cachesim.engines.sglang.events import SchedulerStep
from cachesim.engines.sglang.server import Server
from cachesim.events import Event, Launch, Log, Release
from tests.unit.engines.restore_points import Reported

P, Q = tuple(range(100, 140)), tuple(range(200, 220))
STEPS = SchedulerStep, Launch, Release


def server(model: str = "A", listens: bool = False, **flags: object) -> Server:
    log = Log()
    if listens:                  # restore points are reported only to a listener
        log.listener = Reported()
    return ENGINE.start(ENGINE.rules("sglang@0.5.23"), model, {"chunked_prefill_size": 16, **flags}, "none", log)


def evicted(listens: bool = False) -> Server:
    """The pool is too small for two conversations: leaves are evicted, a part of the first is found again."""
    srv = server("A", listens, max_total_tokens=72)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    return srv


def window(listens: bool = False) -> Server:
    """Nodes are split where their rows left the window."""
    srv = server("W8 A", listens)
    srv.complete(Request(P, 3))
    srv.complete(Request((*P[:30], *Q), 2))
    return srv


def states(listens: bool = False) -> Server:
    """A state is kept at the end of a prompt; a branch before it starts from nothing."""
    srv = server("GA", listens, mamba_track_interval=16, state_grid=16)
    srv.complete(Request(P, 3))
    srv.complete(Request((*P, *Q), 2))
    srv.complete(Request((*P[:30], *Q), 2))
    return srv


def paged(listens: bool = False) -> Server:
    srv = server("A", listens, page_size=4)
    srv.complete(Request(P[:38], 3))
    srv.complete(Request((*P[:30], *Q), 2))
    return srv


def on_host(listens: bool = False) -> Server:
    """Evicted nodes stay in host memory, and are loaded again."""
    srv = server("A", listens, max_total_tokens=72, enable_hierarchical_cache=True, hicache_ratio=2.0)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    return srv


def retracted(listens: bool = False) -> Server:
    """The answers of two requests do not fit together: one is put back into the queue."""
    srv = server("A", listens, max_total_tokens=64, new_token_ratio=0.0)
    srv.submit(Request(P[:20], 20))
    srv.submit(Request(Q, 20))
    while srv.working:
        srv.iterate()
    return srv


def is_step(event: Event) -> bool:
    """True for the events of the scheduler, False for those of the tree."""
    return isinstance(event, STEPS)


CONVERSATIONS: tuple[Callable[..., Server], ...] = (evicted, window, states, paged, on_host, retracted)
