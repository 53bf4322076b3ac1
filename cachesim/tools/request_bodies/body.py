"""A request body of any form, as the parts that a prompt is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple

TEXT, REASONING, CALL, IMAGE, MARK, TOOL, TOKENS = "text", "reasoning", "call", "image", "mark", "tool", "tokens"
"""Kinds of parts: text of a message, reasoning, a call of a tool, an image, what a template adds, a definition of a
tool, tokens that the client chose itself."""
FIRST_TOKEN = 0x10000        # a token of a client is one character, this far up
MOST_TOKEN = 0x10FFFF - FIRST_TOKEN
THINK = ("<think>\n", "\n</think>\n\n")


class BodyText(NamedTuple):
    """A stretch of text, with the path of its value in the body."""

    kind: str
    path: str
    text: str


class BodyMessage(NamedTuple):
    """A message: who says it, where it is in the body, what it holds."""

    role: str
    path: str
    parts: tuple[BodyText, ...]

    def said(self, *but: str) -> str:
        """Its text without the kinds ``but``."""
        return "".join(part.text for part in self.parts if part.kind not in but)

    @property
    def system(self) -> bool:
        """Does it tell the model what to do, before any conversation?"""
        return self.role in ("system", "developer")


@dataclass(slots=True)
class Body:
    """A request. ``form``: which API; ``url``: where it was sent; ``tools`` as they are in it; ``parameters``: what
    else it says; ``chat``: its messages as a chat template gets them, None for a prompt of the client's own;
    ``answer``: what the server answered, if the dump has it."""

    number: int
    place: str
    form: str
    url: str = ""
    model: str = ""
    messages: list[BodyMessage] = field(default_factory=list)
    tools: list[tuple[str, Any]] = field(default_factory=list)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    chat: list[dict[str, Any]] | None = None
    answer: BodyMessage | None = None

    @property
    def raw(self) -> bool:
        """Is the prompt the client's own text or tokens, with no template between?"""
        return self.chat is None

    @property
    def of_tokens(self) -> bool:
        """Is the prompt a list of tokens?"""
        return any(part.kind == TOKENS for one in self.messages for part in one.parts)
