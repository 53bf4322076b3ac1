"""Fields of messages beside their text: names, ids of tool calls, cache marks and any other field that an API allows.

Some chat templates write such fields into the prompt; most ignore them. A message keeps them as a short JSON text, so
that two requests can be compared.
"""

from __future__ import annotations

import json
from collections import defaultdict
from hashlib import blake2b
from typing import Any, Iterator, Mapping

from cachesim.tools.request_bodies.body import Body, BodyMessage, encoded, field_change
from cachesim.tools.request_bodies.conversations import message_key
from cachesim.tools.request_bodies.plain_render import canonical

LONGEST, MOST = 64, 16       # characters of a stored value; fields of a message that are stored one by one
CHANGES = 32                 # listed changes of a request, at most
READ = frozenset({"role", "content", "tool_calls", "images", "reasoning_content", "reasoning", "thinking"})
"""Fields of a message that are parts of its text."""
BLOCK = frozenset({"cache_control", "id", "tool_use_id", "call_id", "signature", "status", "annotations", "citations",
                   "is_error", "title", "context", "filename", "index", "detail"})  # fmt: skip
"""Fields of a content block or tool call that are not parts of its text."""
UNSEEN = frozenset({"cache_control"})
"""Fields that are instructions to the service and never part of a prompt."""


def fields_text(message: Mapping[str, Any]) -> str:
    """Return the fields of a message beside its text as a JSON object, "" if it has none."""
    found = list(_fields(message))
    named = {name: _short(value) for name, value in found[:MOST]}
    if len(found) > MOST:
        named["..."] = _short([[name, canonical(value)] for name, value in found[MOST:]])
    return json.dumps(named, ensure_ascii=False) if named else ""


def block_fields(block: Mapping[str, Any]) -> str:
    """Return the fields of a content block that stands for a message, as ``fields_text`` does."""
    named = {str(key)[:LONGEST]: _short(value) for key, value in block.items() if key in BLOCK}
    return json.dumps(named, ensure_ascii=False) if named else ""


def _fields(message: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield names and values of the fields of a message, its content blocks and its tool calls."""
    for key, value in message.items():
        if key not in READ and value is not None:
            yield str(key)[:LONGEST], value
    for part in ("content", "tool_calls"):
        blocks = message.get(part)
        for number, block in enumerate(blocks if isinstance(blocks, list) else ()):
            for key in block if isinstance(block, dict) else ():
                if key in BLOCK:
                    yield f"{part}[{number}].{key}", block[key]


def _short(value: Any) -> str:
    """Return a value as JSON, or its beginning and a digest if it is long."""
    text = canonical(value)
    digest = blake2b(encoded(text), digest_size=8).hexdigest()
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]}... {digest}"


def changed_fields(a: Body, b: Body) -> list[dict[str, str]]:
    """Return the fields of messages that differ between a request and the next one of its conversation, in the form of
    ``body.changed``. Messages that only one of them has are left out."""
    found = [change for old, new in _pairs(a, b) if old.fields != new.fields for change in _differences(old, new)]
    return found[:CHANGES]


def _pairs(a: Body, b: Body) -> Iterator[tuple[BodyMessage, BodyMessage]]:
    """Yield the messages of two bodies that have the same text, else the same number and role."""
    known: dict[int, list[int]] = defaultdict(list)
    for number, message in enumerate(a.messages):
        known[message_key(message)].append(number)
    left = {number for numbers in known.values() for number in numbers}
    single = []
    for number, message in enumerate(b.messages):
        numbers = known[message_key(message)]
        if not numbers:
            single.append(number)
            continue
        same = number if number in numbers else numbers[0]
        numbers.remove(same)
        left.discard(same)
        yield a.messages[same], message
    for number in single:
        if number in left and a.messages[number].role == b.messages[number].role:
            yield a.messages[number], b.messages[number]


def _differences(a: BodyMessage, b: BodyMessage) -> Iterator[dict[str, str]]:
    """Yield the fields that differ between two messages."""
    old, new = (json.loads(message.fields) if message.fields else {} for message in (a, b))
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            matters = "no" if name.rpartition(".")[2] in UNSEEN else "perhaps"
            yield field_change(f"{b.path}.{name}", old.get(name, ""), new.get(name, ""), matters)
