"""Request body of any API, as the parts that a prompt consists of; evidence at the first difference of two texts;
changed parameters."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple

from cachesim.base.tokens import common_prefix

BEFORE, AFTER = 16, 40      # characters of evidence before and after the first difference


def encoded(text: str) -> bytes:
    """Return the UTF-8 bytes of a text. A lone surrogate takes three bytes."""
    return text.encode("utf-8", "surrogatepass")


def common_bytes(a: str, b: str, characters: int) -> int:
    """Return the number of common leading bytes of two texts whose first ``characters`` characters are equal. The next
    characters may share their first bytes."""
    next_a, next_b = encoded(a[characters : characters + 1]), encoded(b[characters : characters + 1])
    return len(encoded(a[:characters])) + common_prefix(next_a, next_b)


def common_suffix(a: str, b: str, most: int) -> int:
    """Return the length of the longest common suffix of two texts, at most ``most`` characters."""
    most = min(most, len(a), len(b))
    if not most:
        return 0
    return common_prefix(a[len(a) - most :][::-1], b[len(b) - most :][::-1])


class Evidence(NamedTuple):
    """Texts at a difference: the equal text before it, then the text that follows in each request."""

    same: str
    before: str
    after: str


def evidence(a: str, b: str, at: int, behind: int = AFTER) -> Evidence:
    """Return the surroundings of character ``at`` of two texts that are equal before it."""
    return Evidence(a[max(0, at - BEFORE) : at], a[at : at + behind], b[at : at + behind])


RENDERED = frozenset({"chat_template_kwargs", "reasoning_effort", "enable_thinking", "thinking", "reasoning",
                      "tool_choice", "response_format", "json_schema", "output_config", "text"})  # fmt: skip
"""Parameters that a chat template may write into the prompt."""
CACHE = frozenset({"cache_prompt", "id_slot", "slot_id", "n_cache_reuse", "lora"})
"""Parameters that select the cache."""
IGNORED = frozenset({"metadata", "user", "store", "stream", "stream_options", "prompt_cache_key", "session_id"})
SHOWN = 40                   # characters of a value, at most


def changed(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the fields that differ: ``name``, both values (truncated), and whether the field ``matters`` to the cache:
    "no", "perhaps" (a template may write it into the prompt) or "yes"."""
    names = [name for name in {**a, **b} if name not in IGNORED and a.get(name) != b.get(name)]
    return [{"name": name[:SHOWN], "value_before": _short(a.get(name)), "value_after": _short(b.get(name)),
             "matters": "yes" if name in CACHE else "perhaps" if name in RENDERED else "no"}
            for name in names]  # fmt: skip


def _short(value: Any) -> str:
    """Return a value as JSON, truncated; only the type of a list or an object."""
    if value is None:
        return ""
    text = json.dumps(value) if isinstance(value, str | int | float | bool) else type(value).__name__
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


TEXT, REASONING, CALL, IMAGE, MARK, TOOL, TOKENS = "text", "reasoning", "call", "image", "mark", "tool", "tokens"
"""Kinds of parts: message text, reasoning, tool call, image, marks added by a template, tool definition, tokens chosen
by the client."""
FIRST_TOKEN = 0x10000        # token t of a client is represented by character FIRST_TOKEN + t
THINK = ("<think>\n", "\n</think>\n\n")


def token_character(value: Any) -> str:
    """Return the character that represents a token chosen by the client, "" for a value that is not a token."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return chr(FIRST_TOKEN + value) if whole and 0 <= value <= 0x10FFFF - FIRST_TOKEN else ""


MOST = 1_000_000             # largest number that a list of adapters may contain


def _bounded(value: Any) -> float | None:
    """Return a number from -MOST to MOST, None for other values."""
    return float(value) if isinstance(value, int | float) and -MOST <= value <= MOST else None


class BodyText(NamedTuple):
    """Text of a prompt part, with the path of its value in the body."""

    kind: str
    path: str
    text: str


class BodyMessage(NamedTuple):
    """Message of a conversation: role, path in the body, and parts."""

    role: str
    path: str
    parts: tuple[BodyText, ...]

    def text_without(self, *kinds: str) -> str:
        """Return the text of all parts except those of these ``kinds``."""
        return "".join(part.text for part in self.parts if part.kind not in kinds)

    @property
    def system(self) -> bool:
        """True if the message is an instruction to the model (role system or developer)."""
        return self.role in ("system", "developer")


@dataclass(slots=True)
class Body:
    """Request to a server."""

    number: int                                                         # index among all bodies
    place: str                                                          # file and line or entry
    form: str                                                           # API
    url: str = ""                                                       # URL path, "" = unknown
    model: str = ""                                                     # model name, "" = not given
    messages: list[BodyMessage] = field(default_factory=list)
    tools: list[tuple[str, Any]] = field(default_factory=list)          # (path, definition)
    parameters: Mapping[str, Any] = field(default_factory=dict)         # fields that are not parts of the prompt
    chat: list[dict[str, Any]] | None = None        # messages for a chat template, None = raw prompt
    answer: BodyMessage | None = None               # response of the server, if the dump contains it

    @property
    def adapters(self) -> dict[int, float]:
        """Scales of the adapters that the request names, by id; {} if it has no list. An empty list counts as none."""
        named = self.parameters.get("lora")
        listed = [entry for entry in named if isinstance(entry, dict)] if isinstance(named, list) else []
        numbered = [(_bounded(entry.get("id")), _bounded(entry.get("scale"))) for entry in listed]
        return {int(number): scale or 0.0 for number, scale in numbered
                if number is not None and number >= 0 and number.is_integer()}  # fmt: skip

    @property
    def raw(self) -> bool:
        """True if the prompt is text or tokens of the client, without a chat template."""
        return self.chat is None

    @property
    def of_tokens(self) -> bool:
        """True if the prompt is a token list."""
        return any(part.kind == TOKENS for message in self.messages for part in message.parts)
