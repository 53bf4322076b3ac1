"""Model of the first lesson, small enough for pencil and paper: tokens are numbers, and all values are integers.

Layer 1 (attention) stores the row 10 x for a token x. Layer 2 (recurrent) stores a number h = h / 2 (rounded down) + x.
"""

from __future__ import annotations

from typing import Sequence


def rows(tokens: Sequence[int]) -> list[int]:
    """Return the rows of the attention layer."""
    return [10 * x for x in tokens]


def states(tokens: Sequence[int]) -> list[int]:
    """Return the state after each token."""
    found, h = [], 0
    for x in tokens:
        h = h // 2 + x
        found.append(h)
    return found


def state(tokens: Sequence[int]) -> int:
    """Return the state after the last token."""
    return states(tokens)[-1]


TOY = {"rows": rows, "states": states, "state": state}
