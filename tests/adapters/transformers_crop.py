"""transformers 5.23.0: a single conversation is kept and cropped to the prefix shared with the next prompt.

    python -m tests.adapters.transformers_crop Mistral
"""

from __future__ import annotations

import sys

import torch
from transformers import DynamicCache

from cachesim.base.tokens import common_prefix
from cachesim.tools.conformance import conform, near
from tests.adapters.transformers_models import make

DEEPER = "a window that was cropped before is cropped deeper than it has recorded, and nothing is said"
ACCEPTED = {"Mistral": dict.fromkeys(("branch", "prefix", "repeat", "stored", "answers"), DEEPER)}


class Crops:
    """A single cache, which records the past, so that windows can be cropped too."""

    def __init__(self, model):
        self.model, self.held, self.cache = model, (), None

    @torch.no_grad()
    def complete(self, prompt, n_predict):
        """Generate greedily; the fingerprint is the logits of the first token."""
        cached = min(common_prefix(self.held, tuple(prompt)), len(prompt) - 1)
        if cached:
            self.cache.crop(cached - len(self.held))
        else:
            self.cache = DynamicCache(config=self.model.config)
            self.cache.activate_past_recording()
        tokens, new, first = [], prompt[cached:], None
        while len(tokens) < n_predict:
            logits = self.model(torch.tensor([new]), past_key_values=self.cache, use_cache=True).logits[0, -1]
            first = logits if first is None else first
            tokens.append(int(logits.argmax()))
            new = tokens[-1:]
        self.held = (*prompt, *tokens[:-1])
        return {"tokens": tokens, "fingerprint": first, "cached": cached, "evaluated": len(prompt) - cached,
                "stored": [{"tokens": self.held, "length": self.cache.get_seq_length()}]}  # fmt: skip


if __name__ == "__main__":
    kind = sys.argv[1]
    model = make(kind)
    report = conform(lambda: Crops(model), tokens=range(3, 512), max_examples=60, max_prompt=64, near=[16],
                     same=near(1e-6), accepted=ACCEPTED.get(kind), check=False)  # fmt: skip
    print(report)
    sys.exit(not report.conforms)
