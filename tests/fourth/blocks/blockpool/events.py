"""Events of blocks. The engine has no recordings, so all events are silent."""

from __future__ import annotations

from cachesim.events import Event, SlotEvent, frozen


@frozen
class Evicted(Event):
    """A block of this group lost its content: the rows that end after the first ``end`` tokens of a prompt, or the
    state there."""

    ev = "block_evicted"
    logged = False
    group: str
    end: int


@frozen
class Preempted(SlotEvent):
    """A request with so many evaluated tokens was preempted and restarts later."""

    ev = "preempted"
    logged = False
    n_tokens: int
