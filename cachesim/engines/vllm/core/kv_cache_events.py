"""Events of the block pool, and of the lookups and allocations of requests.

The server logs none of them; recordings of its classes hold all.
"""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.engines.shared.class_recording import RecordedEvent
from cachesim.events import frozen

Blocks = Sequence[int]


@frozen
class Touched(RecordedEvent, ev="touch"):
    """Found blocks have a user more."""

    blocks: Blocks


@frozen
class Evicted(RecordedEvent, ev="evict"):
    """A block lost its keys."""

    block: int
    hashes: Sequence[int]


@frozen
class Keyed(RecordedEvent, ev="key"):
    """Blocks of a group can be found: each under a hash, which stands for so many ``tokens`` of a prompt."""

    group: int
    blocks: Blocks
    hashes: Sequence[int]
    tokens: Sequence[int]

    def rows(self) -> list[list[Any]]:
        return [[self.ev, block, digest, self.group, end]
                for block, digest, end in zip(self.blocks, self.hashes, self.tokens, strict=True)]


@frozen
class Moved(RecordedEvent, ev="move"):
    """The keys of a block now belong to its copy."""

    block: int
    copy: int


@frozen
class Freed(RecordedEvent, ev="free"):
    """Blocks lost a user: those that joined the free list at the front, at the back, and those that are in use."""

    front: Blocks
    back: Blocks
    used: Blocks


@frozen
class LookedUp(RecordedEvent, ev="lookup"):
    """A request was looked up: ``hit`` tokens are cached. ``junction``: tokens that one group alone has, 0 = no more
    than the hit. ``tables``: the blocks found for each group, 0 = the null block."""

    request: int
    hit: int
    junction: int
    tables: Sequence[Blocks]


@frozen
class AskedForBlocks(RecordedEvent, ev="alloc"):
    """A request asks for blocks: tokens computed, tokens found now, tokens to compute, tokens behind them."""

    request: int
    computed: int
    hit: int
    new: int
    lookahead: int


@frozen
class Got(RecordedEvent, ev="got"):
    """The blocks that the request got, for each group."""

    blocks: Sequence[Blocks]


@frozen
class Refused(RecordedEvent, ev="no"):
    """The request got no blocks: too few are free."""


@frozen
class Preempted(RecordedEvent, ev="preempt"):
    """A running request with so many computed tokens was preempted."""

    request: int
    computed: int
