"""Ledger with hand-made events, and a stub engine that holds the restore points of these events."""

from __future__ import annotations

import numpy as np

import cachesim.engines.llama_cpp.profiles  # noqa: F401  - registers the rules whose ids stand below
from cachesim.engines.inspection import RestorePoint, RowsPart, StoredObject, TokenPrefix
from cachesim.events import Advanced, Decided, Declined, Gained, Lost
from cachesim.judging.recompute_ledger import RecomputeLedger
from cachesim.model import KVRows

CREATE, PICK, NEED, LOAD, SELECT, ERASE = (
    "LC-CKPT-CREATE.CR10", "LC-CKPT-PICK.PK3", "LC-CKPT-NEED.TH4", "LC-PC-LOAD.BOTH", "LC-SLOT-SELECT.SL3",
    "LC-CKPT-ERASE.ER2",
)  # fmt: skip
SAID = tuple(range(100, 110))          # ten tokens that were evaluated in request 0
WHOLE = TokenPrefix(SAID, len(SAID))
SLOT = ("slot", 0, 0)


class Cold:
    """A cold run in which every digest is 0."""

    def rows(self, layer):
        return KVRows(np.zeros(1000, np.uint64), None, None)


def row_part(positions, foreign=(), window=0):
    """Return rows of a layer at these positions, some of which differ from a cold run."""
    pos = np.array(positions, np.int64)
    return RowsPart(window, pos, {0: KVRows(np.isin(pos, list(foreign)).astype(np.uint64), None, None)})


def key_of(kind, number=1):
    return SLOT if kind == "slot" else (kind, -1 if kind == "entry" else 0, number)


class Story:
    """Ledger with a single evaluated list, the tokens of slot 0. ``inspected``: objects that the ledger inspected, each
    with the start position; ``cold_runs``: lists of which it requested a cold run."""

    def __init__(self, **callbacks):
        self.parts, self.inspected, self.cold_runs = {}, [], []
        self.ledger = RecomputeLedger(
            **{"inspect": self.inspect, "cold": self.cold, "slot_prefix": lambda slot: WHOLE, **callbacks})  # fmt: skip
        self.ledger.evaluated.append(SAID)

    def inspect(self, key, start):
        self.inspected.append((key, start))
        return StoredObject(key[0], key[1], (), 0, self.parts[key], None, start)

    def cold(self, tokens):
        self.cold_runs.append(tokens)
        return Cold()

    def point(self, kind, n, cause="evaluated", rule="", *, number=1, tokens=SAID, start=0, after=None, lengths=None,
              step=1, foreign=(), parts=None):  # fmt: skip
        """Add a restore point, or replace the point with its key. A slot is usable at every length, another object at
        its end only, unless ``lengths`` are given."""
        key = key_of(kind, number)
        lo, hi = lengths or ((1, n) if kind == "slot" else (n, n))
        self.parts[key] = parts if parts is not None else (row_part(range(start, n), foreign),)
        event = Advanced if kind == "slot" else Gained
        point = RestorePoint(key, n, tuple(tokens[start:n]), start, after if start else None, lo, hi, step)
        self.ledger.record(event(None if kind == "entry" else 0, point, cause, rule))

    def lose(self, kind, cause, rule="", *, number=1, slot=0):
        """Remove a restore point."""
        self.ledger.record(Lost(slot, key_of(kind, number), cause, rule))

    def decide(self, rule, value):
        """Record the decision of a rule."""
        self.ledger.record(Decided(0, rule, value, {}))

    def capture(self, rule, made, start):
        """Record that a rule creates a checkpoint after so many tokens, or declines it, as an engine does."""
        self.ledger.record(Decided(0, rule, made, {"start": start}))
        if not made:
            self.ledger.record(Declined(0, start, rule))

    def settle(self, prompt, n_past, *decisions, wrong=False, request=1):
        """Return the ledger of a request that kept so many tokens."""
        self.ledger.begin(request)
        for rule, value in decisions:
            self.decide(rule, value)
        return self.ledger.settle(request, 0, tuple(prompt), n_past, wrong)


def charges(ledger):
    return [(one.tokens, one.event, one.rule, one.at, one.kind) for one in ledger.charges]
