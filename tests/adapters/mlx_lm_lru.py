"""mlx-lm 0.32.2: LRUPromptCache with generate_step, as in a program that uses the library.

    python -m tests.adapters.mlx_lm_lru llama
"""

from __future__ import annotations

import sys

from mlx_lm.models.cache import LRUPromptCache, can_trim_prompt_cache, trim_prompt_cache

from cachesim.tools.conformance import conform, near
from tests.adapters.mlx_models import TOKENS, answer, empty, make, seen

ACCEPTED = {}
SIZE = 4


class Lru:
    """Conversations of a single model under a single key."""

    def __init__(self, model):
        self.model, self.lru = model, LRUPromptCache(max_size=SIZE)

    def complete(self, prompt, n_predict, cache=True):
        """Generate greedily; the fingerprint is the log-probabilities of the first token."""
        found, rest = self.lru.fetch_nearest_cache("model", prompt) if cache else (None, prompt)
        if not rest and can_trim_prompt_cache(found):       # an exact hit leaves nothing to evaluate
            trim_prompt_cache(found, 1)
            rest = prompt[-1:]
        if found is None or not rest:
            found, rest = empty(self.model), prompt
        tokens, first = answer(self.model, rest, found, n_predict)
        key = [*prompt, *tokens]
        if cache:
            self.lru.insert_cache("model", key, found)
        length = seen(found)
        return {"tokens": tokens, "fingerprint": first, "cached": len(prompt) - len(rest), "evaluated": len(rest),
                "used": {"entries": len(self.lru)},
                "stored": None if length is None else [{"tokens": key, "length": length}]}  # fmt: skip

    def limits(self):
        """Return the promised limits."""
        return {"entries": SIZE}


if __name__ == "__main__":
    kind = sys.argv[1]
    model = make(kind)
    report = conform(lambda: Lru(model), tokens=TOKENS, max_examples=40, max_prompt=48, near=[8], same=near(1e-3),
                     accepted=ACCEPTED.get(kind), check=False)  # fmt: skip
    print(report)
    sys.exit(not report.conforms)
