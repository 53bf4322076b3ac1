"""Single-precision ratios, and limits and eviction of the prompt cache.

Source: llama.cpp tools/server/server-task.cpp server_prompt_cache::update (3f545be); ik_llama.cpp
examples/server/server-task.cpp has the same arithmetic.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Sequence

import numpy as np

from cachesim.engines.inspection import ExceededLimit

F32 = np.float32


@lru_cache(maxsize=4096)
def part(n: int, of: int) -> np.float32:
    """Return n / of as the server computes it. Division by zero gives NaN, which is neither above nor below any
    threshold."""
    return F32(n) / F32(of) if of else F32("nan")


class Limits(NamedTuple):
    """Limits on bytes and tokens of all entries together; 0 = no limit."""

    size: int
    tokens: int


class Eviction(NamedTuple):
    """Number of oldest entries evicted for bytes, then for tokens; ``est``: the token limit in force."""

    for_size: int
    for_tokens: int
    est: int


def _token_limit(size: int, tokens: int, limits: Limits) -> int:
    """Return the token limit: at least ``limits.tokens``, more if the byte limit allows more tokens of the average
    size."""
    if not limits.size:
        return limits.tokens
    per_token = max(F32(1), F32(size) / F32(max(1, tokens)))
    return max(limits.tokens, int(F32(limits.size) / per_token))


def evict_oldest(sizes: Sequence[int], lengths: Sequence[int], limits: Limits, spare: int) -> Eviction:
    """Evict the oldest entries while the bytes, then the tokens, exceed the limits; the newest ``spare`` entries always
    stay."""
    first = 0
    while limits.size and len(sizes) - first > spare and sum(sizes[first:]) > limits.size:
        first += 1
    for_size = first
    est = _token_limit(sum(sizes[first:]), sum(lengths[first:]), limits)
    while limits.tokens and len(sizes) - first > spare and sum(lengths[first:]) > est:
        first += 1
    return Eviction(for_size, first - for_size, est)


def over_limits(checkpoints: Sequence[int], most: int, sizes: Sequence[int], limit: int) -> list[ExceededLimit]:
    """Return the exceeded limits: ``checkpoints`` of each slot against ``most``, bytes of all stored conversations
    against ``limit`` (0 = no limit)."""
    found = [
        ExceededLimit("checkpoints", n, most, f"slot {slot} has") for slot, n in enumerate(checkpoints) if n > most
    ]
    total = sum(sizes)
    return (
        [*found, ExceededLimit("bytes", total, limit, "the prompt cache holds")] if limit and total > limit else found
    )
