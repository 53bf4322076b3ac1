"""Proposed rules of the prompt cache. No release and no pull request contains them."""

from __future__ import annotations

from cachesim.engines.mlx_lm.source_files import mlx_lm
from cachesim.engines.rule import Role, rule


# [New in mlx_lm@pr923-shared-repaired]
@rule("ML-LRU-SNAPCOPY.own", Role.STORE,
      mlx_lm("", "LRUPromptCache._insert_boundary_cache", "ec281581", pull=923,
             note="proposed here: copy.deepcopy(prompt_cache), trimmed to the boundary, in place of the shared object"))
def snap_own(key: int, length: int, held: int) -> int | None:
    """Returns by how many tokens the copy for a prefix is trimmed: all tokens that it holds beyond the prefix."""
    return held - length
