"""How ik_llama.cpp's server reads request bodies."""

from __future__ import annotations

from cachesim.engines.chat_bodies import ChatBodies
from cachesim.engines.shared.chat_conversions import ik_anthropic, ik_responses
from cachesim.engines.shared.chat_message import ik_messages
from cachesim.engines.shared.chat_tool import parsed_tool

READING = ChatBodies(
    tool=parsed_tool,
    messages=ik_messages,
    anthropic=ik_anthropic,
    responses=ik_responses,
)


def chat_bodies(profile: str) -> ChatBodies:
    """Return how the server reads bodies. Only 8337e4c was read."""
    return READING
