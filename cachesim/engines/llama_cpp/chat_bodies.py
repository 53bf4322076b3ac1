"""How llama.cpp's server reads request bodies, by build."""

from __future__ import annotations

import re
from dataclasses import replace

from cachesim.engines.chat_bodies import ChatBodies
from cachesim.engines.shared.chat_conversions import llama_anthropic, llama_responses, older_anthropic
from cachesim.engines.shared.chat_message import llama_messages
from cachesim.engines.shared.chat_tool import parsed_tool

NEWEST = ChatBodies(
    tool=parsed_tool,
    messages=llama_messages,
    anthropic=llama_anthropic,
    responses=llama_responses,
)
BEFORE_STAMP = replace(NEWEST, anthropic=older_anthropic)
"""Builds without #21793, which replaces the stamp of a billing header."""
SINCE = ((8906, NEWEST), (0, BEFORE_STAMP))
"""First build that reads bodies in a way, newest first: b8906 is that of #21793. Other changes of earlier builds were
not examined."""
_BUILD = re.compile(r"@b(\d+)")


def chat_bodies(profile: str) -> ChatBodies:
    """Return how the server of a rule set reads bodies. A rule set that is not named by its build reads them as the
    newest."""
    build = _BUILD.search(profile)
    if build is None:
        return NEWEST
    return next(reading for first, reading in SINCE if int(build[1]) >= first)
