"""The event log of a run, and what the server held at each event: what the slider of a page walks.

A run is played once more for it, without judging. What is kept of the memory are changes: of every slot and of the
prompt cache a list of (event, value), so that the value at any event is the last one that is not later.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.judge_view import Key, RowsPart
from cachesim.events import Event, Gained, Log, Lost
from cachesim.scenarios.runner import Silent, play
from cachesim.scenarios.schema import Action, Scenario, Step
from cachesim.tools.picture.lanes import Columns

Span = tuple[int, int]
MOST = 4                     # stretches of rows that are kept apart; what lies between more of them is not shown


class Held(NamedTuple):
    """What a slot holds: ``tokens`` that the engine believes to be in it, stretches lo .. hi-1 of rows of attention and
    of window layers, the position behind a recurrent state (None = there is none), and of each checkpoint its length,
    pos_min and pos_max (without these where the engine keeps none)."""

    tokens: int = 0
    rows: Sequence[Span] = ()
    window: Sequence[Span] = ()
    state: int | None = None
    checkpoints: Sequence[Sequence[int]] = ()



class Walk(NamedTuple):
    """``events`` in order, and the request that each belongs to (``rows``; -1 = none was sent yet). ``begins`` and
    ``ends``: of every request, the number of events before it was sent, and before it was answered. ``held``: of every
    slot, (event, what it held from there on); ``owners``: (event, the request whose tokens these are); ``entries``: of
    the prompt cache, (event, column in its lane and length of each conversation). An event one behind the last stands
    for the end."""

    events: Sequence[Event]
    rows: list[int]
    begins: list[int]
    ends: list[int]
    held: dict[int, list[tuple[int, Held]]]
    owners: dict[int, list[tuple[int, int]]]
    entries: list[tuple[int, Sequence[Span]]]

    def behind(self, request: int, rule: str, cause: str) -> int | None:
        """The last event of a request at which a rule changed the memory for this cause (the word of an account), or
        decided; None = there is none."""
        stop = self.begins[request + 1] if request + 1 < len(self.begins) else len(self.events)
        cause = "evaluated" if cause == "advanced" else cause
        mine = range(stop - 1, self.begins[request] - 1, -1)
        found = [k for k in mine if getattr(self.events[k], "rule", "") == rule]
        changed = (k for k in found if getattr(self.events[k], "cause", cause) == cause)
        return next(changed, None)


def walk(scenario: Scenario, profile: str) -> Walk:
    """Play a run and look at the server at every event. Raises BadInput."""
    watcher = _Watcher(len(scenario.steps))
    log = play(scenario, profile, "provenance", watcher)
    return watcher.done(log)


def held(server: Server, slot: int) -> Held:
    """What a slot holds right now."""
    live, lengths, spans = server.live(slot), server.checkpoints(slot), server.checkpoint_spans(slot)
    marks = tuple((n, *spans[i]) if spans else (n,) for i, n in enumerate(lengths))
    state = None if live.state is None or live.state.pos < 0 else live.state.pos + 1
    full, window = ([part for part in live.rows if bool(part.window) is wanted] for wanted in (False, True))
    return Held(len(live.tokens), _spans(full), _spans(window), state, marks)


def _spans(parts: Sequence[RowsPart]) -> tuple[Span, ...]:
    """Positions that any of these parts holds, as stretches."""
    each = {_stretches(part.pos) for part in parts if len(part.pos)}
    if len(each) < 2:
        return next(iter(each), ())
    return _stretches(np.unique(np.concatenate([part.pos for part in parts])))


def _stretches(pos: np.ndarray) -> tuple[Span, ...]:
    """(n,) positions as stretches."""
    low, high = int(pos.min()), int(pos.max()) + 1
    if high - low == len(pos):
        return ((low, high),)
    pos = np.sort(pos)
    cuts = np.flatnonzero(np.diff(pos) > 1)
    starts, stops = pos[[0, *(cuts + 1)]], pos[[*cuts, -1]] + 1
    found = [(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]
    return (*found[: MOST - 1], (found[MOST - 1][0], found[-1][1])) if len(found) > MOST else tuple(found)


class _Watcher(Silent):
    """Looks at the server at every event, and keeps what is no longer as it was."""

    server: Server

    def __init__(self, steps: int) -> None:
        self.rows: list[int] = []
        self.first, self.last = [0] * steps, [0] * steps
        self.held: dict[int, list[tuple[int, Held]]] = {}
        self.owners: dict[int, list[tuple[int, int]]] = {}
        self.entries: list[tuple[int, Sequence[Span]]] = [(0, ())]
        self.columns, self.lengths = Columns(), Counter[int]()
        self.stored: dict[Key, int] = {}                        # lengths of stored conversations
        self.row = -1

    def started(self, server: Server) -> None:
        """A server has started, the first one or after a restart; what it told by then was heard by nobody."""
        self.server, self.stored = server, {}
        server.log.listener = self.hear
        self._unheard(len(server.log.events))

    def begins(self, number: int, step: Step) -> None:
        """The step comes next."""
        self.row, self.first[number] = number, len(self.rows)

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """A request is answered."""
        self.last[number] = len(self.rows)

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        """A step that is no completion is done."""
        self.last[number] = len(self.rows)

    def hear(self, event: Event) -> None:
        """Told of every event: one that the log has already."""
        if isinstance(event, Gained) and event.point.key[0] == "entry":
            self.stored[event.point.key] = event.point.n
        elif isinstance(event, Lost):
            self.stored.pop(event.key, None)
        slot = getattr(event, "slot", None)
        answer = self.server.answer_at(slot) if slot is not None else None
        self._unheard(len(self.server.log.events) - 1)
        self.rows.append(self.row if answer is None else answer.request)
        self.look(len(self.rows) - 1)

    def _unheard(self, events: int) -> None:
        self.rows += [self.row] * (events - len(self.rows))

    def look(self, k: int) -> None:
        """Keep what every slot and the prompt cache hold at event k, where that is new."""
        for slot in range(self.server.n_slots):
            answer = self.server.answer_at(slot)
            if answer is not None:
                _keep(self.owners.setdefault(slot, []), k, answer.request)
            _keep(self.held.setdefault(slot, []), k, held(self.server, slot))
        lengths = Counter(self.stored.values())
        if lengths != self.lengths:
            for tokens in (self.lengths - lengths).elements():
                self.columns.take(tokens)
            for tokens in (lengths - self.lengths).elements():
                self.columns.save(tokens, k)
            self.lengths = lengths
            self.entries.append((k, [(column, tokens) for column, (tokens, _) in sorted(self.columns.held.items())]))

    def done(self, log: Log) -> Walk:
        """All of it, with what is held when everything is over."""
        self._unheard(len(log.events))
        self.look(len(log.events))
        return Walk(log.events, self.rows, self.first, self.last, self.held, self.owners, self.entries)


def _keep(changes: list[tuple[int, Any]], k: int, value: object) -> None:
    if not changes or changes[-1][1] != value:
        changes.append((k, value))
