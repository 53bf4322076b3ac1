"""Rules of the block pool and of the hashes."""

from __future__ import annotations

from typing import Hashable, Sequence

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.vllm.rules.sources import NOW, POOL, UTILS, vllm

FRONT, BACK = "front", "back"


@rule("V-HASH-1", Role.MEMORY, vllm(UTILS, "hash_block_tokens", NOW))
def hash_unit(before: int, tokens: Sequence[int], lora: str, salt: str) -> Hashable:
    """A unit is identified by its tokens, the units before it, the adapter, and in the first unit the salt. A token of
    an image stands for the image's identifier and a place in it. With lookahead hashes ``tokens`` include those that
    follow. Returns whatever is equal for equal units only."""
    return before, tuple(tokens), lora, salt if before < 0 else ""


@rule("V-POOL-5", Role.DROP, vllm(POOL, "get_new_blocks _maybe_evict_cached_block", NOW))
def evict(block: int, tokens: int) -> Decision:
    """A block taken from the front of the free list loses its keys. Returns its number; ``tokens``: the length of the
    prefix that ended there."""
    return Decision(block, {"tokens": tokens})


@rule("V-POOL-7", Role.MEMORY, vllm(POOL, "free_blocks", NOW))
def free_side(keyed: bool) -> str:
    """A block without users joins the free list at the back if it can be found, else at the front."""
    return BACK if keyed else FRONT
