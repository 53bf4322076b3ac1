"""Cost of evaluating tokens, computed beforehand so that a run can be refused in time.

In exact mode a token costs 1 work unit in every layer, a micro-batch 10 units, and 300 read rows 1 unit. The measured
times have these proportions.
"""

from __future__ import annotations

from cachesim.model import Model

PASS, ROWS = 10, 300            # work units of a micro-batch in a layer; rows read per work unit

Cost = tuple[int, int, int]
"""Tokens, micro-batches, and work units of exact arithmetic (0 without arithmetic)."""


def cost_of(model: Model | None, tokens: int, n_ubatch: int, before: int) -> Cost:
    """Return the cost of tokens in micro-batches of ``n_ubatch``; ``before``: the sum of their positions."""
    passes = -(-tokens // n_ubatch)
    if model is None or not model.exact:
        return tokens, passes, 0
    layers = model.spec.layers
    rows = sum(min(before, tokens * layer.window) if layer.window else before for layer in layers if layer.part)
    return tokens, passes, len(layers) * (tokens + PASS * passes) + rows // ROWS
