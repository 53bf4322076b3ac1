"""Watching KV events: a row for the blocks that a message stores again after they had left, then the totals."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Callable, Iterator, Mapping, Protocol

from cachesim.base.errors import BadInput
from cachesim.base.limits import KV_BLOCKS
from cachesim.base.untrusted_files import parse_json
from cachesim.tools.request_bodies.body_files import bodies_in
from cachesim.tools.request_bodies.prompt_tokens import PromptTokens
from cachesim.tools.run.kv_event_messages import EventMessage
from cachesim.tools.server_logs.kv_events.block_history import BlockHistory
from cachesim.tools.server_logs.kv_events.events_report import missed_data, totals_data
from cachesim.tools.server_logs.kv_events.missed_totals import MissedTotals
from cachesim.tools.server_logs.kv_events.prompt_blocks import PromptBlocks
from cachesim.tools.watch.log_follower import LogFollower

TICK = 0.2                      # seconds between two looks at the files
LONGEST_BODY = 1 << 24          # characters of a body in a file


class EventSource(Protocol):
    """Source of messages, as ``EventEndpoint`` and ``EventLines``. ``ended``: no more will come."""

    name: str
    ended: bool

    def messages(self, wait: float) -> Iterator[EventMessage | None]:
        """Yield the messages that have arrived, after at most ``wait`` seconds; None for one that cannot be read."""

    def replayed(self, start: int, topic: str) -> Iterator[EventMessage | None]:
        """Yield the messages from a number on that the publisher still has."""

    def has_answered(self) -> bool:
        """True if the source exists."""

    def close(self) -> None:
        """Release the source."""


class EventWatch:
    """Watch of a source. ``bodies``: file with the requests of the server, None = not given; ``reader``: of their
    prompts; ``show``: prints a row."""

    def __init__(
        self,
        source: EventSource,
        bodies: LogFollower | None,
        reader: PromptTokens,
        show: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self._source = source
        self._reader = reader
        self._bodies = bodies
        self._show = show
        self._prompts = PromptBlocks({}, most=KV_BLOCKS.now)
        self._history = BlockHistory(self._prompts.of_event, most=KV_BLOCKS.now)
        self._totals = MissedTotals()
        self._read = self._without_tokens = self._replayed = 0

    def run(self) -> None:
        """Print rows until the source ends. Raise BadInput."""
        while not self._source.ended:
            self._read_bodies()
            for message in self._source.messages(TICK):
                self._read_bodies()
                self._follow(message)

    def totals(self) -> dict[str, Any]:
        """Return the totals."""
        return {
            **totals_data(self._history, self._totals, self._source.name),
            "bodies": self._read, "bodies_without_tokens": self._without_tokens,
            "bodies_joined": self._prompts.joined,
            "bodies_forgotten": self._prompts.forgotten, "replayed": self._replayed,
            "answered": self._source.has_answered(),
        }  # fmt: skip

    def _follow(self, message: EventMessage | None) -> None:
        """Read a message, and before it those that are missing and that the publisher still has."""
        if message is not None and message.seq is not None:
            last = self._history.last_seq((message.topic, message.rank))
            start = 0 if last is None else last + 1
            if start < message.seq:
                self._replay(start, message.seq, message)
        self._take(message)

    def _replay(self, start: int, end: int, before: EventMessage) -> None:
        """Read the messages from ``start`` to before ``end`` of a publisher, as far as it still has them."""
        for message in self._source.replayed(start, before.topic):
            seq = None if message is None else message.seq
            if seq is not None and seq >= end:
                return
            self._replayed += 1
            self._take(message)

    def _take(self, message: EventMessage | None) -> None:
        """Read a message, and print what it stores again."""
        if message is None:
            self._history.counts["unreadable"] += 1
            return
        self._history.read(message)
        for missed in self._history.take_missed():
            self._totals.add(missed)
            self._show(missed_data(missed))

    def _read_bodies(self) -> None:
        """Read the bodies that were appended to their file."""
        if self._bodies is None:
            return
        has_more = True
        while has_more:
            for line in self._bodies.lines():
                self._add_bodies(line)
            has_more = self._bodies.has_more

    def _add_bodies(self, line: str) -> None:
        value = None
        with suppress(BadInput):
            value = parse_json(line.encode()) if line.strip() else None
        for found in bodies_in(value, ""):
            for prompt in self._reader.of_body(found):
                if prompt is None or not self._prompts.add(self._read, prompt):
                    self._without_tokens += 1
                self._read += 1
