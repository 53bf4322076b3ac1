"""How mlx_lm.server reads request bodies.

Source: mlx-lm mlx_lm/server.py process_message_content (0.32.2, read). Earlier releases were not examined.
"""

from __future__ import annotations

import json
from typing import Any, Mapping, Sequence

from cachesim.engines.chat_bodies import ChatBodies, ParsedChat, Refused, SentMessage, TemplateUse


def parsed_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as the template receives it: its texts joined without anything between them, a missing content
    as an empty text, arguments parsed. All other fields stay. Raise Refused."""
    found = dict(message)
    content = message.get("content")
    if isinstance(content, list):
        found["content"] = "".join(_text(block) for block in content)
    elif content is None:
        found["content"] = ""
    if isinstance(message.get("tool_calls"), list):
        found["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    return found


def _text(block: Any) -> str:
    """Return the text of a content block. Raise Refused for a block that is not a text."""
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
    if not isinstance(text, str):
        raise Refused("a content block is not a text")
    return text


def _call(call: Any) -> Any:
    """Return a tool call with its arguments parsed. Raise Refused."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    text = function.get("arguments")
    if not isinstance(text, str) or not text:
        return call
    try:
        return {**call, "function": {**function, "arguments": json.loads(text)}}
    except (ValueError, RecursionError):
        raise Refused("the arguments of a tool call are not JSON") from None


def mlx_messages(chat: Sequence[SentMessage], use: TemplateUse, fields: Mapping[str, Any]) -> ParsedChat:
    """Return the messages of a chat as the template receives them."""
    found = [one.parsed(parsed_message) for one in chat]
    return ParsedChat(tuple(found))


READING = ChatBodies(messages=mlx_messages)


def chat_bodies(profile: str) -> ChatBodies:
    """Return how the server reads bodies. Only the newest release was examined."""
    return READING
