"""A request body of any form, as the parts that a prompt is made of."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple

from cachesim.base.tokens import common_prefix

# Where do two texts differ, in characters and in bytes, and what stands there on both sides?

BEFORE, BEHIND = 16, 40      # characters of evidence before and behind the first difference


def encoded(text: str) -> bytes:
    """The bytes of a text; half of a pair of surrogates is three bytes."""
    return text.encode("utf-8", "surrogatepass")


def common_bytes(a: str, b: str, characters: int) -> int:
    """Bytes that two texts have in common, of which so many characters are equal: the next characters may share their
    first bytes."""
    one, other = encoded(a[characters : characters + 1]), encoded(b[characters : characters + 1])
    return len(encoded(a[:characters])) + common_prefix(one, other)


def common_suffix(a: str, b: str, most: int) -> int:
    """Length of the longest common end of two texts, at most ``most`` characters."""
    most = min(most, len(a), len(b))
    if not most:
        return 0
    return common_prefix(a[len(a) - most :][::-1], b[len(b) - most :][::-1])


class Evidence(NamedTuple):
    """What stands on both sides: equal text before (``same``), then the one and the other."""

    same: str
    before: str
    after: str


def evidence(a: str, b: str, at: int, behind: int = BEHIND) -> Evidence:
    """The surroundings of character ``at`` of two texts that are equal up to it."""
    return Evidence(a[max(0, at - BEFORE) : at], a[at : at + behind], b[at : at + behind])


# Fields of a request beside the prompt: which were changed, and do they matter to a cache?

RENDERED = frozenset({"chat_template_kwargs", "reasoning_effort", "enable_thinking", "thinking", "reasoning",
                      "tool_choice", "response_format", "json_schema", "output_config", "text"})  # fmt: skip
"""Those that a server may write into the prompt."""
CACHE = frozenset({"cache_prompt", "id_slot", "slot_id", "n_cache_reuse", "lora"})
"""Those that say which cache is used."""
IGNORED = frozenset({"metadata", "user", "store", "stream", "stream_options", "prompt_cache_key", "session_id"})
SHOWN = 40                   # characters of a value


def changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, str]]:
    """The fields that differ: ``name``, both values cut, and whether it ``matters``: "no", "perhaps" (a template may
    write it into the prompt) or "yes"."""
    names = [name for name in {**a, **b} if name not in IGNORED and a.get(name) != b.get(name)]
    return [{"name": name[:SHOWN], "value_before": _short(a.get(name)), "value_after": _short(b.get(name)),
             "matters": "yes" if name in CACHE else "perhaps" if name in RENDERED else "no"}
            for name in names]  # fmt: skip


def _short(value: Any) -> str:
    if value is None:
        return ""
    text = json.dumps(value) if isinstance(value, str | int | float | bool) else type(value).__name__
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


TEXT, REASONING, CALL, IMAGE, MARK, TOOL, TOKENS = "text", "reasoning", "call", "image", "mark", "tool", "tokens"
"""Kinds of parts: text of a message, reasoning, a call of a tool, an image, what a template adds, a definition of a
tool, tokens that the client chose itself."""
FIRST_TOKEN = 0x10000        # a token of a client is one character, this far up
THINK = ("<think>\n", "\n</think>\n\n")


def token_sign(value: Any) -> str:
    """The character that stands for a token that the client chose itself, "" for a value that is no token."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return chr(FIRST_TOKEN + value) if whole and 0 <= value <= 0x10FFFF - FIRST_TOKEN else ""


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
