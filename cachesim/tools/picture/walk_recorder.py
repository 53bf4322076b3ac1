"""Recorder of the memory at every event of a judged run."""

from __future__ import annotations

from collections import Counter
from typing import Any, Mapping, Sequence

import numpy as np

from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.inspection import Key, RowsPart
from cachesim.events import Decided, Event, Gained, Lost, PcLoad
from cachesim.scenarios.runner import Silent
from cachesim.scenarios.schema import Action, Step
from cachesim.tools.picture.event_stream import Held, Span, Walk
from cachesim.tools.picture.slot_lanes import Columns

MOST = 4                     # maximum number of row ranges; gaps between further ranges are not shown


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


class WalkRecorder(Silent):
    """Observer that records changes of the memory at every event."""

    server: Server

    def __init__(self) -> None:
        self.starts = 0
        self.rows: list[int] = []
        self.first, self.last = dict[int, int](), dict[int, int]()
        self.held: dict[int, list[tuple[int, Held]]] = {}
        self.owners: dict[int, list[tuple[int, int]]] = {}
        self.entries: list[tuple[int, Sequence[Span]]] = [(0, ())]
        self.columns, self.lengths = Columns(), Counter[int]()
        self.stored: dict[Key, int] = {}                        # lengths of stored conversations
        self.row, self.loading = -1, False                      # loading: an entry is being read into a slot

    def started(self, server: Server) -> None:
        """Listen to a server, started first or after a restart. Its log may already have events."""
        self.server, self.stored, self.starts = server, {}, self.starts + 1
        if self.starts == 1:                            # a restarted server continues the log
            server.log.add_listener(self.hear)
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

    def walk(self) -> Walk:
        """Return the complete record, including the memory at the end. Call it after the run."""
        events = self.server.log.events
        self._unheard(len(events))
        self.look(len(events))
        begins, ends = ([places[number] for number in sorted(places)] for places in (self.first, self.last))
        return Walk(events, self.rows, begins, ends, self.held, self.owners, self.entries)


def _keep(changes: list[tuple[int, Any]], k: int, value: object) -> bool:
    """Append a value that differs from the last. Return whether it did."""
    new = not changes or changes[-1][1] != value
    if new:
        changes.append((k, value))
    return new
