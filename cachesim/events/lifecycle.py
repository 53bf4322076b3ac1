"""Events of a request: its start and its end. Servers without slots number their requests instead."""

from __future__ import annotations

from cachesim.events.base import SlotEvent, frozen


@frozen
class Launch(SlotEvent, ev="launch"):
    is_child: int


@frozen
class Release(SlotEvent, ev="release"):
    n_tokens: int
    truncated: int
