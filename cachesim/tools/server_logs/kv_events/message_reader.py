"""Reader of files with KV events. Every message is checked before it is used; fields that are not known are kept.

A line of a text file is a message as an object with ``payload``, or with ``ts`` and ``events``, or a bare payload. A
file with the ending of msgpack is read with msgspec. An event is an object with its type, or, as earlier releases
encode it, an array: the type, then the fields in their order.
"""

from __future__ import annotations

import math
import re
from itertools import islice
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.base.limits import JSON_VALUES, KV_EVENT_BYTES, TRACE_BYTES
from cachesim.base.untrusted_files import open_lines, parse_json, read_bytes
from cachesim.tools.run.kv_event_messages import MSGPACK, NUMBER_BYTES, EventMessage, check_msgspec

STORED, REMOVED, CLEARED = "BlockStored", "BlockRemoved", "AllBlocksCleared"
FIELDS = {
    STORED: ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name",
             "extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality", "ownership",
             "session_id"),
    REMOVED: ("block_hashes", "medium", "group_idx", "locality", "ownership"),
    CLEARED: (),
}  # fmt: skip
"""Kind of event -> its fields in the order of vLLM's records, which is that of an array. Source:
``vllm/distributed/kv_events.py``."""
OF_OTHERS = {STORED: ("lookahead_token_ids", "cache_salt")}
KNOWN_FIELDS = {kind: frozenset(("type", *names, *OF_OTHERS.get(kind, ()))) for kind, names in FIELDS.items()}
"""Kind of event -> the fields of the releases whose events are modelled."""
HEAD_LINES = 20                 # lines that show whether a file has events
_EVENT = re.compile(rf'\s*[\[{{].*(?:"type"\s*:|\[)\s*"(?:{STORED}|{REMOVED}|{CLEARED})"', re.S)
_NO_MSGPACK = "not msgpack of KV events"
LONGEST_HASH = 128              # characters of a hash in hexadecimal digits or base64
LONGEST_TOPIC = 256             # characters
LONGEST_MEDIUM = 64             # characters
LONGEST_KIND = 256              # characters of the type of an event
MOST_TOKENS = 1 << 20           # tokens of a block
MOST_NUMBER = 1 << 64           # sequence numbers and hashes are smaller


def has_events(path: Path) -> bool:
    """True if a file has KV events. Never raises; False for a file that cannot be read."""
    if path.name.endswith(MSGPACK):
        return True
    try:
        return any(_EVENT.match(line) for line in islice(open_lines(path), HEAD_LINES))
    except BadInput:
        return False


def read_messages(path: Path) -> Iterator[EventMessage]:
    """Yield the messages of a file in its order. Raise BadInput."""
    if path.name.endswith(MSGPACK):
        yield from _msgpack_messages(path)
        return
    data = read_bytes(path, TRACE_BYTES, "file of KV events")
    JSON_VALUES.check(sum(map(data.count, (b",", b":", b"[", b"{"))), "file of KV events", file=str(path))
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            try:
                yield message_of_line(line)
            except BadInput as bad:
                raise BadInput(bad.cause, hint=bad.hint, file=str(path), line=number) from None


def _msgpack_messages(path: Path) -> Iterator[EventMessage]:
    check_msgspec()
    import msgspec

    data = read_bytes(path, KV_EVENT_BYTES, "file of KV events")
    number = -1
    try:
        for frames in msgspec.msgpack.decode(data, type=list[tuple[bytes, bytes, bytes]]):
            number += 1
            yield message_of_frames(*frames)
    except BadInput as bad:
        raise BadInput(f"message {number}: {bad.cause}", hint=bad.hint, file=str(path)) from None
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadInput(f"{_NO_MSGPACK}: {str(error)[:80]}", file=str(path)) from None


def message_of_line(line: bytes) -> EventMessage:
    """Return the message in a line. Raise BadInput."""
    return _message(parse_json(line, "", "message"))


def message_of_frames(topic: bytes, seq: bytes, payload: bytes) -> EventMessage:
    """Return a message from the three byte strings that a subscriber receives. msgspec must be installed. Raise
    BadInput."""
    import msgspec

    if len(seq) != NUMBER_BYTES:
        raise BadInput(f"expected {NUMBER_BYTES} bytes of a sequence number, found {len(seq)}")
    KV_EVENT_BYTES.check(len(payload), "message of KV events")
    try:
        decoded = _with_text_hashes(msgspec.msgpack.decode(payload))
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise BadInput(f"{_NO_MSGPACK}: {str(error)[:80]}") from None
    return _message({"topic": topic.decode(errors="replace"), "seq": int.from_bytes(seq, "big"), "payload": decoded})


def _with_text_hashes(value: Any) -> Any:
    """Return a decoded value with its byte strings as hexadecimal digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        for place, one in enumerate(value):
            if isinstance(one, (bytes, list, dict)):
                value[place] = _with_text_hashes(one)
        return value
    if isinstance(value, dict):
        return {str(key): _with_text_hashes(one) for key, one in value.items()}
    return value


def _message(value: Any) -> EventMessage:
    """Return a message from its JSON value. Raise BadInput."""
    payload = value
    seq = None
    topic = ""
    if isinstance(value, dict):
        seq = value.get("seq")
        topic = value.get("topic", "")
        rank = value.get("rank", value.get("data_parallel_rank"))
        payload = value.get("payload", [value.get("ts", 0.0), value.get("events"), rank])
    if not isinstance(payload, list) or not 2 <= len(payload) <= 3:
        raise BadInput("expected a message: a time stamp, a list of events and a rank")
    ts, events, rank = [*payload, None][:3]
    if not isinstance(topic, str) or len(topic) > LONGEST_TOPIC:
        raise BadInput("expected a topic as text")
    if isinstance(ts, bool) or not isinstance(ts, int | float) or not math.isfinite(ts) or abs(ts) > MOST_NUMBER:
        raise BadInput("expected a time stamp as a number")
    if not isinstance(events, list):
        raise BadInput("expected a list of events")
    return EventMessage(
        seq=_number(seq, "sequence number"), ts=float(ts), events=[_event(event) for event in events],
        rank=_number(rank, "rank"), topic=topic,
    )  # fmt: skip


def _event(event: Any) -> Mapping[str, Any]:
    """Return a checked event. Raise BadInput."""
    if isinstance(event, list):
        event = _named_fields(event)
    if not isinstance(event, dict) or not isinstance(event.get("type"), str) or len(event["type"]) > LONGEST_KIND:
        raise BadInput("expected an event: an object with its type")
    if event["type"] in (STORED, REMOVED):
        hashes = event.get("block_hashes")
        if not isinstance(hashes, list) or not all(map(_is_hash, hashes)):
            raise BadInput("expected block_hashes as a list of numbers or texts")
        medium = event.get("medium")
        if medium is not None and (not isinstance(medium, str) or len(medium) > LONGEST_MEDIUM):
            raise BadInput("expected a medium as text")
        _number(event.get("group_idx"), "group_idx")
    if event["type"] == STORED:
        _check_stored(event)
    return event


def _named_fields(fields: Sequence[Any]) -> Any:
    """Return an event with the names of its fields; those after the known ones are named by their index. None for an
    array without a type."""
    if not fields or not isinstance(fields[0], str):
        return None
    names = FIELDS.get(fields[0], ())
    unknown = map(str, range(1 + len(names), len(fields)))
    return {"type": fields[0], **dict(zip((*names, *unknown), fields[1:], strict=False))}


def _check_stored(event: Mapping[str, Any]) -> None:
    """Raise BadInput for a store without its parent, its tokens, or the size of a block."""
    parent = event.get("parent_block_hash")
    if parent is not None and not _is_hash(parent):
        raise BadInput("expected parent_block_hash as a number or a text")
    size = event.get("block_size")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= MOST_TOKENS:
        raise BadInput(f"expected block_size as a number from 1 to {MOST_TOKENS:,}")
    if not isinstance(event.get("token_ids"), list):
        raise BadInput("expected token_ids as a list")


def _is_hash(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST_HASH and value.isascii()
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST_NUMBER


def _number(value: Any, what: str) -> int | None:
    """Return a number from 0 on, or None. Raise BadInput for another value."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST_NUMBER:
        raise BadInput(f"expected a {what} as a whole number from 0 on, found {quoted(str(value)[:40])}")
    return value
