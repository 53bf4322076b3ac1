"""rapid-mlx 0.16.10: MemoryAwarePrefixCache, called as by its scheduler: an exact hit is trimmed by one token.

    python -m tests.adapters.rapid_mlx_memory llama
"""

from __future__ import annotations

import copy
import sys

from mlx_lm.models.cache import can_trim_prompt_cache, trim_prompt_cache
from rapid_mlx.memory_cache import MemoryAwarePrefixCache, MemoryCacheConfig

from cachesim.tools.conformance import conform, near
from tests.adapters.mlx_models import TOKENS, answer, empty, make, seen

ACCEPTED = {}
SIZE = 4


class Memory:
    """Conversations of a single model; fetched entries are shared, so they are copied before use."""

    def __init__(self, model):
        self.model = model
        self.cache = MemoryAwarePrefixCache(model, MemoryCacheConfig(max_entries=SIZE))

    def complete(self, prompt, n_predict):
        """Generate greedily; the fingerprint is the log-probabilities of the first token."""
        found, rest = self.cache.fetch(prompt)
        found = copy.deepcopy(found)
        if found and not rest and can_trim_prompt_cache(found):
            trim_prompt_cache(found, 1)
            rest = prompt[-1:]
        if not found or not rest:
            found, rest = empty(self.model), prompt
        tokens, first = answer(self.model, rest, found, n_predict)
        key = [*prompt, *tokens]
        self.cache.store(key, copy.deepcopy(found), evict_prefixes=False)
        length = seen(found)
        return {"tokens": tokens, "fingerprint": first, "cached": len(prompt) - len(rest), "evaluated": len(rest),
                "used": {"entries": len(self.cache._entries)},
                "stored": None if length is None else [{"tokens": key, "length": length}]}  # fmt: skip

    def limits(self):
        """Return the promised limits."""
        return {"entries": SIZE}


if __name__ == "__main__":
    kind = sys.argv[1]
    model = make(kind)
    report = conform(lambda: Memory(model), tokens=TOKENS, max_examples=40, max_prompt=48, near=[8], same=near(1e-3),
                     accepted=ACCEPTED.get(kind), check=False)  # fmt: skip
    print(report)
    sys.exit(not report.conforms)
