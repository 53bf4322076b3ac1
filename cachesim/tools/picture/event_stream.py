"""Event log and memory of a run as compact data for the script of a page: sentences as numbers in shared forms, memory
as a list of changes."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections import Counter
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.inspection import Key, RowsPart
from cachesim.events import Event, Gained, Log, Lost
from cachesim.scenarios.runner import Silent, play
from cachesim.scenarios.schema import Action, Scenario, Step
from cachesim.tools.picture.position_scale import HEAD, STEP, TOP
from cachesim.tools.picture.slot_lanes import SHOWN, Columns
from cachesim.tools.picture.svg import Drawn

# Event log of a run with the server's memory at each event, for the slider of a page.
#
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


def walk(scenario: Scenario, profile: str) -> Walk:
    """Run a scenario and record the memory at every event. Raise BadInput if it cannot run."""
    watcher = _Watcher(len(scenario.steps))
    log = play(scenario, profile, "provenance", watcher)
    return watcher.done(log)


def held(server: Server, slot: int) -> Held:
    """Return the present contents of a slot."""
    live, lengths, spans = server.live(slot), server.checkpoints(slot), server.checkpoint_spans(slot)
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
        self.row = -1

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
        slot = getattr(event, "slot", None)
        answer = self.server.answer_at(slot) if slot is not None else None
        self._unheard(len(self.server.log.events) - 1)
        self.rows.append(self.row if answer is None else answer.request)
        self.look(len(self.rows) - 1)

    def _unheard(self, events: int) -> None:
        self.rows += [self.row] * (events - len(self.rows))

    def look(self, k: int) -> None:
        """Record the contents of every slot and of the prompt cache at event k, if they changed."""
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
        """Return the complete record, including the memory at the end."""
        self._unheard(len(log.events))
        self.look(len(log.events))
        return Walk(log.events, self.rows, self.first, self.last, self.held, self.owners, self.entries)


def _keep(changes: list[tuple[int, Any]], k: int, value: object) -> None:
    if not changes or changes[-1][1] != value:
        changes.append((k, value))


NUMBER = re.compile(r"(?<![\w#-])(?<!\w\.)\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
GAP = "\t"
END = 2**31 - 1              # a removal up to this position removes everything from its beginning on


class Told(NamedTuple):
    """An event log with the text of each event: ``RULE: decision`` or the event with its numbers. ``decisions``: True
    for events that are decisions with an effect."""

    walk: Walk
    says: Sequence[str]
    decisions: Sequence[bool]


def event_text(record: Mapping[str, Any]) -> str:
    """Return an event as text: its name and its numbers."""
    fields = {name: "end" if value == END else str(value).lower() if isinstance(value, bool) else value
              for name, value in record.items() if name != "ev" and value not in (None, "")}  # fmt: skip
    name = str(record["ev"])
    return f"{name}: {', '.join(f'{key} {value}' for key, value in fields.items())}" if fields else name


def script_data(drawn: Sequence[Drawn], told: Sequence[Told]) -> str:
    """Return JSON with the forms of all sentences, and each run."""
    forms: dict[str, int] = {}
    runs = [_run(one, other, forms) for one, other in zip(drawn, told, strict=False)]
    return json.dumps({"forms": list(forms), "runs": runs}, separators=(",", ":"), ensure_ascii=False)


def packed(text: str) -> str:
    """Return text for a browser's DecompressionStream: deflated, base64. Logs shrink to about a tenth."""
    return b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")


def _run(drawn: Drawn, told: Told, forms: dict[str, int]) -> dict[str, Any]:
    walk, lanes, scale = told.walk, drawn.lanes, drawn.scale
    return {
        "log": "\n".join(_line(says, forms) for says in told.says),
        "rows": flat(enumerate(walk.rows)), "begins": walk.begins, "ends": walk.ends,
        "slots": {slot: _slot(walk, slot) for slot in walk.held},
        "entries": flat((k, [list(one) for one in some if one[0] < SHOWN]) for k, some in walk.entries),
        "at": list(scale.at), "x": [round(scale.left + x, 1) for x in scale.x], "top": TOP, "step": STEP,
        "width": [round(drawn.plain), round(drawn.width)], "names": lanes.names, "head": [HEAD, TOP - 16],
        "cache": [lanes.cache, lanes.entry(0), lanes.entry(1)],
        "lanes": [lanes.slot(row.slot) for row in drawn.scene.rows],
        "taken": [row.number for row in drawn.scene.rows if row.entries.consumed],
    }  # fmt: skip


def _slot(walk: Walk, slot: int) -> dict[str, Any]:
    """Return the contents of a slot, each field as changes; "owner" is the request whose tokens it holds."""
    changes = {name: flat((k, _plain(getattr(one, name))) for k, one in walk.held[slot]) for name in Held._fields}
    return {"owner": flat(walk.owners.get(slot, [])), **changes}


def _plain(value: Any) -> Any:
    return [list(one) for one in value] if isinstance(value, tuple) else value


def flat(changes: Iterable[tuple[int, Any]]) -> list[Any]:
    """Return the pairs as a flat list with distances between events; pairs that repeat the value are dropped."""
    out: list[Any] = []
    before = 0
    for k, value in changes:
        if not out or out[-1] != value:
            out += [k - before, value]
            before = k
    return out


def _line(says: str, forms: dict[str, int]) -> str:
    """Return a sentence as the number of its form and the numbers in it."""
    says = says.replace(GAP, " ")
    numbers = NUMBER.findall(says)
    return " ".join([str(forms.setdefault(NUMBER.sub(GAP, says), len(forms))), *numbers])
