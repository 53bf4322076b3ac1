"""How SGLang's server reads request bodies."""

from __future__ import annotations

from cachesim.engines.chat_bodies import ChatBodies
from cachesim.engines.sglang.chat_message import sglang_messages
from cachesim.engines.sglang.chat_tool import parsed_tool

READING = ChatBodies(tool=parsed_tool, messages=sglang_messages)


def chat_bodies(profile: str) -> ChatBodies:
    """Return how the server reads bodies. Only the newest release was examined."""
    return READING
