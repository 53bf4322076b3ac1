"""What did the model say after the tokens of a micro-batch that were asked?"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from cachesim.engines.shared.batch import DecodeBatch, Ubatch
from cachesim.model import Hidden, Model


class Spoken(NamedTuple):
    """What the model said after one token of the batch: final provenance, logits (None without arithmetic)."""

    digest: int
    logits: np.ndarray | None


def spoken(model: Model, batch: DecodeBatch, ubatch: Ubatch, hidden: Sequence[Hidden]) -> dict[int, Spoken]:
    """Place in the batch -> what was said there, for the tokens that are marked."""
    found: dict[int, Spoken] = {}
    for run, at, said in zip(ubatch.runs, ubatch.at, hidden, strict=True):
        marked = batch.out[at : at + len(run.tokens)]
        if True not in marked:
            continue
        asked = [k for k, out in enumerate(marked) if out]
        logits = model.readout(said.x[asked]) if said.x is not None else None
        for row, k in enumerate(asked):
            found[at + k] = Spoken(int(said.digest[k]), None if logits is None else logits[row])
    return found


def joined(parts: Sequence[Hidden]) -> Hidden:
    """One run that was evaluated in pieces."""
    x = None if parts[0].x is None else np.concatenate([part.x for part in parts if part.x is not None])
    return Hidden(np.concatenate([part.digest for part in parts]), x)
