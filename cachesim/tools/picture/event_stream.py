"""Event log of a run with the server's memory at each event."""

from __future__ import annotations

from collections import Counter
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.inspection import Key, RowsPart
from cachesim.engines.shared.slot_events import PcLoad
from cachesim.events import Decided, Event, Gained, Log, Lost, Settled
from cachesim.scenarios.runner import Silent, play
from cachesim.scenarios.schema import Action, Scenario, Step
from cachesim.tools.picture.scene import TokenStretch
from cachesim.tools.picture.slot_lanes import Columns

# The run is repeated for this, without judging. The memory is stored as changes: a list of (event, value) for every
# slot and for the prompt cache. The value at an event is the last value whose event is not later.

Span = tuple[int, int]
MOST = 4                     # maximum number of row ranges; gaps between further ranges are not shown


class Held(NamedTuple):
    """Contents of a slot."""

    tokens: int = 0                                     # length of the slot's token list
    rows: Sequence[Span] = ()                           # ranges lo .. hi-1 of attention rows
    window: Sequence[Span] = ()                         # ranges lo .. hi-1 of window layers' rows
    state: int | None = None                            # position after the recurrent state, None = absent
    checkpoints: Sequence[Sequence[int]] = ()           # length, and pos_min and pos_max if the engine records them


class Walk(NamedTuple):
    """Event log of a run with the memory. The event number after the last stands for the end of the run."""

    events: Sequence[Event]
    rows: list[int]                                     # request of each event, -1 = before the first request
    begins: list[int]                                   # of each request: number of events before it was sent
    ends: list[int]                                     # of each request: number of events before it was answered
    held: dict[int, list[tuple[int, Held]]]             # of each slot: changes of its contents
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


def walk(scenario: Scenario, profile: str) -> Walk:
    """Run a scenario and record the memory at every event. Raise BadInput if it cannot run."""
    watcher = _Watcher(len(scenario.steps))
    log = play(scenario, profile, "provenance", watcher)
    return watcher.done(log)


def held(server: Server, slot: int) -> Held:
    """Return the present contents of a slot."""
    live, lengths = server.inspection.live(slot), server.inspection.checkpoints(slot)
    spans = server.sequences.checkpoint_spans(slot)
    marks = tuple((n, *spans[i]) if spans else (n,) for i, n in enumerate(lengths))
    state = None if live.state is None or live.state.pos < 0 else live.state.pos + 1
    full, window = ([part for part in live.rows if bool(part.window) is wanted] for wanted in (False, True))
    return Held(len(live.tokens), _spans(full), _spans(window), state, marks)


def _spans(parts: Sequence[RowsPart]) -> tuple[Span, ...]:
    """Return the positions of all these parts as ranges."""
    each = {_stretches(part.pos) for part in parts if len(part.pos)}
    if len(each) < 2:
        return next(iter(each), ())
    return _stretches(np.unique(np.concatenate([part.pos for part in parts])))


def _stretches(pos: np.ndarray) -> tuple[Span, ...]:
    """Return (n,) positions as ranges lo .. hi-1, at most ``MOST``."""
    low, high = int(pos.min()), int(pos.max()) + 1
    if high - low == len(pos):
        return ((low, high),)
    pos = np.sort(pos)
    cuts = np.flatnonzero(np.diff(pos) > 1)
    starts, stops = pos[[0, *(cuts + 1)]], pos[[*cuts, -1]] + 1
    found = [(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]
    return (*found[: MOST - 1], (found[MOST - 1][0], found[-1][1])) if len(found) > MOST else tuple(found)


class _Watcher(Silent):
    """Observer that records changes of the memory at every event."""

    server: Server

    def __init__(self, steps: int) -> None:
        self.rows: list[int] = []
        self.first, self.last = [0] * steps, [0] * steps
        self.held: dict[int, list[tuple[int, Held]]] = {}
        self.owners: dict[int, list[tuple[int, int]]] = {}
        self.entries: list[tuple[int, Sequence[Span]]] = [(0, ())]
        self.columns, self.lengths = Columns(), Counter[int]()
        self.stored: dict[Key, int] = {}                        # lengths of stored conversations
        self.row, self.loading = -1, False                      # loading: an entry is being read into a slot

    def started(self, server: Server) -> None:
        """Listen to a server, started first or after a restart. Its log may already have events."""
        self.server, self.stored = server, {}
        server.log.listener = self.hear
        self._unheard(len(server.log.events))

    def begins(self, number: int, step: Step) -> None:
        """Record the number of events before the step."""
        self.row, self.first[number] = number, len(self.rows)

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """Record the number of events before the answer."""
        self.last[number] = len(self.rows)

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        """Record the number of events before the end of a step that is not a completion."""
        self.last[number] = len(self.rows)

    def hear(self, event: Event) -> None:
        """Handle an event; the log contains it already."""
        if isinstance(event, Gained) and event.point.key[0] == "entry":
            self.stored[event.point.key] = event.point.n
        elif isinstance(event, Lost):
            self.stored.pop(event.key, None)
        self.loading = isinstance(event, PcLoad) or (self.loading and not isinstance(event, Decided))
        slot = getattr(event, "slot", None)
        answer = self.server.inspection.answer_at(slot) if slot is not None else None
        self._unheard(len(self.server.log.events) - 1)
        self.rows.append(self.row if answer is None else answer.request)
        self.look(len(self.rows) - 1)

    def _unheard(self, events: int) -> None:
        self.rows += [self.row] * (events - len(self.rows))

    def look(self, k: int) -> None:
        """Record the contents of every slot and of the prompt cache at event k, if they changed."""
        for slot in range(self.server.inspection.n_slots):
            answer, owners = self.server.inspection.answer_at(slot), self.owners.setdefault(slot, [])
            changed = _keep(self.held.setdefault(slot, []), k, held(self.server, slot))
            if changed and self.loading:
                _keep(owners, k, self.row)                      # not launched yet
            elif answer is not None and (not owners or answer.request > owners[-1][1]):
                _keep(owners, k, answer.request)
        lengths = Counter(self.stored.values())
        if lengths != self.lengths:
            for tokens in (self.lengths - lengths).elements():
                self.columns.take(tokens)
            for tokens in (lengths - self.lengths).elements():
                self.columns.save(tokens, k)
            self.lengths = lengths
            self.entries.append((k, [(column, tokens) for column, (tokens, _) in sorted(self.columns.held.items())]))

    def done(self, log: Log) -> Walk:
        """Return the complete record, including the memory at the end."""
        self._unheard(len(log.events))
        self.look(len(log.events))
        return Walk(log.events, self.rows, self.first, self.last, self.held, self.owners, self.entries)


def _keep(changes: list[tuple[int, Any]], k: int, value: object) -> bool:
    """Append a value that differs from the last. Return whether it did."""
    new = not changes or changes[-1][1] != value
    if new:
        changes.append((k, value))
    return new


END = 2**31 - 1              # a removal up to this position removes everything from its beginning on


class Told(NamedTuple):
    """An event log with the text of each event: ``RULE: decision``, a change of the memory, or "" for an event that is
    not shown. ``decisions``: True for events that are decisions with an effect."""

    walk: Walk
    says: Sequence[str]
    decisions: Sequence[bool]


def event_text(record: Mapping[str, Any]) -> str:
    """Return an event as text: its name and its numbers."""
    fields = {name: "end" if value == END else str(value).lower() if isinstance(value, bool) else value
              for name, value in record.items() if name != "ev" and value not in (None, "")}  # fmt: skip
    name = str(record["ev"])
    return f"{name}: {', '.join(f'{key} {value}' for key, value in fields.items())}" if fields else name
