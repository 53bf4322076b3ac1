"""Rows of requests: what the client sent, what the server answered, and what its log says about the same request.

``paired_halves`` finds the log row of a reply. A log row without a reply, or a reply without a log row, is printed
alone after a while.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence
from weakref import ref

from cachesim.base.errors import BadInput, OverLimit
from cachesim.tools.request_bodies.prompt_causes import EXTENDS, HARMLESS, NEW
from cachesim.tools.request_bodies.reported_counts import Stated, reported_counts, take_counts
from cachesim.tools.watch.paired_halves import ClientHalf, LogHalf, PairedHalves, WaitingHalves, joined
from cachesim.tools.watch.recent_bodies import KeptBody, RecentBodies
from cachesim.tools.watch.server_losses import UNKNOWN, UNREACHABLE, BodyLink, ServedRequest, ServerLosses
from cachesim.tools.watch.watched_exchange import CLIENT_LEFT, INCOMPLETE, WHOLE, WatchedExchange

Row = dict[str, Any]
HALVES = 4_096               # replies that wait for their log rows, at most
ROWS = 4_096                 # log rows that wait for their replies, at most
OK = 200                     # HTTP status
_ACTION = re.compile(r"/slots/(?P<slot>\d{1,9})\?(?:[^#]*&)?action=(?P<action>erase|restore)(?=&|#|$)")
APART = 32                   # rows of the other side that end a wait for the missing half
LOOKS = 25                   # looks at the log that end a wait for a half that will not come
TOO_LATE = "the relay was ending"
TOO_MANY = "the body has too many values"
UNUSABLE = "the body cannot be read"
FAULT = "a fault of cachesim, please open an issue with this body"
NO_REPLY = "the reply was not read: too many bytes were held"
COMPRESSED = "the reply was not read: not gzip or deflate, damaged, or larger than 16 MiB"
"""Reasons for which a request is left out, besides those of an exchange."""
NUMBERS = ("prompt", "reused", "evaluated", "generated")
"""Numbers of a reply."""


def _stated(exchange: WatchedExchange) -> Stated:
    """Return the counts at the end of a reply, by the name of their object."""
    stated: Stated = {}
    for event in _events(bytes(exchange.reply[-(1 << 16) :] + exchange.rest)):
        take_counts(event, stated)
    return stated


def _numbers(stated: Stated) -> dict[str, int | None]:
    """Return the numbers of a row from the counts of a reply."""
    counts = reported_counts(stated)
    return {name: getattr(counts, name) for name in NUMBERS}


def _events(data: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the last JSON objects of a reply: the whole reply, or events of a stream."""
    lines = [line[5:] for line in data.split(b"\n") if line.startswith(b"data:")] or [data]
    for line in lines[-4:]:
        try:
            event = json.loads(line.decode())            # given bytes, json would guess the encoding
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


@dataclass(frozen=True, slots=True)
class _Compared:
    """A request whose reply is awaited: what the comparison of its prompts found. ``sent``: moment."""

    sent: int
    kept: Sequence[ref[KeptBody]] = ()
    rows: Sequence[Row] = ()
    links: Sequence[BodyLink] = ()
    note: str = ""


@dataclass(slots=True)
class JoinedRows:
    """Rows made from exchanges and from log rows. ``has_log``: a log is read, too; ``is_over``: returns whether no
    further request is compared; ``left_out``: number of requests that were not compared or not read, by reason."""

    bodies: RecentBodies
    has_log: bool
    is_over: Callable[[], bool] = lambda: False
    totals: Counter[str] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    losses: ServerLosses = field(default_factory=ServerLosses)
    open_columns: set[str] = field(default_factory=set)      # columns with rows whose number is unknown
    _moment: int = 0
    _compared: dict[int, _Compared] = field(default_factory=dict)
    _halves: WaitingHalves = field(default_factory=WaitingHalves)

    def sent(self, exchange: WatchedExchange) -> Sequence[Row]:
        """Compare a request that is complete, before its reply is known; return what the comparison of each of its
        prompts found, [] if it could not be compared."""
        kept, note = list[KeptBody](), ""
        if exchange.method != "POST" or not exchange.size:
            return []
        why = exchange.left_out or ("" if exchange.is_sent else INCOMPLETE) or (TOO_LATE if self.is_over() else "")
        if not why:
            try:
                kept = self.bodies.add(exchange.target, bytes(exchange.body))
            except BadInput as error:
                why, note = TOO_MANY if isinstance(error, OverLimit) else UNUSABLE, f"not compared: {error}"
            except Exception as error:                       # whatever it is, the next request is compared
                why, note = FAULT, f"not compared: {FAULT} ({type(error).__name__})"
        if why:
            self.left_out[why] += 1
            note = note or f"not compared: {why}"
        rows = [self.bodies.row(one) for one in kept]
        links = [BodyLink(one.number, one.before, one.conversation, one.forbids_reuse) for one in kept]
        if rows or note:
            weak = [ref(one) for one in kept]                # it may be dropped meanwhile
            self._compared[id(exchange)] = _Compared(self._next_moment(), weak, rows, links, note)
            self._halves.open += 1
        exchange.forget_body()
        return rows

    def unreachable(self) -> None:
        """Take note that the server refused a connection."""
        self.losses.note(self._next_moment(), UNREACHABLE)

    def _next_moment(self) -> int:
        self._moment += 1
        return self._moment

    def ended(self, exchange: WatchedExchange) -> Iterator[Row]:
        """Yield the rows that the end of an exchange completes."""
        compared, stated = self._compared.pop(id(exchange), None), _stated(exchange)
        if compared is None:
            self.totals["other"] += 1                    # a list of models, a health check
            self._read_other(exchange, stated)
            return
        self._halves.open -= 1
        self.left_out[NO_REPLY] += exchange.is_reply_left_out
        self.left_out[COMPRESSED] += exchange.is_reply_unread
        first = compared.kept[0]() if compared.kept else None
        if first is not None and exchange.end == WHOLE and exchange.reply_size == len(exchange.reply):
            self.bodies.read_answer(first, bytes(exchange.reply))
        numbers, moment = _numbers(stated), self._next_moment()
        slot = stated.get(("event", "id_slot"))
        is_single = len(compared.rows) < 2
        is_left = exchange.has_client_left and numbers["evaluated"] is None and numbers["generated"] is None
        note = compared.note or (COMPRESSED if exchange.is_reply_unread else "")
        for number, found in enumerate(compared.rows or [{}]):
            row = {"source": "client", "target": exchange.path, "status": exchange.status or None,
                   "end": CLIENT_LEFT if is_left else exchange.end, "note": note, "slot": slot,
                   **(numbers if is_single else dict.fromkeys(NUMBERS)), **found}  # fmt: skip
            link = compared.links[number] if compared.links else BodyLink()
            half = ClientHalf(row=row, link=link, sent=compared.sent, ended=moment, slot=slot)
            self._serve(half, row)
            if self.has_log:
                self._halves.clients.append(half)
            else:
                yield self._counted(row, half)
        yield from self._pair()
        for one in self._halves.logged:
            one.since += 1
        yield from self._overdue()

    def logged(self, row: Row, is_alone: bool = False) -> Iterator[Row]:
        """Yield the rows that a log row completes. ``is_alone``: no clients are watched."""
        if is_alone:
            yield self._counted(row)
            return
        self._halves.logged.append(LogHalf(row))
        yield from self._pair()
        for one in self._halves.clients:
            if one.looks > 0:
                one.since += 1
        yield from self._overdue()

    @property
    def is_behind(self) -> bool:
        """True if so many replies wait that the log must be read before further copies."""
        return len(self._halves.clients) >= HALVES // 2

    def read_to_end(self, is_quiet: bool = True) -> Iterator[Row]:
        """Take note that the log has been read to its end: the log rows of all replies so far follow soon. Yield the
        rows that are known by now. ``is_quiet``: the relay copied nothing meanwhile."""
        yield from self._pair()
        for client in self._halves.clients:
            client.looks += 1
        for logged in self._halves.logged:
            logged.looks += is_quiet
        yield from self._overdue()

    def rest(self) -> Iterator[Row]:
        """Yield the halves that are left."""
        yield from map(self._joined, self._halves.last_pairs())
        yield from (self._counted(one.row, one) for one in self._halves.clients)
        yield from (self._counted(one.row) for one in self._halves.logged)
        self._halves = WaitingHalves()

    def _pair(self) -> Iterator[Row]:
        """Yield the rows of requests both of whose halves are known."""
        yield from map(self._joined, self._halves.pairs())

    def _joined(self, pair: PairedHalves) -> Row:
        """Return the row of a request from both of its halves."""
        row = joined(pair)
        self._serve(pair.client, row)
        return self._counted(row, pair.client)

    def _overdue(self) -> Iterator[Row]:
        """Yield the halves that have waited long enough, and those whose other half will not come: no line of the log
        is about a body that the server cannot read, and other clients may not use the relay."""
        halves = self._halves
        for client in [one for one in halves.clients if one.since >= APART or (one.is_refused and one.looks >= LOOKS)]:
            halves.clients.remove(client)
            yield self._counted(client.row, client)
        for logged in [one for one in halves.logged if one.since >= APART or (one.looks >= LOOKS and not halves.open)]:
            halves.logged.remove(logged)
            yield self._counted(logged.row)
        while len(halves.clients) > HALVES:
            client = halves.clients.pop(0)
            yield self._counted(client.row, client)
        while len(halves.logged) > ROWS:
            yield self._counted(halves.logged.pop(0).row)

    def _read_other(self, exchange: WatchedExchange, stated: Mapping[tuple[str, str], int]) -> None:
        """Read what an exchange shows about the server's slots: how many there are, or an action."""
        if exchange.status != OK:
            return
        if exchange.method == "GET" and ("event", "total_slots") in stated:
            self.losses.slots = stated["event", "total_slots"]
        found = _ACTION.search(exchange.target)
        slot = stated.get(("event", "id_slot"))
        if exchange.method == "POST" and found is not None and slot == int(found["slot"]):
            self.losses.note(self._next_moment(), found["action"], slot)

    def _serve(self, half: ClientHalf, row: Row) -> None:
        """Take note of what the server did for a request, unless it refused the request."""
        if not half.link.number or half.is_refused:
            return
        counts = [row[name] if isinstance(row[name], int) else None for name in ("prompt", "reused", "evaluated")]
        prompt, reused, evaluated = counts
        if row["end"] != WHOLE:                          # a part of the prompt may not have been evaluated
            prompt = None if None in counts else min(prompt or 0, (reused or 0) + (evaluated or 0))
        served = ServedRequest(
            link=half.link, ended=half.ended, slot=row.get("slot"), run=row.get("run"), task=row.get("task"),
            prompt=prompt, reused=reused,
        )  # fmt: skip
        self.losses.add(served, row["cause"])

    def ranked_causes(self) -> list[Row]:
        """Return the causes that cost tokens, the most frequent first."""
        return [{"cause": cause, "requests": number} for cause, number in self.causes.most_common()]

    def ranked_reasons(self) -> list[Row]:
        """Return why requests were left out, the most frequent reason first."""
        return [{"why": why, "requests": number} for why, number in self.left_out.most_common() if number]

    def _counted(self, row: Row, half: ClientHalf | None = None) -> Row:
        """Number a row, add the loss that the server's side shows, and add the row to the totals."""
        is_refused = bool(row.get("refused")) or (half is not None and half.is_refused)
        number = 0 if half is None or is_refused else half.link.number
        loss = self.losses.loss(number, row.get("cause", ""))
        if loss is not None:
            is_explained = loss["cause"] == UNKNOWN and any("lost" in one for one in row.get("causes", ()))
            row = {**row, "harmless": False, **({} if is_explained else {"loss": loss})}
        elif "cause" in row and self.losses.is_free(number):
            row = {**row, "harmless": True}
        self.totals["requests"] += 1
        for name in () if is_refused else (*NUMBERS, "again"):
            value = row.get(name)
            self.totals[name] += value if isinstance(value, int) else (value[0] or 0) if isinstance(value, list) else 0
            if not isinstance(value, int):
                self.open_columns.add(name)
        for says in row_causes(row):
            self.causes[says] += 1
        return {"number": self.totals["requests"], **row}


def row_causes(row: Row) -> Iterable[str]:
    """Return the causes of a row that cost tokens, by name: the client's, the loss on the server's side, then those
    that the log proves."""
    client, loss = row.get("cause", row.get("change", "")), row.get("loss")
    harmless = client in HARMLESS or row.get("harmless") is True if "cause" in row else client in ("", NEW, EXTENDS)
    return [*([] if harmless else [client]), *([loss["cause"]] if loss else []),
            *(one["cause"] for one in row.get("causes", ()))]  # fmt: skip
