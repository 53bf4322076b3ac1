"""Whole conversations with a server: each uses another feature.

``python -m tests.unit.engines.sglang.conversations`` rewrites their numbers (conversation_numbers.txt).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from cachesim.engines.base import Request
from cachesim.engines.sglang import ENGINE
from cachesim.engines.sglang.server import Server
from cachesim.events import Log
from tests.unit.engines.feature_numbers import numbers_line, write
from tests.unit.engines.restore_points import Reported

FILE = Path(__file__).with_name("conversation_numbers.txt")
P, Q = tuple(range(100, 140)), tuple(range(200, 220))


def server(model: str = "A", mode: str = "provenance", release: str = "0.5.23", **flags: object) -> Server:
    log = Log()
    log.listener = Reported()                  # restore points are reported only to a listener
    return ENGINE.start(ENGINE.rules(f"sglang@{release}"), model, {"chunked_prefill_size": 16, **flags}, mode, log)


def evicted() -> Server:
    """The pool is too small for two conversations: leaves are evicted, a part of the first is found again."""
    srv = server("A", max_total_tokens=72)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    return srv


def window() -> Server:
    """Nodes are split where their rows left the window."""
    srv = server("W8 A")
    srv.complete(Request(P, 3))
    srv.complete(Request((*P[:30], *Q), 2))
    return srv


def states() -> Server:
    """A state is kept at the end of a prompt; a branch before it starts from nothing."""
    srv = server("GA", mamba_track_interval=16, state_grid=16)
    srv.complete(Request(P, 3))
    srv.complete(Request((*P, *Q), 2))
    srv.complete(Request((*P[:30], *Q), 2))
    return srv


def paged() -> Server:
    srv = server("A", page_size=4)
    srv.complete(Request(P[:38], 3))
    srv.complete(Request((*P[:30], *Q), 2))
    return srv


def on_host() -> Server:
    """Evicted nodes stay in host memory, and are loaded again."""
    srv = server("A", max_total_tokens=72, enable_hierarchical_cache=True, hicache_ratio=2.0)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    return srv


def retracted() -> Server:
    """The answers of two requests do not fit together: one is put back into the queue."""
    srv = server("A", max_total_tokens=64, new_token_ratio=0.0)
    srv.submit(Request(P[:20], 20))
    srv.submit(Request(Q, 20))
    while srv.working:
        srv.iterate()
    return srv


def window_on_host() -> Server:
    """Windows are copied to host memory with their nodes, and loaded where a prompt ends or parts."""
    srv = server("W8 A", max_total_tokens=72, enable_hierarchical_cache=True, hicache_ratio=2.0)
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    srv.complete(Request((*P[:30], *Q), 2))
    return srv


def states_on_host() -> Server:
    """States are copied to host memory, and loaded before the tokens after them are evaluated."""
    srv = server("GA", max_total_tokens=72, max_mamba_cache_size=5, mamba_track_interval=16, state_grid=16,
                 enable_hierarchical_cache=True, hicache_ratio=2.0)  # fmt: skip
    srv.complete(Request(P, 3))
    srv.complete(Request((*Q, *P[:20]), 2))
    srv.complete(Request(P, 2))
    srv.complete(Request((*P[:30], *Q), 2))
    return srv


def tracked() -> Server:
    """A second state follows a request on a grid of eight tokens, and is given to the tree."""
    srv = server("GA", mamba_radix_cache_strategy="extra_buffer", mamba_track_interval=8, state_grid=8)
    srv.complete(Request(P, 12))
    srv.complete(Request((*P[:30], *Q), 2))
    return srv


def drafted() -> Server:
    """With EAGLE prefixes are pairs of tokens, and an answer grows by several of them."""
    srv = server("W8 A", speculative_algorithm="EAGLE")
    srv.complete(Request(P, 9, draft_else=2))
    srv.complete(Request((*P, *Q), 6, draft_else=3))
    srv.complete(Request((*P[:30], *Q), 3, draft_else=1))
    return srv


def cancelled() -> Server:
    """Without overlap, in the order of the tree: a client leaves while its answer grows."""
    srv = server("GA", disable_overlap_schedule=True, schedule_policy="dfs-weight")
    for requests in ((Request(P, 5), Request((*P[:30], *Q), 5)), (Request(P, 2), Request(Q, 20, cancel_at=24))):
        for request in requests:
            srv.submit(request)
        while srv.working:
            srv.iterate()
    return srv


def together(srv: Server, *requests: Request) -> None:
    """Send requests at once, and let them end."""
    for request in requests:
        srv.submit(request)
    while srv.working:
        srv.iterate()


def queued() -> Server:
    """Two requests run at a time; of those that wait, one with a longer prefix in the tree comes first, and one whose
    prefix another waiting request is about to evaluate comes later."""
    srv = server("A", page_size=4, max_running_requests=2, schedule_policy="lpm", in_batch_threshold=8)
    srv.complete(Request(Q, 2))
    together(srv, Request(P[:30], 3), Request((*Q, *P[:9]), 4), Request(P, 2), Request((*Q[:9], *P), 3),
             Request(P[:33], 2))  # fmt: skip
    return srv


def left() -> Server:
    """Clients leave: one in its prompt, one in its answer, one while it waits."""
    srv = server("W8 A", max_running_requests=2)
    together(srv, Request(P, 5, cancel_at=16), Request(Q, 9, cancel_at=22), Request(P[:9], 2, cancel_at=-1),
             Request((*P, *Q), 2))  # fmt: skip
    return srv


def crowded_window() -> Server:
    """Nodes are copied to a small host memory when they are evicted."""
    srv = server("W8 A", max_total_tokens=72, swa_tokens=48, enable_hierarchical_cache=True, hicache_ratio=1.0,
                 hicache_write_policy="write_back")  # fmt: skip
    for request in (Request(P, 3), Request((*Q, *P[:20]), 2), Request(P, 2), Request((*P[:30], *Q), 2)):
        srv.complete(request)
    together(srv, Request(P[:33], 2), Request(Q, 4), Request((*Q, *P[:25]), 2))
    return srv


def crowded_states() -> Server:
    """Nodes are copied to a small host memory at their second use; a path keeps at most two states."""
    srv = server("GA", max_total_tokens=88, max_mamba_cache_size=9, mamba_track_interval=8, state_grid=8,
                 mamba_max_states_per_path=2, mamba_radix_cache_strategy="extra_buffer", enable_hierarchical_cache=True,
                 hicache_ratio=1.0, hicache_write_policy="write_through_selective")  # fmt: skip
    for request in (Request(P, 9), Request((*P, *Q), 2), Request(P[:33], 2), Request((*P[:30], *Q), 2), Request(P, 3)):
        srv.complete(request)
    together(srv, Request(P[::-1], 2), Request(Q, 4), Request(P[:38], 2))
    return srv


def retracted_drafts() -> Server:
    """Answers that grow by several tokens do not fit together."""
    srv = server("W8 A", max_total_tokens=64, new_token_ratio=0.0, speculative_algorithm="EAGLE",
                 swa_eviction_interval=4)  # fmt: skip
    together(srv, Request(P[:20], 20, draft_else=1), Request(Q, 20, draft_else=2))
    return srv


def lazy() -> Server:
    """A second slot of a state is taken only where it is needed; one of the answers is put back."""
    srv = server("GA", max_total_tokens=72, new_token_ratio=0.0, max_mamba_cache_size=9, state_grid=8,
                 mamba_radix_cache_strategy="extra_buffer_lazy", mamba_track_interval=8,
                 radix_eviction_policy="slru")  # fmt: skip
    together(srv, Request(P[:20], 20), Request(Q, 20), Request(P[:20], 3))
    srv.complete(Request((*P[:20], *Q), 2))
    return srv


CONVERSATIONS: dict[str, Callable[[], Server]] = {conversation.__name__: conversation for conversation in (
    evicted, window, states, paged, on_host, retracted, window_on_host, states_on_host, tracked, drafted, cancelled,
    queued, left, crowded_window, crowded_states, retracted_drafts, lazy,
)}  # fmt: skip


S, T = tuple(range(300, 330)), tuple(range(400, 436))
POOL = {"max_total_tokens": 96}
HOST = {"max_total_tokens": 88, "enable_hierarchical_cache": True, "hicache_ratio": 2.0}
STATES = {"mamba_track_interval": 8, "state_grid": 8}
NO_BUFFER = {"mamba_radix_cache_strategy": "no_buffer", "disable_overlap_schedule": True}
EXTRA, LAZY = ({**STATES, "mamba_radix_cache_strategy": name} for name in ("extra_buffer", "extra_buffer_lazy"))
EAGLE, NGRAM = {"speculative_algorithm": "EAGLE"}, {"speculative_algorithm": "NGRAM"}
BACK, SELECTIVE = ({**HOST, "hicache_write_policy": name} for name in ("write_back", "write_through_selective"))
SERVERS: tuple[tuple[str, str, dict[str, object]], ...] = (
    ("0.5.23", "A", POOL), ("0.5.23", "A", {**HOST, "page_size": 4}), ("0.5.23", "A", {**SELECTIVE, **NGRAM}),
    ("0.5.23", "A", {**BACK, "hicache_ratio": 1.0, "schedule_policy": "lpm", "in_batch_threshold": 8}),
    ("0.5.20", "A", HOST), ("0.5.9", "A", POOL), ("0.5.23-repaired", "A", {**HOST, "hicache_ratio": 1.0}),
    ("0.5.23", "W8 A", {**POOL, "swa_tokens": 64}), ("0.5.23", "W8 A", {**HOST, **EAGLE}),
    ("0.5.23", "W8 A", {**BACK, "swa_tokens": 64, "page_size": 4}), ("0.5.23-repaired", "W8 A", SELECTIVE),
    ("0.5.9", "W8 A", POOL), ("0.5.23", "GA", NO_BUFFER), ("0.5.23", "GA", {**NO_BUFFER, **NGRAM}),
    ("0.5.23", "GA", {**EXTRA, "mamba_max_states_per_path": 2}), ("0.5.23", "GA", {**EXTRA, **NGRAM}),
    ("0.5.23", "GA", {**LAZY, **POOL, "max_mamba_cache_size": 9}),
    ("0.5.23", "GA", {**EXTRA, **HOST, "max_mamba_cache_size": 12}),
    ("0.5.23", "GA", {**NO_BUFFER, **HOST, "max_mamba_cache_size": 6}),
    ("0.5.23", "GA", {**EXTRA, **BACK, "max_mamba_cache_size": 12, "hicache_ratio": 1.0}),
    ("0.5.23-repaired", "GA", {**EXTRA, **HOST, "max_mamba_cache_size": 12, "hicache_ratio": 1.0}),
    ("0.5.9", "GA", EXTRA), ("0.5.20", "SA", {**EXTRA, "max_running_requests": 2}), ("0.5.23", "SA", EXTRA),
    ("0.5.23", "W8 GA", {**EXTRA, **HOST, "max_mamba_cache_size": 12}),
    ("0.5.23", "A", {"schedule_policy": "shortest-prefill-first", "max_running_requests": 3}),
    ("0.5.23", "W8 A", {"schedule_policy": "dfs-weight", "radix_eviction_policy": "slru", **POOL}),
    ("0.5.23", "A", {**POOL, "new_token_ratio": 0.0, "schedule_policy": "lof", "radix_eviction_policy": "lfu"}),
)  # fmt: skip


def crowd(release: str, model: str, flags: dict[str, object]) -> Server:
    """Conversations with common beginnings one after another, then several at once, of which a client leaves one."""
    srv = server(model, release=release, **flags)
    for prompt, n in ((P, 3), ((*Q, *P[:20]), 9), (P, 2), ((*P[:30], *Q), 2), (S, 12), (P[:36], 3), ((*Q, *S), 2)):
        srv.complete(Request(prompt, n, draft_else=2))
    together(srv, *(Request(prompt, n, draft_else=1, cancel_at=at) for prompt, n, at in (
        (P[:38], 12, None), (T, 9, None), ((*P[:20], *T[:20]), 4, 30), (P[:38], 6, None))))
    together(srv, Request((*P, *S[:20]), 3), Request((*T, *Q[:9]), 3))
    return srv


for _release, _model, _flags in SERVERS:
    _name = " ".join(["crowd", _release, _model, *(f"{name}={value}" for name, value in _flags.items())])
    CONVERSATIONS[_name] = partial(crowd, _release, _model, _flags)


@cache
def run(name: str) -> Server:
    """Return the server after a conversation. A test must not change it."""
    return CONVERSATIONS[name]()


def usable_lengths(srv: Server) -> list[int]:
    """Return the longest usable length of each restore point after a conversation, without points of length 0."""
    lengths = (srv.log.listener.points[key].hi for key in srv.inspection.kept())
    return sorted(filter(None, lengths))


def line_of(name: str) -> str:
    """Return the numbers of a conversation."""
    srv = run(name)
    return numbers_line(name, (req.task.answer for req in srv.slots), usable_lengths(srv), srv.log.spent)


if __name__ == "__main__":
    write(FILE, CONVERSATIONS, line_of)
