"""Request fields of several engines."""

from __future__ import annotations

from cachesim.engines.capabilities import Field

MAX_TOKENS = Field(
    "max_tokens", 0, "most tokens of the answer, as the request states them; if the prompt leaves no room for them, "
    "the request is refused or its answer is cut; 0 = not stated",
)  # fmt: skip
