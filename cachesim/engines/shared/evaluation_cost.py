"""What does it cost to evaluate tokens? Counted before they are, so that a run can be refused in time.

With numbers, a token costs a unit in every layer, a micro-batch ten, and so do 3,000 rows that are read: these are the
proportions of the time that they take.
"""

from __future__ import annotations

from cachesim.model import Model

PASS, ROWS = 10, 300            # units of a micro-batch in a layer; rows of a unit

Cost = tuple[int, int, int]
"""Tokens, micro-batches, and units of work with numbers (0 where there are none)."""


def cost_of(model: Model | None, tokens: int, n_ubatch: int, before: int) -> Cost:
    """What tokens cost in micro-batches of ``n_ubatch``; ``before``: the sum of their positions."""
    passes = -(-tokens // n_ubatch)
    if model is None or not model.exact:
        return tokens, passes, 0
    layers = model.spec.layers
    rows = sum(min(before, tokens * one.window) if one.window else before for one in layers if one.part)
    return tokens, passes, len(layers) * (tokens + PASS * passes) + rows // ROWS
