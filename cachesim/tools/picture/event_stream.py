"""Event log of a run with the server's memory at each event."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.events import Event, Settled
from cachesim.tools.picture.scene import TokenStretch

# The memory is stored as changes: a list of (event, value) for every slot and for the prompt cache. The value at an
# event is the last value whose event is not later.

Span = tuple[int, int]


class SlotContents(NamedTuple):
    """Contents of a slot."""

    tokens: int = 0                                     # length of the slot's token list
    rows: Sequence[Span] = ()                           # ranges lo .. hi-1 of attention rows
    window: Sequence[Span] = ()                         # ranges lo .. hi-1 of window layers' rows
    index_rows: Sequence[Span] = ()                     # ranges lo .. hi-1 of index rows
    compressed: Sequence[Span] = ()                     # tokens that a compressed row stands for, number of rows
    state: int | None = None                            # position after the recurrent state, None = absent
    checkpoints: Sequence[Sequence[int]] = ()           # length, and pos_min and pos_max if the engine records them


class EventWalk(NamedTuple):
    """Event log of a run with the memory. The event number after the last stands for the end of the run."""

    events: Sequence[Event]
    rows: list[int]                                     # request of each event, -1 = before the first request
    begins: list[int]                                   # of each request: number of events before it was sent
    ends: list[int]                                     # of each request: number of events before it was answered
    held: dict[int, list[tuple[int, SlotContents]]]             # of each slot: changes of its contents
    owners: dict[int, list[tuple[int, int]]]            # of each slot: changes of the request whose tokens it holds
    entries: list[tuple[int, Sequence[Span]]]           # changes of the prompt cache: lane column and length of entries

    def behind(self, request: int, rule: str, cause: str) -> int | None:
        """Return the last event of a request at which a rule changed the memory for this cause (an event name of a
        charge), or decided, or None."""
        stop = self.begins[request + 1] if request + 1 < len(self.begins) else len(self.events)
        cause = "evaluated" if cause == "advanced" else cause
        mine = range(stop - 1, self.begins[request] - 1, -1)
        found = [k for k in mine if getattr(self.events[k], "rule", "") == rule]
        changed = (k for k in found if getattr(self.events[k], "cause", cause) == cause)
        return next(changed, None)

    def settled(self) -> list[int]:
        """Return the event of each request at which its slot was cut back to the tokens that it reuses; its first event
        if there is none."""
        cut = {self.rows[k]: k for k, event in enumerate(self.events) if isinstance(event, Settled)}
        return [cut.get(row, begin) for row, begin in enumerate(self.begins)]

    def lost(self, request: int, part: TokenStretch) -> int | None:
        """Return the event that lost tokens which a request evaluates again, or None."""
        return self.behind(part.at if part.at >= 0 else request, part.rule, part.lost[0]) if part.rule else None


END = 2**31 - 1              # a removal up to this position removes everything from its beginning on


class CaptionedWalk(NamedTuple):
    """An event log with the text of each event: ``RULE: decision``, a change of the memory, or "" for an event that is
    not shown. ``decisions``: True for events that are decisions with an effect."""

    walk: EventWalk
    says: Sequence[str]
    decisions: Sequence[bool]


def event_text(record: Mapping[str, Any]) -> str:
    """Return an event as text: its name and its numbers."""
    fields = {name: "end" if value == END else str(value).lower() if isinstance(value, bool) else value
              for name, value in record.items() if name != "ev" and value not in (None, "")}  # fmt: skip
    name = str(record["ev"])
    return f"{name}: {', '.join(f'{key} {value}' for key, value in fields.items())}" if fields else name
