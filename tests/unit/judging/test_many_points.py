"""Tests of the growth of the ledger's work with the number of restore points, in a pool of blocks that conversations
share.

The tracker of a real engine reports the blocks; the engine and the cold runs are stubs.
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from cachesim.engines.inspection import RowsPart, StoredObject, TokenPrefix
from cachesim.events import Decided, Declined, Launch, Log
from cachesim.judging.compare_answer import ColdRunCache
from cachesim.judging.recompute_ledger import LEDGER_EVENTS, RecomputeLedger
from cachesim.model import KVRows
from tests.fourth.point_tracker import BlockPoints, Chain
from tests.unit.judging.call_count import STEEPEST, counted_calls, exponent
from tests.unit.judging.ledger_story import CREATE, SELECT

BLOCK, GROWTH, LONGEST = 4, 20, 30     # tokens of a block, new blocks of a conversation, blocks that it may share
EVERY = 50                             # restore points for each request
ZEROS = np.zeros(BLOCK * (GROWTH + LONGEST), np.uint64)


class Cold:
    """A cold run in which every digest is 0."""

    def rows(self, layer):
        return KVRows(ZEROS, None, None)


class Pool:
    """A pool of blocks that reports to a ledger. Block h holds the tokens 4h, 4h + 1, 4h + 2 and 4h + 3; its rows are
    those of a cold run. A conversation is a tuple of tokens."""

    def __init__(self, seed):
        self.random, self.log, self.cold_runs = Random(seed), Log(), ColdRunCache(None)
        self.cold_runs.digests = lambda tokens: Cold()
        self.ledger = RecomputeLedger(inspect=self.inspect, cold=self.cold_runs.covering, covers=self.cold_runs.covers,
                             slot_prefix=lambda slot: TokenPrefix(self.asked, len(self.asked)))  # fmt: skip
        self.log.listener, self.log.kinds = self.ledger.record, LEDGER_EVENTS
        self.points = BlockPoints(self.log, rows=True, states=False)
        self.talks, self.asked, self.charged = [()], (), set()
        self.blocks = self.requests = self.lost = 0

    def inspect(self, key, start):
        pos = np.arange(start, self.points.keys[key].chain.end)
        return StoredObject(
            "block", -1, (), 0, (RowsPart(0, pos, {0: KVRows(ZEROS[: len(pos)], None, None)}),), None, start
        )

    def put(self, talk):
        """Compute the missing blocks of a conversation."""
        before = None
        for start in range(0, len(talk), BLOCK):
            block = talk[start] // BLOCK
            if ("block", block, 0) not in self.points.keys:
                end = start + BLOCK
                self.points.rows(("block", block, 0), Chain(block, before, talk[start:end], end))
            before = block

    def converse(self):
        """Start a conversation that begins like a former conversation and continues with blocks of its own."""
        other = self.random.choice(self.talks)
        shared = BLOCK * self.random.randint(0, min(len(other) // BLOCK, LONGEST))
        talk = (*other[:shared], *range(BLOCK * self.blocks, BLOCK * (self.blocks + GROWTH)))
        self.blocks += GROWTH
        self.talks.append(talk)
        self.cold_runs.expect(talk)
        self.put(talk)

    def evict(self):
        """Evict some of the last blocks of a conversation: from its end, or a block before the last two, which are
        useless until it is computed again."""
        talk = self.random.choice(self.talks[1:])
        for at in self.random.choice([(1, 2, 3), (3,)]):
            self.points.lost(("block", talk[-BLOCK * at] // BLOCK, 0), "evicted", "rule")
            self.lost += 1
        if self.random.random() < 0.5:
            self.put(talk)

    def request(self):
        """Send a request that begins like a conversation or a former request, and keeps some blocks. Its ledger must
        balance."""
        again = self.requests and self.random.random() < 0.5
        begin = self.random.choice(self.ledger.evaluated if again else self.talks[1:])
        shared = self.random.choice([len(begin), self.random.randint(1, len(begin))])
        self.asked = (*begin[:shared], -1 - self.requests)
        kept = self.random.randint(0, len(self.asked) // BLOCK)
        self.ledger.begin(self.requests)
        self.log.emit(Decided(0, SELECT, None, {}))
        self.log.emit(Launch(0, self.requests, 0))
        self.log.emit(Declined(0, BLOCK * kept, CREATE))
        ledger = self.ledger.settle(self.requests, 0, self.asked, BLOCK * kept, False)
        assert ledger.is_balanced
        self.charged |= {one.event for one in ledger.charges}
        self.ledger.evaluated.append(self.asked)
        self.requests += 1


def pool_of(n, seed=1):
    """Return a pool that had so many restore points, and the number of calls."""
    pool = Pool(seed)
    with counted_calls() as calls:
        while pool.ledger.count < n:
            pool.converse()
            pool.evict()
            if pool.ledger.count // EVERY > pool.requests:
                pool.request()
    return pool, calls.number


@pytest.mark.parametrize("n", [1000, pytest.param(10_000, marks=pytest.mark.long)])
def test_twice_as_many_restore_points_are_twice_the_work(n):
    pool_of(100)
    (_, once), (pool, twice) = pool_of(n), pool_of(2 * n)
    assert exponent(once, twice) <= STEEPEST
    assert pool.ledger.count >= 2 * n and pool.requests == 2 * n // EVERY and pool.lost >= n // EVERY
    assert {"not chosen", "never captured", "evicted"} <= pool.charged


def scan_views(record):
    """Planted fault: scan all snapshots at every event."""
    def scanning(ledger, event):
        for _ in ledger.snapshots:
            abs(0)
        record(ledger, event)

    return scanning


def scan_present(settle):
    """Planted fault: scan all present restore points ten times at every request."""
    def scanning(ledger, *request):
        for _ in range(10 * len(ledger.present)):
            abs(0)
        return settle(ledger, *request)

    return scanning


@pytest.mark.part(2)
@pytest.mark.parametrize(("name", "planted"), [("record", scan_views), ("settle", scan_present)])
def test_a_planted_scan_of_all_restore_points_is_found(monkeypatch, name, planted):
    monkeypatch.setattr(RecomputeLedger, name, planted(getattr(RecomputeLedger, name)))
    (_, once), (_, twice) = pool_of(500), pool_of(1000)
    assert exponent(once, twice) > STEEPEST
