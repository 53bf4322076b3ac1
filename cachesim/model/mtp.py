"""The MTP head: one attention layer behind the trunk that guesses the token after the next.

It reads a token together with what the trunk said after the token before it, and keeps K/V rows of its own (the draft
context). What the trunk said last is carried from batch to batch and lies in no saved state: after a restore, and when
a new conversation begins, the first row of the head is computed from another text. That costs guesses, never answers.
Source: llama.cpp common/speculative.cpp, draft-mtp (3f545be).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cachesim.model.forward import Model, make_model
from cachesim.model.store import Hidden


class Carried(NamedTuple):
    """What the trunk said after one token: provenance and numbers (None without arithmetic)."""

    digest: int
    x: np.ndarray | None


def mtp_head(trunk: Model) -> Model:
    """The head of a trunk; its weights come from another seed."""
    return make_model("A", trunk.exact, trunk.seed + 1)


def carried(hidden: Hidden, at: int) -> Carried:
    """What was said after token ``at`` of a batch."""
    return Carried(int(hidden.digest[at]), None if hidden.x is None else hidden.x[at])


def before(hidden: Hidden, first: Carried | None) -> Hidden:
    """What the trunk said before each token of a stretch: ``first`` before the first one (None = nothing yet)."""
    start = 0 if first is None else first.digest
    digest = np.concatenate((np.array([start], np.uint64), hidden.digest[:-1]))
    if hidden.x is None:
        return Hidden(digest, None)
    row = np.zeros_like(hidden.x[:1]) if first is None or first.x is None else first.x[None]
    return Hidden(digest, np.concatenate((row, hidden.x[:-1])))
