"""transformers 5.23.0: a cache of whole conversations, used if a prompt continues a conversation.

    python -m tests.adapters.transformers_append Bamba
"""

from __future__ import annotations

import copy
import sys

import torch
from transformers import DynamicCache

from cachesim.tools.conformance import conform, near
from tests.adapters.transformers_models import make

POSITIONS = "counts positions from 0 in every call with a cache"
ZERO_STATE = "a mixer starts from a zero state where several tokens follow a cache"
CONVOLUTION = "the convolution starts from zeros where several tokens follow a cache"
ACCEPTED = {
    "Bamba": dict.fromkeys(("append", "branch", "prefix"), POSITIONS),
    "Mamba": dict.fromkeys(("append", "branch"), ZERO_STATE),
    "RecurrentGemma": dict.fromkeys(("append", "branch"), CONVOLUTION),
}
IN_MODULES = ("conv1d_state", "recurrent_states")           # RecurrentGemma keeps these in its modules, not in a cache


class Appends:
    """Keeps the cache after every conversation; a prompt uses the longest conversation that it continues."""

    def __init__(self, model):
        self.model, self.kept = model, {(): (DynamicCache(config=model.config), {})}
        self.name = "cache_params" if type(model).__name__.startswith("Mamba") else "past_key_values"
        self.inside = [(module, name) for module in model.modules() for name in IN_MODULES if hasattr(module, name)]

    @torch.no_grad()
    def complete(self, prompt, n_predict):
        """Generate greedily; the fingerprint is the logits of the first token."""
        held = max((key for key in self.kept if key == tuple(prompt[: len(key)]) and len(key) < len(prompt)), key=len)
        cache, state = copy.deepcopy(self.kept[held])
        for number, (module, name) in enumerate(self.inside):
            setattr(module, name, state.get(number))
        tokens, new, first = [], prompt[len(held):], None
        while len(tokens) < n_predict:
            logits = self.model(torch.tensor([new]), **{self.name: cache}, use_cache=True).logits[0, -1]
            first, new = logits if first is None else first, [int(logits.argmax())]
            tokens += new
        state = {number: getattr(module, name) for number, (module, name) in enumerate(self.inside)}
        self.kept[(*prompt, *tokens[:-1])] = copy.deepcopy((cache, state))
        return {"tokens": tokens, "fingerprint": first, "cached": len(held), "evaluated": len(prompt) - len(held)}


if __name__ == "__main__":
    kind = sys.argv[1]
    model = make(kind)
    report = conform(lambda: Appends(model), tokens=range(3, 512), max_examples=60, max_prompt=64, same=near(1e-6),
                     accepted=ACCEPTED.get(kind), check=False)  # fmt: skip
    print(report)
    sys.exit(not report.conforms)
