"""What happens to blocks. Nobody recorded such a server: all are silent."""

from __future__ import annotations

from cachesim.events import Event, SlotEvent, frozen


@frozen
class Evicted(Event):
    """A block of this group lost what it held: everything behind the first ``end`` tokens of some prompt, or a state
    there."""

    ev = "block_evicted"
    logged = False
    group: str
    end: int


@frozen
class Preempted(SlotEvent):
    """A request of so many evaluated tokens was put back, to begin again."""

    ev = "preempted"
    logged = False
    n_tokens: int
