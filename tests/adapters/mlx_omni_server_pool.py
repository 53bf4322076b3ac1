"""mlx-omni-server 0.5.3: PromptCachePool and PromptCache, called in the order of its ChatGenerator.

    python -m tests.adapters.mlx_omni_server_pool llama
"""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace

from mlx_lm import stream_generate
from mlx_omni_server.chat.mlx.prompt_cache_pool import PromptCachePool

from cachesim.tools.conformance import conform, near
from tests.adapters.mlx_models import TOKENS, make, seen, tokenizer

BEFORE = "the entry is filed under its prompt before that is evaluated"
ONE_MORE = "the state has seen one token more than the key has"
TWICE = "an exact hit is counted as cached whole, and its last token is evaluated again"
FAULTS = {"append": BEFORE, **dict.fromkeys(("branch", "prefix", "repeat", "stored"), ONE_MORE), "accounting": TWICE}
ACCEPTED = {"llama": FAULTS, "qwen3_next": {**FAULTS, "cancel": BEFORE}}
logging.disable()


class Pool:
    """The pool of a single model. A disconnect in the prompt leaves the state after ``get_prompt_cache``."""

    def __init__(self, model):
        self.model = SimpleNamespace(model_id="model", model=model, draft_model=None)
        self.pool = PromptCachePool(ttl_seconds=0)

    def complete(self, prompt, n_predict, cancel_after=None):
        """Generate greedily; the fingerprint is the log-probabilities of the first token."""
        entry = self.pool.get_cache(prompt, "model")
        rest, cached = entry.get_prompt_cache(self.model, prompt)
        if cancel_after == 0:
            return {}
        steps = []
        for step in stream_generate(self.model.model, tokenizer(), rest, max_tokens=n_predict,
                                    prompt_cache=entry.cache):  # fmt: skip
            steps.append(step)
            if step.finish_reason is not None:
                break
            entry.append_token(step.token)
        self.pool.put_cache(entry)
        length = seen(entry.cache)
        return {"tokens": [step.token for step in steps], "fingerprint": steps[0].logprobs, "cached": cached,
                "evaluated": len(rest),
                "stored": None if length is None else [{"tokens": list(entry.tokens), "length": length}]}  # fmt: skip


if __name__ == "__main__":
    kind = sys.argv[1]
    model = make(kind)
    report = conform(lambda: Pool(model), tokens=TOKENS, max_examples=40, max_prompt=48, same=near(1e-3),
                     accepted=ACCEPTED.get(kind), check=False)  # fmt: skip
    print(report)
    sys.exit(not report.conforms)
