"""Lookups and allocations of requests with block tables, as events."""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.shared.class_recording import RecordedEvent
from cachesim.engines.vllm.core.block_pool import Blocks
from cachesim.events import frozen


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
