"""Events of the block tables and the scheduler. The server logs none of them; recordings of its classes hold all.

Blocks are numbered from 0, the null block; hashes are numbers of chains of tokens; ``group`` is a group of layers.
"""

from __future__ import annotations

from typing import Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.engines.shared.block_pool import Blocks
from cachesim.engines.shared.class_recording import RecordedEvent
from cachesim.events import Event, frozen


class Died(ProcessAborted):
    """An exception left the engine's core: the process ends. ``kind``: the function that raised it."""


@frozen
class LookedUp(RecordedEvent, ev="lookup"):
    """A request was looked up: ``hit`` tokens are cached. ``junction``: tokens that one group alone has, 0 = no more
    than the hit. ``tables``: the blocks found for each group, 0 = the null block."""

    request: int
    hit: int
    junction: int
    tables: Sequence[Blocks]


@frozen
class Asked(RecordedEvent, ev="alloc"):
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


@frozen
class DraftRowsWrong(Event, ev="draft_rows_wrong", logged=False):
    """The drafter of a request reads a row that was written before another token: only its drafts suffer."""

    request: int
    group: int
    position: int
    block: int
