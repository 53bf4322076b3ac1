"""KV events in a file of JSON lines that grows."""

from __future__ import annotations

from pathlib import Path
from select import select
from typing import Iterator

from cachesim.base.errors import BadInput
from cachesim.base.limits import KV_MESSAGE_BYTES
from cachesim.tools.run.kv_event_messages import MSGPACK, EventMessage
from cachesim.tools.server_logs.kv_events.message_reader import message_of_line
from cachesim.tools.watch.log_follower import LogFollower


class EventLines:
    """Messages of a file. ``once``: end at its end. Raise BadInput if it cannot be opened."""

    def __init__(self, path: Path, once: bool) -> None:
        self.name = str(path)
        if path.name.endswith(MSGPACK):
            raise BadInput("a msgpack file does not grow", file=self.name, hint="cachesim import FILE reads it")
        self._lines = LogFollower(path, KV_MESSAGE_BYTES.value)
        self._once = once
        self.ended = False

    def messages(self, wait: float) -> Iterator[EventMessage | None]:
        """Yield the messages of the next piece of the file; None for a line that cannot be read. At the end of the
        file, wait for ``wait`` seconds."""
        yield from map(_message, filter(str.strip, self._lines.lines()))
        if self._lines.failure:
            raise BadInput(self._lines.failure, file=self.name)
        if self._lines.has_more:
            return
        if self._once:
            yield from map(_message, filter(str.strip, self._lines.last()))
            self.ended = True
        else:
            select([], [], [], wait)

    def replayed(self, start: int, topic: str) -> Iterator[EventMessage | None]:
        """Yield nothing: a file has no other copy."""
        return iter(())

    def has_answered(self) -> bool:
        """Return True: the file is open."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


def _message(line: str) -> EventMessage | None:
    try:
        return message_of_line(line.encode())
    except BadInput:
        return None
