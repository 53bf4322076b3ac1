"""Messages with KV events, and the files that hold them.

A message has a topic, a sequence number and a payload: a time stamp, a list of events, and the data-parallel rank of
the publisher. A file of JSON lines has an object for each message. A msgpack file has one array, in which a message is
an array of three byte strings, as a subscriber receives them: topic, 8 bytes of the number, and the encoded payload.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.extras import install_command

MSGPACK = ".msgpack"
NUMBER_BYTES = 8


class EventMessage(NamedTuple):
    """A message. ``seq``: None = not known; ``ts`` [s]."""

    seq: int | None
    ts: float
    events: Sequence[Mapping[str, Any]]
    rank: int | None = None
    topic: str = ""

    def payload(self) -> list[Any]:
        """Return what the message encodes."""
        return [self.ts, list(self.events), self.rank]


def encoded(messages: Sequence[EventMessage], is_msgpack: bool) -> bytes:
    """Return the content of a file with these messages, which have numbers. Raise BadInput if a package is missing."""
    if is_msgpack:
        return _as_msgpack(messages)
    lines = (json.dumps({"topic": one.topic, "seq": one.seq, "payload": one.payload()}) for one in messages)
    return "".join(f"{line}\n" for line in lines).encode()


def _as_msgpack(messages: Sequence[EventMessage]) -> bytes:
    check_msgspec()
    import msgspec

    encoder = msgspec.msgpack.Encoder()
    frames = [[one.topic.encode(), (one.seq or 0).to_bytes(NUMBER_BYTES, "big"), encoder.encode(one.payload())]
              for one in messages]  # fmt: skip
    return bytes(encoder.encode(frames))


def check_msgspec() -> None:
    """Raise BadInput if msgspec is not installed."""
    try:
        import msgspec as _  # noqa: F401
    except ModuleNotFoundError:
        raise BadInput("msgpack files need the package msgspec", hint=install_command("kv-events")) from None
