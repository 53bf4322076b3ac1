"""vllm-mlx 0.6.0: MemoryAwarePrefixCache, called as by its scheduler: an exact hit is evaluated again.

    python -m tests.adapters.vllm_mlx_memory llama
"""

from __future__ import annotations

import sys

from vllm_mlx.memory_cache import MemoryAwarePrefixCache, MemoryCacheConfig

from cachesim.tools.conformance import conform, near
from tests.adapters.mlx_models import TOKENS, answer, empty, make, seen

ACCEPTED = {}
SIZE = 4


class Memory:
    """Conversations of a single model; fetched entries are cloned before use, as the package requires."""

    def __init__(self, model):
        self.model = model
        self.cache = MemoryAwarePrefixCache(model, MemoryCacheConfig(max_entries=SIZE, min_prefix_tokens=1))

    def complete(self, prompt, n_predict):
        """Generate greedily; the fingerprint is the log-probabilities of the first token."""
        found, rest = self.cache.fetch(prompt)
        found = self.cache.clone_for_replay(found) if found and rest else None
        if found is None:
            found, rest = empty(self.model), prompt
        tokens, first = answer(self.model, rest, found, n_predict)
        key = [*prompt, *tokens]
        self.cache.store(key, found, evict_prefixes=False)
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
