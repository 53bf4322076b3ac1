"""Proposed rules of the prompt cache. No release and no pull request contains them."""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.mlx_lm.lru.rules_insert import EvaluatedLength
from cachesim.engines.mlx_lm.source_files import mlx_lm
from cachesim.engines.rule import Role, rule


# [New in mlx_lm@pr923-shared-repaired]
@rule("ML-LRU-SNAPCOPY.own", Role.STORE,
      mlx_lm("", "LRUPromptCache._insert_boundary_cache", "ec281581", pull=923,
             note="proposed here: copy.deepcopy(prompt_cache), trimmed to the boundary, in place of the shared object"))
def snap_own(key: int, length: int, held: int) -> int | None:
    """Return by how many tokens the copy for a prefix is trimmed: all tokens that it holds beyond the prefix."""
    return held - length


# [New in mlx_lm@pr923-repaired]
@rule("ML-LRU-SNAP.evaluated", Role.PLAN,
      mlx_lm("", "LRUPromptCache._find_checkpoint_positions", "c30598cf", pull=923,
             note="proposed here: the last boundary, evaluated in new caches, in place of a trimmed copy"))
def snap_evaluated(key: int, boundaries: Sequence[int], interval: int) -> list[int]:
    """Store an entry at the last message boundary within the key, evaluated in caches of its own, because a recurrent
    state cannot be trimmed to it."""
    inside = [b for b in boundaries if 0 < b < key]
    return [EvaluatedLength(b) for b in inside[-1:]]
