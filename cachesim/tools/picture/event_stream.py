"""A walk as data for the script of a page: the log as numbers in sentences that are written once, and the memory as
changes."""

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

# The event log of a run, and what the server held at each event: what the slider of a page walks.
#
# A run is played once more for it, without judging. What is kept of the memory are changes: of every slot and of the
# prompt cache a list of (event, value), so that the value at any event is the last one that is not later.

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


NUMBER = re.compile(r"(?<![\w#-])(?<!\w\.)\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
GAP = "\t"
END = 2**31 - 1              # a removal up to here is one of everything behind its beginning


class Told(NamedTuple):
    """A walk, and each of its events in words: ``RULE: what it decided`` or the event with its numbers. ``decisions``:
    which of them are decisions that changed something."""

    walk: Walk
    says: Sequence[str]
    decisions: Sequence[bool]


def event_text(record: Mapping[str, Any]) -> str:
    """An event as a log has it: its name and its numbers."""
    fields = {name: "end" if value == END else str(value).lower() if isinstance(value, bool) else value
              for name, value in record.items() if name != "ev" and value not in (None, "")}  # fmt: skip
    name = str(record["ev"])
    return f"{name}: {', '.join(f'{key} {value}' for key, value in fields.items())}" if fields else name


def script_data(drawn: Sequence[Drawn], told: Sequence[Told]) -> str:
    """JSON: the forms of all sentences, and each run."""
    forms: dict[str, int] = {}
    runs = [_run(one, other, forms) for one, other in zip(drawn, told, strict=False)]
    return json.dumps({"forms": list(forms), "runs": runs}, separators=(",", ":"), ensure_ascii=False)


def packed(text: str) -> str:
    """Text as a browser's DecompressionStream reads it: deflated, base64. A log repeats itself: a tenth is left."""
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
        "lanes": [lanes.slot(row.slot) for row in drawn.one.rows],
        "taken": [row.number for row in drawn.one.rows if row.entries.consumed],
    }  # fmt: skip


def _slot(walk: Walk, slot: int) -> dict[str, Any]:
    """What a slot held, each kind of it by itself; "owner" is the request whose tokens these are."""
    changes = {name: flat((k, _plain(getattr(one, name))) for k, one in walk.held[slot]) for name in Held._fields}
    return {"owner": flat(walk.owners.get(slot, [])), **changes}


def _plain(value: Any) -> Any:
    return [list(one) for one in value] if isinstance(value, tuple) else value


def flat(changes: Iterable[tuple[int, Any]]) -> list[Any]:
    """Pairs in one list, without those that change nothing; of every event only how far it is behind the one before."""
    out: list[Any] = []
    before = 0
    for k, value in changes:
        if not out or out[-1] != value:
            out += [k - before, value]
            before = k
    return out


def _line(says: str, forms: dict[str, int]) -> str:
    """A sentence as the number of its form and the numbers in it."""
    says = says.replace(GAP, " ")
    numbers = NUMBER.findall(says)
    return " ".join([str(forms.setdefault(NUMBER.sub(GAP, says), len(forms))), *numbers])
