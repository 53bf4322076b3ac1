"""How vLLM's server reads request bodies."""

from __future__ import annotations

from cachesim.engines.chat_bodies import ChatBodies
from cachesim.engines.vllm.chat_message import vllm_anthropic, vllm_messages
from cachesim.engines.vllm.chat_tool import parsed_tool

READING = ChatBodies(tool=parsed_tool, messages=vllm_messages, anthropic=vllm_anthropic)


def chat_bodies(profile: str) -> ChatBodies:
    """Return how the server reads bodies. Only the newest release was examined."""
    return READING
