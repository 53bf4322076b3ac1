"""Decisions of the server: pure functions, in the order in which they apply to a request.

P  page size   W  window   G  grid of the states   hit  tokens that need no evaluation
"""

from __future__ import annotations

from cachesim.engines.rule import Source

CORE = "mem_cache/unified_cache/unified_tree_core.py"
CACHE = "mem_cache/unified_radix_cache.py"
WINDOW = "mem_cache/unified_cache/components/swa.py"
STATES = "mem_cache/unified_cache/components/mamba.py"
BATCH = "managers/schedule_batch.py"
POLICY = "managers/schedule_policy.py"
MIDDLE, OLD = "0.5.20", "0.5.9"
PLAIN = "mem_cache/radix_cache.py"
OLD_WINDOW, OLD_STATES = "mem_cache/swa_radix_cache.py", "mem_cache/mamba_radix_cache.py"


def source(path: str, where: str, release: str = "0.5.23", *, spec: str) -> Source:
    """Return a source in SGLang: file below python/sglang/srt/, function, release. ``spec``: number of the decision in
    the specification of the engine."""
    note = f"specification {spec}"
    return Source("sgl-project/sglang", f"python/sglang/srt/{path}", where, release, note=note)
