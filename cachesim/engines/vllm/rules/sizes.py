"""Rules for the sizes that are fixed when the server starts."""

from __future__ import annotations

from math import gcd, lcm
from typing import NamedTuple, Sequence

from cachesim.engines.rule import Role, rule
from cachesim.engines.vllm.rules.sources import config, file, utils

EAGLE = ("eagle", "eagle3", "mtp")
ALIGN, EVERY = "align", "all"


@rule("V-SIZE-8", Role.SETUP, file("vllm/config/cache.py")("mamba_cache_mode"))
def states_at_ends(mode: str) -> bool | None:
    """Whether states are kept where chunks end, which are chosen for it; None = the server does not start."""
    return True if mode == ALIGN else None


@rule("V-SIZE-8.ALL", Role.SETUP, file("vllm/config/cache.py")("mamba_cache_mode", "0.31.0"))
def states_at_blocks(mode: str) -> bool:
    """Whether states are kept where chunks end; in the mode `all` a kernel keeps one at the end of every block."""
    return mode == ALIGN


class Speculation(NamedTuple):
    """Drafts: slots behind a chunk, prompt tokens that the drafter reads ahead, tokens after a block that its hash
    covers, and whether the last block found is not used."""

    slots: int
    ahead: int
    hashed: int
    drop: bool


@rule("V-SPEC-1", Role.SETUP, config("num_lookahead_tokens num_hash_lookahead_tokens"))
def speculation(method: str, k: int, modules: bool, caching: bool, drop: bool) -> Speculation:
    """Drafters of the EAGLE family keep rows of their own, which depend on the next token: hashes cover it, or the
    last block found is evaluated again. ``modules``: each draft token has a module; ``drop``: hashes do not."""
    if method not in EAGLE:
        return Speculation(k if method == "draft_model" else 0, 0, 0, False)
    ahead = k if modules else 1
    hashed = ahead if caching and not drop else 0
    return Speculation(k, ahead, hashed, not hashed)


@rule("V-SIZE-2", Role.SETUP, utils("resolve_kv_cache_block_sizes"))
def scheduler_block(blocks: Sequence[int]) -> int:
    """Hits and publication work in a common multiple of the groups' blocks."""
    return lcm(*blocks)


@rule("V-SIZE-1A", Role.SETUP, file("vllm/v1/engine/core.py")("_initialize_kv_caches"))
def chunk_block(blocks: Sequence[int], states: Sequence[int]) -> int:
    """Chunks end at multiples of the smallest block, although a group of states may have larger ones."""
    return min(blocks)


@rule("V-SIZE-3", Role.SETUP, utils("resolve_kv_cache_block_sizes"))
def hash_unit(blocks: Sequence[int], asked: int, active: bool) -> int:
    """Tokens of a hash: as asked, else the common divisor of the groups' blocks. ``active``: something is looked up
    that has blocks of different sizes."""
    if not active or len(blocks) == 1:
        return lcm(*blocks)
    return asked or gcd(*blocks)


@rule("V-SIZE-4", Role.SETUP, utils("partial_hash_hits_enabled"))
def partial_hits(states: Sequence[int], windows: Sequence[int], unit: int, parallel: bool) -> bool:
    """Whether a hit may end inside a block: if states have blocks of several hashes, and windows do not."""
    larger = any(block > unit or (parallel and block == unit) for block in states)
    return larger and all(block == unit for block in windows)
