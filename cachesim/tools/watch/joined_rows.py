"""Rows of requests: what the client sent, what the server answered, and what its log says about the same request.

Reply and log are about the same request if the token counts that both state are equal; of several such requests, the
one that ended first. A log row without a reply, or a reply without a log row, is printed alone after a while.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Mapping
from weakref import ref

from cachesim.base.errors import BadInput, OverLimit
from cachesim.tools.watch.recent_bodies import KeptBody, RecentBodies
from cachesim.tools.watch.watched_exchange import INCOMPLETE, WHOLE, WatchedExchange

Row = dict[str, Any]
HALVES = 4_096               # replies that wait for their log rows, at most
APART = 32                   # rows of the other side that end a wait for the missing half
TOO_LATE = "the relay was ending"
TOO_MANY = "the body has too many values"
UNUSABLE = "the body cannot be read"
NO_REPLY = "the reply was not read: too many bytes were held"
"""Reasons for which a request is left out, besides those of an exchange."""
NUMBERS = {
    "prompt": (("timings", "prompt_n+cache_n"), ("usage", "prompt_tokens"), ("usage", "input_tokens")),
    "reused": (("timings", "cache_n"), ("usage", "cached_tokens"), ("usage", "cache_read_input_tokens")),
    "evaluated": (("timings", "prompt_n"),), "generated": (("timings", "predicted_n"), ("usage", "completion_tokens"),
                                                           ("usage", "output_tokens")),
}  # fmt: skip
"""Numbers of a reply, and where servers write them."""


def reply_numbers(exchange: WatchedExchange) -> dict[str, int | None]:
    """Return prompt, reused, evaluated and generated tokens that the reply states; None if it does not."""
    stated: dict[tuple[str, str], int] = {}
    if exchange.coding in ("", "identity"):
        for event in _events(bytes(exchange.reply[-(1 << 16) :] + exchange.rest)):
            _take(event, stated)
    both = ("timings", "prompt_n"), ("timings", "cache_n")
    if all(name in stated for name in both):
        stated["timings", "prompt_n+cache_n"] = sum(stated[name] for name in both)
    found: dict[str, int | None] = {
        name: next((stated[place] for place in places if place in stated), None) for name, places in NUMBERS.items()}
    if found["evaluated"] is None and found["prompt"] is not None and found["reused"] is not None:
        found["evaluated"] = found["prompt"] - found["reused"]
    return found


def _events(data: bytes) -> Iterator[Mapping[str, Any]]:
    """Yield the last JSON objects of a reply: the whole reply, or events of a stream."""
    lines = [line[5:] for line in data.split(b"\n") if line.startswith(b"data:")] or [data]
    for line in lines[-4:]:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


def _take(value: Mapping[str, Any], stated: dict[tuple[str, str], int]) -> None:
    """Store the counts of an event by the name of their object."""
    inner = [value.get("message"), value.get("response")]
    for holder in (value, *(one for one in inner if isinstance(one, dict))):
        for name in ("timings", "usage"):
            found = holder.get(name)
            for counts in (found, *found.values()) if isinstance(found, dict) else ():
                for key, count in counts.items() if isinstance(counts, dict) else ():
                    if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 1 << 31:
                        stated[name, key] = count


@dataclass(slots=True)
class _Waiting:
    """Half of a row. ``since``: rows of the other side that came meanwhile; for a reply, since ``is_due``: the log was
    read to its end after the reply."""

    row: Row
    is_due: bool = True
    since: int = 0


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
    _compared: dict[int, tuple[list[ref[KeptBody]], list[Row], str]] = field(default_factory=dict)
    _replies: deque[_Waiting] = field(default_factory=deque)
    _logged: deque[_Waiting] = field(default_factory=deque)

    def sent(self, exchange: WatchedExchange) -> list[Row]:
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
        if why:
            self.left_out[why] += 1
            note = note or f"not compared: {why}"
        compared = [self.bodies.row(one) for one in kept]
        self._compared[id(exchange)] = [ref(one) for one in kept], compared, note    # a weak one: it may be dropped
        exchange.forget_body()
        return compared

    def ended(self, exchange: WatchedExchange) -> Iterator[Row]:
        """Yield the rows that the end of an exchange completes."""
        kept, compared, note = self._compared.pop(id(exchange), ([], [], ""))
        if not compared and not note:
            self.totals["other"] += 1                    # a list of models, a health check
            return
        self.left_out[NO_REPLY] += exchange.is_reply_left_out
        first = kept[0]() if kept else None
        if first is not None and exchange.end == WHOLE and exchange.reply_size == len(exchange.reply):
            self.bodies.read_answer(first, bytes(exchange.reply))
        numbers = reply_numbers(exchange) if len(compared) < 2 else dict.fromkeys(NUMBERS)
        for found in compared or [{}]:
            row = {"source": "client", "target": exchange.path, "status": exchange.status or None,
                   "end": exchange.end, "note": note, **numbers, **found}  # fmt: skip
            if not self.has_log or exchange.status != 200:
                yield self._counted(row)
            elif (logged := _partner(row, self._logged)) is not None:
                yield self._counted(_joined(row, logged))
            else:
                self._replies.append(_Waiting(row, is_due=False))
        yield from self._overdue(self._logged)
        while len(self._replies) > HALVES:
            yield self._counted(self._replies.popleft().row)

    def logged(self, row: Row, is_alone: bool = False) -> Iterator[Row]:
        """Yield the rows that a log row completes. ``is_alone``: no clients are watched."""
        if is_alone:
            yield self._counted(row)
            return
        if (reply := _partner(row, self._replies)) is not None:
            yield self._counted(_joined(reply, row))
        else:
            self._logged.append(_Waiting(row))
        yield from self._overdue(self._replies)

    @property
    def is_behind(self) -> bool:
        """True if so many replies wait that the log must be read before further copies."""
        return len(self._replies) >= HALVES // 2

    def read_to_end(self) -> None:
        """Take note that the log has been read to its end: the log rows of all replies so far follow soon."""
        for one in reversed(self._replies):
            if one.is_due:
                break
            one.is_due = True

    def _overdue(self, waiting: deque[_Waiting]) -> Iterator[Row]:
        """Count a row of the other side for these halves, and yield those that have waited long enough."""
        for one in waiting:
            one.since += one.is_due
        while waiting and waiting[0].since >= APART:
            yield self._counted(waiting.popleft().row)

    def rest(self) -> Iterator[Row]:
        """Yield the halves that are left."""
        for waiting in (self._replies, self._logged):
            yield from (self._counted(one.row) for one in waiting)
            waiting.clear()

    def ranked_causes(self) -> list[Row]:
        """Return the causes that cost tokens, the most frequent first."""
        return [{"cause": cause, "requests": number} for cause, number in self.causes.most_common()]

    def ranked_reasons(self) -> list[Row]:
        """Return why requests were left out, the most frequent reason first."""
        return [{"why": why, "requests": number} for why, number in self.left_out.most_common() if number]

    def _counted(self, row: Row) -> Row:
        """Number a row and add it to the totals."""
        self.totals["requests"] += 1
        for name in ("prompt", "reused", "evaluated", "again", "generated"):
            value = row.get(name)
            self.totals[name] += value if isinstance(value, int) else (value[0] or 0) if isinstance(value, list) else 0
        for says in row_causes(row):
            self.causes[says] += 1
        return {"number": self.totals["requests"], **row}


def row_causes(row: Row) -> Iterable[str]:
    """Return the causes of a row that cost tokens, by name: the client's, then those that the log proves."""
    client = row.get("cause", row.get("change", ""))
    harmless = row.get("harmless", client in ("", "new", "extends"))
    return [*([] if harmless else [client]), *(one["cause"] for one in row.get("causes", ()))]


def _partner(row: Row, waiting: deque[_Waiting]) -> Row | None:
    """Return, and take away, the first half with the same counts; a log may lack some of them."""
    names = [name for name in ("evaluated", "reused", "generated") if row.get(name) is not None]
    for one in waiting:
        both = [name for name in names if one.row.get(name) is not None]
        if both and all(row[name] == one.row[name] for name in both):
            waiting.remove(one)
            return one.row
    return None


def _joined(client: Row, logged: Row) -> Row:
    """Return the row of a request from both of its halves."""
    return {**{name: logged[name] for name in ("run", "slot", "task", "lines", "again", "change", "causes", "flags")},
            **client, "source": "both"}  # fmt: skip
