"""Shares in single precision, and what stored conversations cost: limits, the limit in tokens, who has to go.

Source: llama.cpp tools/server/server-task.cpp server_prompt_cache::update (3f545be); ik_llama.cpp
examples/server/server-task.cpp has the same arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from cachesim.engines.inspection import Excess

F32 = np.float32


def part(n: int, of: int) -> np.float32:
    """n / of as the server computes it; a part of nothing is NaN, which is above no threshold and below none."""
    return F32(n) / F32(of) if of else F32("nan")


class Limits(NamedTuple):
    """Bytes and tokens of all entries together; 0 = no limit."""

    size: int
    tokens: int


class Eviction(NamedTuple):
    """Oldest entries that go for bytes, then for tokens; ``est`` is the token limit that held."""

    for_size: int
    for_tokens: int
    est: int


def _token_limit(size: int, tokens: int, limits: Limits) -> int:
    """The limit in tokens: at least ``limits.tokens``, more if the byte limit holds more tokens of this kind."""
    if not limits.size:
        return limits.tokens
    per_token = max(F32(1), F32(size) / F32(max(1, tokens)))
    return max(limits.tokens, int(F32(limits.size) / per_token))


def evict_oldest(sizes: Sequence[int], lengths: Sequence[int], limits: Limits, spare: int) -> Eviction:
    """The oldest go while the bytes, then the tokens, are over the limits; ``spare`` of them stay in any case."""
    first = 0
    while limits.size and len(sizes) - first > spare and sum(sizes[first:]) > limits.size:
        first += 1
    for_size = first
    est = _token_limit(sum(sizes[first:]), sum(lengths[first:]), limits)
    while limits.tokens and len(sizes) - first > spare and sum(lengths[first:]) > est:
        first += 1
    return Eviction(for_size, first - for_size, est)


def over_limits(checkpoints: Sequence[int], most: int, sizes: Sequence[int], limit: int) -> list[Excess]:
    """What is too much: ``checkpoints`` of each slot against ``most``, bytes of all stored conversations
    against ``limit`` (0 = none)."""
    found = [Excess("checkpoints", n, most, f"slot {slot} has") for slot, n in enumerate(checkpoints) if n > most]
    total = sum(sizes)
    return [*found, Excess("bytes", total, limit, "the prompt cache holds")] if limit and total > limit else found
