"""Toy chat template that renders messages as a prompt whose tokens can be counted by hand.

A message is ``IMS ROLE NL content IME NL``; the generation suffix is ``IMS AST NL``, followed by ``THK NL`` when the
model is asked to think. A "terse" template keeps only ``ROLE content IME``, ``AST`` and ``THK``; "kept" also puts ``THK
ETHK`` before the content of each assistant message. A "reasoning" template puts ``THK NL ETHK NL`` before the content
of the assistant messages after the last user message, and requires at least one user message, like several real
templates. A rendering of fewer messages is therefore not always a prefix of the rendering of all.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.tokens import Tokens

IMS = 90
IME = 91
NL = 92
ROLE = {"system": 93, "user": 94, "assistant": 95, "tool": 98}
THK, ETHK = 96, 97
SENTINEL = 77
"""The token of the text "x".""" 

TEMPLATES = ("plain", "reasoning", "terse", "kept")


class ChatMessage(NamedTuple):
    """A message of a conversation."""

    role: str
    content: Tokens


class ChatTemplate(NamedTuple):
    """A template: ``kind`` is a member of TEMPLATES; ``thinking``: the generation suffix opens a thought."""

    kind: str = "plain"
    thinking: bool = False

    @property
    def thinks(self) -> bool:
        """True if the tokenizer has think tokens, whether or not the suffix contains them."""
        return self.thinking or self.kind != "plain"


def template_of(server: Mapping[str, object]) -> ChatTemplate:
    """Return the template that a server's options select, by default the plain template."""
    return ChatTemplate(str(server.get("template", "plain")), bool(server.get("thinking")))


def render(messages: Sequence[ChatMessage], template: ChatTemplate, add_generation_prompt: bool = True) -> Tokens:
    """Return the tokens of a conversation. Raise BadInput if the template refuses to render it."""
    users = [i for i, message in enumerate(messages) if message.role == "user"]
    if template.kind == "reasoning" and not users:
        raise BadInput("the reasoning template requires a user message")
    terse, out = template.kind in ("terse", "kept"), list[int]()
    for i, (role, content) in enumerate(messages):
        thought = template.kind == "reasoning" and role == "assistant" and i > users[-1]
        thoughts = (THK, NL, ETHK, NL) if thought else ()
        content = (THK, ETHK, *content) if template.kind == "kept" and role == "assistant" else content
        out += [ROLE[role], *content, IME] if terse else [IMS, ROLE[role], NL, *thoughts, *content, IME, NL]
    if add_generation_prompt:
        out += [ROLE["assistant"]] if terse else [IMS, ROLE["assistant"], NL]
        out += ([THK] if terse else [THK, NL]) if template.thinking else []
    return tuple(out)
