"""Analysis: reads the copies of the relay and the lines of a log, and prints the rows. It never talks to the relay."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from select import select
from typing import Callable, Iterable

from cachesim.base.errors import BadInput
from cachesim.scenarios.schema import DEFAULT_PROFILE
from cachesim.tools.run.arguments import profile_name
from cachesim.tools.watch.cause_header import header_value
from cachesim.tools.watch.exchanges import Connections
from cachesim.tools.watch.frames import CAUSE, SKIPPED_REPLY, SKIPPED_REQUEST, Frame, FrameReader, packed
from cachesim.tools.watch.held_bytes import HeldBytes
from cachesim.tools.watch.joined_rows import JoinedRows, Row
from cachesim.tools.watch.log_follower import LogFollower
from cachesim.tools.watch.log_rows import LogRows
from cachesim.tools.watch.recent_bodies import RecentBodies
from cachesim.tools.watch.report import RowOutput
from cachesim.tools.watch.saved_bodies import SavedBodies
from cachesim.tools.watch.watched_exchange import WatchedExchange

TICK = 0.2                   # seconds between two looks at a log file
QUIET = 3                    # looks without a new line after which the last lines count as complete
PIECE = 1 << 18              # bytes read from the relay at once


@dataclass(slots=True)
class Sources:
    """Sources of an analysis. ``copies``: descriptor of the relay's frames; ``causes``: descriptor for frames to the
    relay; ``once``: end at the end of the log file; ``saved``: file to which request bodies are appended; ``is_over``:
    returns whether the time after the end of the relay is over; ``profile``: rule set of the server, "" = not given."""

    copies: int | None = None
    causes: int | None = None
    log: LogFollower | None = None
    once: bool = False
    saved: SavedBodies | None = None
    is_over: Callable[[], bool] = lambda: False
    profile: str = ""


class Analysis:
    """Analysis of all sources, up to their end."""

    def __init__(self, sources: Sources, output: RowOutput) -> None:
        self._from, self._output = sources, output
        self._frames, self._lines = FrameReader(), LogRows()
        held = HeldBytes()
        self._bodies = RecentBodies(held=held, profile=sources.profile or DEFAULT_PROFILE)
        self._joined = JoinedRows(self._bodies, sources.log is not None, sources.is_over)
        self._connections = Connections(self._sent, self._ended, held, self._joined.unreachable)
        self._copies = sources.copies
        self._quiet = self._dropped = 0
        self.has_printed_totals = False

    def run(self) -> None:
        """Print rows until the sources end, then the totals; the totals also at an interrupt. Raise BadInput."""
        try:
            while self._step():
                pass
            self._print(self._logged(self._from.log.last() if self._from.log else ()))
        finally:
            self._finish()
            self._print(self._joined.rest())
            self._output.end(self._totals())
            self.has_printed_totals = True

    def _step(self) -> bool:
        """Wait for bytes or for the next look at the log file; return True if more may come."""
        log = self._from.log
        waits = [*([] if self._copies is None else [self._copies]), *(log.wait_on() if log else [])]
        is_busy = log is not None and log.has_more
        ready = select(waits, [], [], 0 if is_busy or not (waits or not self._from.once) else TICK)[0]
        has_copies = is_copied = self._copies in ready
        while has_copies:                        # the copies first: they wait in memory, the log in a file
            self._read_copies()
            has_copies = bool(self._copies is not None and not self._joined.is_behind
                              and select([self._copies], [], [], 0)[0])  # fmt: skip
        found = is_busy
        if log is not None and (not log.wait_on() or set(log.wait_on()) & set(ready)):
            before = self._lines.lines
            self._print(self._logged(log.lines()))
            found |= self._lines.lines > before
            if not log.has_more:
                self._print(self._joined.read_to_end(not is_copied))
            if log.failure and self._from.once:
                raise BadInput(log.failure, file=log.name)
        self._quiet = 0 if found else self._quiet + (1 if ready else QUIET)
        if self._quiet >= QUIET:
            self._idle()
        if self._from.copies is not None:
            return self._copies is not None or (log is not None and log.has_more and not self._from.is_over())
        if log is None or log.ended:
            return False
        return bool(log.wait_on()) or log.has_more or not self._from.once

    def _read_copies(self) -> None:
        """Read what the relay has copied."""
        assert self._copies is not None
        data = os.read(self._copies, PIECE)
        if not data:
            self._copies = None
        for frame in self._frames.read(data):
            self._dropped += frame.skipped if frame.kind in (SKIPPED_REQUEST, SKIPPED_REPLY) else 0
            self._connections.read(frame)

    def _sent(self, exchange: WatchedExchange) -> None:
        raw = bytes(exchange.body)
        if self._lines.engine and not self._from.profile:
            self._bodies.read_for(profile_name(self._lines.engine))
        compared = self._joined.sent(exchange)
        if self._from.causes is not None and exchange.is_sent and not exchange.status:
            answer = Frame(CAUSE, exchange.connection, header_value(compared[0]) if compared else b"")
            with suppress(OSError):                  # the relay has ended
                os.write(self._from.causes, packed(answer))
        if compared and self._from.saved is not None:
            self._from.saved.add(exchange.path, raw)

    def _ended(self, exchange: WatchedExchange) -> None:
        self._print(self._joined.ended(exchange))

    def _logged(self, lines: Iterable[str]) -> Iterable[Row]:
        """Yield the rows that lines of the log complete."""
        for row in self._lines.read(lines):
            yield from self._joined.logged(row, self._from.copies is None)

    def _idle(self) -> None:
        """Print the rows that wait only for further lines."""
        for row in self._lines.idle() if self._from.log else ():
            self._print(self._joined.logged(row, self._from.copies is None))

    def _finish(self) -> None:
        """Print the rows of all requests that the log shows, also of those that are not over, and end all exchanges."""
        self._connections.close()
        for row in self._lines.rest() if self._from.log else ():
            self._print(self._joined.logged(row, self._from.copies is None))

    def _print(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._output.row(row)

    def _totals(self) -> Row:
        """Return the totals."""
        joined, log = self._joined, self._from.log
        names = ("requests", "other", "prompt", "reused", "evaluated", "again", "generated")
        return {
            **{name: joined.totals[name] for name in names}, "at_least": sorted(joined.open_columns),
            "causes": joined.ranked_causes(),
            "log_lines": self._lines.lines, "log_restarts": log.restarts if log else 0, "log": self._lines.totals(),
            "first_lines": self._lines.first_lines(),
            "left_out": joined.ranked_reasons(), "unread_log_bytes": log.unread if log else 0,
            "dropped_bytes": self._dropped, **self._connections.counts,
            "unsaved_requests": self._from.saved.unsaved if self._from.saved else 0,
        }  # fmt: skip
