"""Rules for the sizes that are fixed when the server starts."""

from __future__ import annotations

from math import gcd, lcm
from typing import NamedTuple, Sequence

from cachesim.engines.rule import Role, rule
from cachesim.engines.vllm.rules.sources import NOW, UTILS, vllm

CONFIG = "vllm/config/vllm.py"
EAGLE = ("eagle", "eagle3", "mtp")


class Speculation(NamedTuple):
    """Drafts: slots behind a chunk, prompt tokens that the drafter reads ahead, tokens after a block that its hash
    covers, and whether the last block found is not used."""

    slots: int
    ahead: int
    hashed: int
    drop: bool


@rule("V-SPEC-1", Role.SETUP, vllm(CONFIG, "num_lookahead_tokens num_hash_lookahead_tokens", NOW))
def speculation(method: str, k: int, modules: bool, caching: bool, drop: bool) -> Speculation:
    """Drafters of the EAGLE family keep rows of their own, which depend on the next token: hashes cover it, or the
    last block found is evaluated again. ``modules``: each draft token has a module; ``drop``: hashes do not."""
    if method not in EAGLE:
        return Speculation(k if method == "draft_model" else 0, 0, 0, False)
    ahead = k if modules else 1
    hashed = ahead if caching and not drop else 0
    return Speculation(k, ahead, hashed, not hashed)


@rule("V-SPEC-1.DROP", Role.SETUP, vllm(CONFIG, "num_lookahead_tokens", "0.32.0"))
def speculation_drop(method: str, k: int, modules: bool, caching: bool, drop: bool) -> Speculation:
    """Drafters of the EAGLE family: the last block found is always evaluated again."""
    made = speculation(method, k, modules, caching, True)
    return made._replace(hashed=0)


@rule("V-SIZE-2", Role.SETUP, vllm(UTILS, "resolve_kv_cache_block_sizes", NOW))
def scheduler_block(blocks: Sequence[int]) -> int:
    """Hits and publication work in a common multiple of the groups' blocks."""
    return lcm(*blocks)


@rule("V-SIZE-3", Role.SETUP, vllm(UTILS, "resolve_kv_cache_block_sizes", NOW))
def hash_unit(blocks: Sequence[int], asked: int, active: bool) -> int:
    """Tokens of a hash: as asked, else the common divisor of the groups' blocks. ``active``: something is looked up
    that has blocks of different sizes."""
    if not active or len(blocks) == 1:
        return lcm(*blocks)
    return asked or gcd(*blocks)


@rule("V-SIZE-4", Role.SETUP, vllm(UTILS, "partial_hash_hits_enabled", NOW))
def partial_hits(states: Sequence[int], windows: Sequence[int], unit: int, parallel: bool) -> bool:
    """Whether a hit may end inside a block: if states have blocks of several hashes, and windows do not."""
    larger = any(block > unit or (parallel and block == unit) for block in states)
    return larger and all(block == unit for block in windows)
