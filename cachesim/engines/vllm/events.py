"""Events of the block pool and the scheduler. The server logs none of them; recordings of its classes hold all.

Blocks are numbered from 0, the null block; hashes are numbers of chains of tokens; ``group`` is a group of layers.
"""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.base.errors import ProcessAborted
from cachesim.events import Event, frozen

Blocks = Sequence[int]


class Died(ProcessAborted):
    """An exception left the engine's core: the process ends. ``kind``: the function that raised it."""


@frozen
class LookedUp(Event, ev="lookup", logged=False):
    """A request was looked up: ``hit`` tokens are cached. ``junction``: tokens that one group alone has, 0 = no more
    than the hit. ``tables``: the blocks found for each group, 0 = the null block."""

    request: int
    hit: int
    junction: int
    tables: Sequence[Blocks]


@frozen
class Asked(Event, ev="alloc", logged=False):
    """A request asks for blocks: tokens computed, tokens found now, tokens to compute, tokens behind them."""

    request: int
    computed: int
    hit: int
    new: int
    lookahead: int


@frozen
class Got(Event, ev="got", logged=False):
    """The blocks that the request got, for each group."""

    blocks: Sequence[Blocks]


@frozen
class Refused(Event, ev="no", logged=False):
    """The request got no blocks: too few are free."""


@frozen
class Touched(Event, ev="touch", logged=False):
    """Found blocks have a user more."""

    blocks: Blocks


@frozen
class Evicted(Event, ev="evict", logged=False):
    """A block lost its keys."""

    block: int
    hashes: Sequence[int]


@frozen
class Keyed(Event, ev="key", logged=False):
    """A block can be found under a hash, which stands for the first ``tokens`` tokens of a prompt."""

    block: int
    hash: int
    group: int
    tokens: int


@frozen
class Moved(Event, ev="move", logged=False):
    """The keys of a block now belong to its copy."""

    block: int
    copy: int


@frozen
class Freed(Event, ev="free", logged=False):
    """Blocks lost a user: those that joined the free list at the front, at the back, and those that are in use."""

    front: Blocks
    back: Blocks
    used: Blocks


@frozen
class Preempted(Event, ev="preempt", logged=False):
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


def recorded(event: Event) -> list[Any] | None:
    """Return an event of the block pool or the scheduler as a recording holds it, None for any other."""
    if not isinstance(event, LookedUp | Asked | Got | Refused | Touched | Evicted | Keyed | Moved | Freed | Preempted):
        return None
    row = [event.ev, *(getattr(event, name) for name in event.__match_args__)]
    if isinstance(event, LookedUp | Freed) and not row[-1]:
        row.pop()
    return row
