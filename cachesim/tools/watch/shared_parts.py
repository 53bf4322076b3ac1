"""Parts of prompts that several requests share, each kept and counted once: a client sends the whole history with every
request."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace
from hashlib import blake2b
from sys import getsizeof
from typing import Any, Mapping, TypeVar

from cachesim.tools.request_bodies.body import BodyMessage, BodyText, encoded
from cachesim.tools.request_bodies.body_stages import RenderedBody
from cachesim.tools.request_bodies.conversations import core_text, spoken_text
from cachesim.tools.request_bodies.plain_render import canonical
from cachesim.tools.watch.held_bytes import OBJECT, bytes_of

MESSAGE = 2_048              # bytes of the places at which requests with a message are found, at most
SHORT = 256                  # characters of a parameter that stays as it is

Stage = TypeVar("Stage", bound=RenderedBody)
"""A stage of a request body that has a rendering."""


class SharedParts:
    """Parts, messages and tools of requests. ``size``: bytes of all of them."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: dict[BodyText, BodyText] = {}
        self._messages: dict[BodyMessage, BodyMessage] = {}
        self._tools: dict[tuple[str, str], tuple[str, Any]] = {}

    def share(self, request: Stage) -> Stage:
        """Return a request with known parts in place of equal ones, in its body and in its plain rendering."""
        messages = [self._message(message) for message in request.body.messages]
        tools = [self._tool(path, tool) for path, tool in request.body.tools]
        plain = request.plain._replace(
            parts=[self._part(part) for part in request.plain.parts],
            starts=array("Q", request.plain.starts),
            messages=array("q", request.plain.messages),
            begins=array("Q", request.plain.begins),
        )
        return replace(request, body=replace(request.body, messages=messages, tools=tools), plain=plain)

    def _part(self, part: BodyText) -> BodyText:
        known = self._parts.get(part)
        if known is None:
            known = self._parts[part] = part
            self.size += part_bytes(part)
        return known

    def _message(self, message: BodyMessage) -> BodyMessage:
        known = self._messages.get(message)
        if known is None:
            known = message._replace(parts=tuple(self._part(part) for part in message.parts))
            self._messages[known] = known
            self.size += message_bytes(known)
        return known

    def _tool(self, path: str, tool: Any) -> tuple[str, Any]:
        key = path, json.dumps(tool)
        known = self._tools.get(key)
        if known is None:
            known = self._tools[key] = path, tool
            self.size += tool_bytes(path, tool) + getsizeof(key[1])
        return known


def part_bytes(part: BodyText) -> int:
    """Return the memory of a part."""
    return getsizeof(part) + getsizeof(part.path) + getsizeof(part.text) + OBJECT


def message_bytes(message: BodyMessage) -> int:
    """Return the memory of a message without its parts: with the texts by which its conversation is found."""
    texts = getsizeof(core_text(message)) * (2 if message.is_system else 1) + getsizeof(spoken_text(message))
    own = getsizeof(message) + getsizeof(message.parts) + getsizeof(message.role) + getsizeof(message.path)
    return own + texts + getsizeof(message.fields) + MESSAGE


def tool_bytes(path: str, tool: Any) -> int:
    """Return the memory of a tool definition."""
    return getsizeof(path) + bytes_of(tool) + 2 * OBJECT


def short_values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with a digest instead of each long value: it differs if the value differs."""
    return {name: _short_value(value) for name, value in parameters.items()}


def _short_value(value: Any) -> Any:
    text = canonical(value)
    return value if len(text) <= SHORT else blake2b(encoded(text), digest_size=16).hexdigest()
