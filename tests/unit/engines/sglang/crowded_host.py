"""Conversations that compete for a small pool and a small host memory."""

from __future__ import annotations

from cachesim.engines.base import Answer, Request
from tests.unit.engines.sglang.conversations import P, Q, server

S, T = tuple(range(300, 330)), tuple(range(400, 436))
REQUESTS = (
    Request(P, 3), Request((*Q, *P[:20]), 2), Request(P, 2), Request((*P[:30], *Q), 2), Request(S, 6), Request(T, 3),
    Request(P, 3), Request((*Q, *P[:20], *S), 3), Request(T, 2), Request((*P[:30], *Q), 2),
)  # fmt: skip
PARTS = {"W8 A": {"swa_tokens": 48}, "GA": {"max_mamba_cache_size": 5, "mamba_track_interval": 8, "state_grid": 8}}


def outputs(answer: Answer) -> list[tuple[int, int]]:
    return [(one.pos, one.digest) for one in answer.outputs]


def reused_by_each(model: str, policy: str, ratio: float, tokens: int) -> list[int]:
    """Return the tokens that each request reuses. Memory is checked after each; each answer is that of a cold run."""
    flags = {"max_total_tokens": tokens, "enable_hierarchical_cache": True, "hicache_ratio": ratio,
             "hicache_write_policy": policy, **PARTS[model]}  # fmt: skip
    crowded, found = server(model, mode="provenance", **flags), []
    for request in REQUESTS:
        answer = crowded.complete(request)
        crowded.inspection.check()
        assert outputs(answer) == outputs(server(model, mode="provenance", **flags).complete(request))
        found.append(answer.cache_n)
    return found
