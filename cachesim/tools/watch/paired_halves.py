"""Pairs of replies and log rows that are about the same request.

A reply and a log row fit if nothing that both state differs: the slot, the token counts, a refusal. Requests of which
one ended before the next was sent have the order of their log rows. The rows of requests at the same time with equal
statements are ambiguous: each has only what is true of all. A request without counts, whose client hung up, fits a row
whose log shows that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Iterator, NamedTuple

from cachesim.tools.request_bodies.prompt_causes import NEW
from cachesim.tools.watch.server_losses import BodyLink
from cachesim.tools.watch.watched_exchange import CLIENT_LEFT

Row = dict[str, Any]
COUNTS = ("prompt", "reused", "evaluated", "generated")
OF_LOG = ("run", "slot", "task", "lines", "again", "change", "causes", "flags", "refused")
"""Keys that a joined row has from the log."""
REFUSED = 400                # lowest HTTP status of a refusal
PATIENCE = 3                 # looks at the log for which a row waits whose exchange is ambiguous
NOT_APART = "another request at the same time has equal counts: the log does not show which row is which"
"""Note of a row whose log row is not certain."""


@dataclass(slots=True, eq=False)
class ClientHalf:
    """Exchange of a client that has ended. ``sent``, ``ended``: moments; ``slot``: as its reply states; ``looks``: how
    often the log was read to its end after the reply; ``since``: rows of the log that came since the first of these;
    ``alike``: keys with the same value in all rows that may be its row, None = not ambiguous."""

    row: Row
    link: BodyLink = field(default_factory=BodyLink)
    sent: int = 0
    ended: int = 0
    slot: int | None = None
    looks: int = 0
    since: int = 0
    alike: frozenset[str] | None = None

    @property
    def has_counts(self) -> bool:
        """True if its reply states the counts of a finished request."""
        return self.row.get("evaluated") is not None or self.row.get("generated") is not None

    @property
    def is_refused(self) -> bool:
        """True if the server refused it."""
        return (self.row.get("status") or 0) >= REFUSED


@dataclass(slots=True, eq=False)
class LogHalf:
    """Row of the log. ``looks``: how often the log was read to its end since; ``since``: replies that came."""

    row: Row
    looks: int = 0
    since: int = 0


class PairedHalves(NamedTuple):
    """Halves of a request."""

    client: ClientHalf
    logged: LogHalf


@dataclass(slots=True)
class WaitingHalves:
    """Halves that wait for the other one. ``open``: exchanges that have not ended."""

    clients: list[ClientHalf] = field(default_factory=list)
    logged: list[LogHalf] = field(default_factory=list)
    open: int = 0

    def pairs(self) -> Iterator[PairedHalves]:
        """Yield the pairs that are known now, and drop their halves."""
        for logged in sorted(self.logged, key=lambda one: (one.row["run"], one.row["lines"])):
            pair = self._pair_of(logged) if logged in self.logged else None
            if pair is not None:
                self.clients.remove(pair.client)
                self.logged.remove(logged)
                yield pair

    def last_pairs(self) -> Iterator[PairedHalves]:
        """Yield the pairs that are known at the end: all exchanges have ended."""
        self.open = 0
        for one in self.logged:
            one.looks = PATIENCE
        while found := list(self.pairs()):
            yield from found
        left = [one for one in self.clients if not one.has_counts and not one.is_refused]
        whole = [one for one in self.logged if not one.row.get("refused")]
        if len(left) == len(whole) == 1 and _agrees(left[0], whole[0]) is not None:
            self.clients.remove(left[0])
            self.logged.remove(whole[0])
            yield PairedHalves(left[0], whole[0])

    def _pair_of(self, logged: LogHalf) -> PairedHalves | None:
        """Return the pair of a log row, None if its exchange is not known yet."""
        if self.open and not logged.looks:
            return None                          # its reply may not have been read yet
        clients = self._fitting(logged)
        if not clients:
            return None
        if all(before.ended < after.sent for before, after in pairwise(clients)):
            return PairedHalves(clients[0], logged)
        rows = [one for one in self.logged if self._fitting(one) == clients]
        if len(rows) < len(clients) and logged.looks < PATIENCE:
            return None
        is_whole = len(rows) >= len(clients)
        alike = {name for name in OF_LOG if is_whole and all(one.row[name] == logged.row[name] for one in rows)}
        for client in clients:
            client.alike = frozenset(alike) if client.alike is None else client.alike & alike
        return PairedHalves(clients[0], logged)

    def _fitting(self, logged: LogHalf) -> list[ClientHalf]:
        """Return the exchanges that fit a log row best, in the order of their sending."""
        found = [(one, agreed) for one in self.clients if (agreed := evidence(one, logged)) is not None]
        most = max((agreed for _, agreed in found), default=0)
        return sorted((one for one, agreed in found if agreed == most), key=lambda one: one.sent)


def evidence(client: ClientHalf, logged: LogHalf) -> int | None:
    """Return how many statements of two halves agree, None if they are not about the same request."""
    agreed = _agrees(client, logged)
    if agreed is None or client.is_refused != bool(logged.row.get("refused")):
        return None
    is_left = logged.row.get("end") == CLIENT_LEFT
    if client.has_counts and is_left:
        return None                              # the server lists no counts for a client that hung up
    if client.is_refused or agreed:
        return agreed
    return 0 if is_left and client.row["end"] == CLIENT_LEFT else None


def _agrees(client: ClientHalf, logged: LogHalf) -> int | None:
    """Return how many numbers of two halves agree, None if one differs."""
    agreed = 0
    for stated, shown in ((client.slot, logged.row["slot"]), *((client.row.get(name), logged.row.get(name))
                                                              for name in COUNTS)):  # fmt: skip
        if stated is None or shown is None:
            continue
        low, high = shown if isinstance(shown, list) else (shown, shown)
        if stated < (low or 0) or (high is not None and stated > high):
            return None
        agreed += not isinstance(shown, list)
    return agreed


def joined(pair: PairedHalves) -> Row:
    """Return the row of a request from both of its halves."""
    client, logged = pair.client.row, pair.logged.row
    shown = {name: logged[name] for name in OF_LOG}
    counts = {name: logged[name] if client.get(name) is None else client[name] for name in COUNTS}
    alike = pair.client.alike
    if alike is not None:
        shown = {name: value if name in alike else _unknown(value) for name, value in shown.items()}
        counts = {name: client.get(name) for name in COUNTS}
        client = {**client, "note": client["note"] or NOT_APART}
    if pair.client.slot is not None:
        shown["slot"] = pair.client.slot
    client = {name: value for name, value in client.items() if name != "slot"}
    if client.get("cause") == NEW and not logged["again"]:
        shown["flags"] = []                 # the conversation lost nothing that a flag could keep
    end = logged["end"] if client["end"] != CLIENT_LEFT and client["status"] is None else client["end"]
    return {**shown, **client, **counts, "end": end, "source": "both"}


def _unknown(value: Any) -> Any:
    """Return what stands for an unknown value of the same kind."""
    return type(value)() if isinstance(value, list | str) else None
