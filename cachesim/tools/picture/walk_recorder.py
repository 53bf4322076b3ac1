"""Recorder of the memory at every event of a judged run."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from operator import itemgetter
from typing import Any, Iterator, Mapping, Sequence

import numpy as np

from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.inspection import Key, RowsPart
from cachesim.engines.shared.slot_events import PcLoad
from cachesim.events import Decided, Event, Gained, Lost
from cachesim.scenarios.runner import SilentObserver
from cachesim.scenarios.schema import Action, Step
from cachesim.tools.picture.event_stream import EventWalk, SlotContents, Span
from cachesim.tools.picture.slot_lanes import Columns

Marks = tuple[tuple[int, ...], ...]
MOST = 4                     # maximum number of row ranges; gaps between further ranges are not shown


def held(server: Server, slot: int, shared: bool) -> SlotContents:
    """Return the present contents of a slot. ``shared``: without restore points."""
    live = server.inspection.live(slot)
    state = None if live.state is None or live.state.pos < 0 else live.state.pos + 1
    packed = [part for part in live.rows if part.is_compressed]
    index = [part for part in live.rows if part.is_index]
    window = [part for part in live.rows if part.window]
    full = [part for part in live.rows if not (part.is_compressed or part.is_index or part.window)
            and (part.rows or not packed)]              # beside compressed rows: a table of positions without rows
    return SlotContents(
        len(live.tokens), _spans(full), _spans(window), _spans(index), _counts(packed, state or 0), state,
        () if shared else marks(server, slot),
    )  # fmt: skip


def _counts(parts: Sequence[RowsPart], tokens: int) -> tuple[Span, ...]:
    """Return each ratio, and the number of compressed rows that a slot shows after so many tokens. Its list of tokens
    may be longer: they are evaluated next."""
    found = {part.every: min(len(part.pos), tokens // part.every) for part in parts}
    return tuple((ratio, count) for ratio, count in sorted(found.items()) if count)


def marks(server: Server, slot: int) -> Marks:
    """Return the checkpoints of a slot: length, and pos_min and pos_max if the engine records them."""
    lengths, spans = server.inspection.checkpoints(slot), server.sequences.checkpoint_spans(slot)
    return tuple((n, *spans[i]) if spans else (n,) for i, n in enumerate(lengths))


def _spans(parts: Sequence[RowsPart]) -> tuple[Span, ...]:
    """Return the positions of all these parts as ranges."""
    each = {_stretches(part.pos) for part in parts if len(part.pos)}
    if len(each) < 2:
        return next(iter(each), ())
    return _stretches(np.unique(np.concatenate([part.pos for part in parts])))


def _stretches(pos: np.ndarray) -> tuple[Span, ...]:
    """Return (n,) positions as ranges lo .. hi-1, at most ``MOST``."""
    if (np.diff(pos) == 1).all():
        return ((int(pos[0]), int(pos[-1]) + 1),)
    pos = np.unique(pos)             # tokens of an image can have equal positions
    cuts = np.flatnonzero(np.diff(pos) > 1)
    starts, stops = pos[[0, *(cuts + 1)]], pos[[*cuts, -1]] + 1
    found = [(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]
    return (*found[: MOST - 1], (found[MOST - 1][0], found[-1][1])) if len(found) > MOST else tuple(found)


class WalkRecorder(SilentObserver):
    """Observer that records changes of the memory at every event. ``shared``: a server without slots, whose requests
    share all restore points.

    Without slots, only requests that may have changed are read: an answered request is read until it stays as it is for
    an event. Its restore points go on to change with those of all others, which are read once for all.
    """

    server: Server

    def __init__(self, shared: bool) -> None:
        self.shared, self.starts = shared, 0
        self.rows: list[int] = []
        self.first, self.last = dict[int, int](), dict[int, int]()
        self.held: dict[int, list[tuple[int, SlotContents]]] = {}
        self.owners: dict[int, list[tuple[int, int]]] = {}
        self.entries: list[tuple[int, Sequence[Span]]] = [(0, ())]
        self.columns, self.lengths = Columns(), Counter[int]()
        self.row, self.loading = -1, False                      # loading: an entry is being read into a slot
        self._begin()

    def _begin(self) -> None:
        """Forget the contents of the server's previous process."""
        self.stored: dict[Key, int] = {}                        # lengths of stored conversations
        self.own: dict[int, list[tuple[int, SlotContents]]] = {}        # as ``held``; without shared restore points
        self.points: list[tuple[int, Marks]] = []               # changes of the shared restore points
        self.unsettled: set[int] = set()                        # slots that may change at the next event
        self.known = 0                                          # slots that were read

    def started(self, server: Server) -> None:
        """Listen to a server, started first or after a restart. Its log may already have events."""
        self.server, self.starts = server, self.starts + 1
        if self.starts == 1:                                    # a restarted server continues the log
            server.log.add_listener(self.hear)
        self._settle()
        self._begin()
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
        self._read(len(self.rows) - 1)

    def _unheard(self, events: int) -> None:
        self.rows += [self.row] * (events - len(self.rows))

    def _read(self, k: int) -> None:
        """Record the contents of the slots and of the prompt cache at event k, if they changed."""
        inspection = self.server.inspection
        slots, occupied = inspection.n_slots, inspection.occupied_slots()
        if self.shared and slots:
            _keep(self.points, k, marks(self.server, 0))        # a tree may change before it reports its points
        watched = sorted({*occupied, *self.unsettled, *range(self.known, slots)})
        self.unsettled = {slot for slot in watched if self._read_slot(slot, k)}
        self.known = slots
        self._read_entries(k)

    def _read_slot(self, slot: int, k: int) -> bool:
        """Record the contents of a slot at event k, and the request whose tokens it holds. Return whether they may
        change at the next event."""
        answer, owners = self.server.inspection.answer_at(slot), self.owners.setdefault(slot, [])
        changed = _keep(self.own.setdefault(slot, []), k, held(self.server, slot, self.shared))
        if changed and self.loading:
            _keep(owners, k, self.row)                          # not launched yet
        elif answer is not None and (not owners or answer.request > owners[-1][1]):
            _keep(owners, k, answer.request)
        return changed or (answer is not None and answer.request not in self.last)

    def _read_entries(self, k: int) -> None:
        lengths = Counter(self.stored.values())
        if lengths != self.lengths:
            for tokens in (self.lengths - lengths).elements():
                self.columns.take(tokens)
            for tokens in (lengths - self.lengths).elements():
                self.columns.save(tokens, k)
            self.lengths = lengths
            self.entries.append((k, [(column, tokens) for column, (tokens, _) in sorted(self.columns.held.items())]))

    def _settle(self) -> None:
        """Add the contents of this process of the server to the record."""
        for slot, own in self.own.items():
            changes = self.held.setdefault(slot, [])
            for k, contents in with_points(own, self.points) if self.shared else own:
                _keep(changes, k, contents)

    def walk(self) -> EventWalk:
        """Return the complete record, including the memory at the end. Call it once, after the run."""
        events = self.server.log.events
        self._unheard(len(events))
        self._read(len(events))
        self._settle()
        begins, ends = ([places[number] for number in sorted(places)] for places in (self.first, self.last))
        return EventWalk(events, self.rows, begins, ends, self.held, self.owners, self.entries)


def with_points(
    own: Sequence[tuple[int, SlotContents]], points: Sequence[tuple[int, Marks]]
) -> Iterator[tuple[int, SlotContents]]:
    """Yield the changes of a request's contents and of the restore points that all requests share, from its first
    event on."""
    first, contents = own[0]
    before = bisect_right(points, first, key=itemgetter(0))
    shared = points[before - 1][1] if before else ()
    of_request, of_all = dict(own), dict(points[before:])
    for k in sorted({*of_request, *of_all}):
        contents, shared = of_request.get(k, contents), of_all.get(k, shared)
        yield k, contents._replace(checkpoints=shared)


def _keep(changes: list[tuple[int, Any]], k: int, value: object) -> bool:
    """Append a value that differs from the last. Return whether it did."""
    new = not changes or changes[-1][1] != value
    if new:
        changes.append((k, value))
    return new
