"""How do chat messages become a prompt? A toy template whose every token can be counted by hand.

A message is ``IMS ROLE NL content IME NL``; the generation suffix is ``IMS AST NL``, and ``THK NL`` behind it when the
model is asked to think. A "terse" template leaves out all but ``ROLE content IME``, ``AST`` and ``THK``. A "reasoning"
template puts ``THK NL ETHK NL`` before the content of those assistant messages that follow the last user message, and
wants at least one user message, as several real ones do: so the rendering of fewer messages need not be a prefix of
the rendering of all.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.tokens import Tokens

IMS, IME, NL = 90, 91, 92
ROLE = {"system": 93, "user": 94, "assistant": 95, "tool": 98}
THK, ETHK = 96, 97
SENTINEL = 77
"""The one token of the text "x"."""

TEMPLATES = ("plain", "reasoning", "terse")


class ChatMessage(NamedTuple):
    """One message of a conversation."""

    role: str
    content: Tokens


class ChatTemplate(NamedTuple):
    """``kind`` one of TEMPLATES; ``thinking``: does the generation suffix open a thought?"""

    kind: str = "plain"
    thinking: bool = False

    @property
    def thinks(self) -> bool:
        """Does the tokenizer know think tokens, whether the suffix has one or not?"""
        return self.thinking or self.kind != "plain"


def template_of(server: Mapping[str, object]) -> ChatTemplate:
    """The template that a server's options stand for; the plain one where they say nothing."""
    return ChatTemplate(str(server.get("template", "plain")), bool(server.get("thinking", False)))


def render(messages: Sequence[ChatMessage], template: ChatTemplate, add_generation_prompt: bool = True) -> Tokens:
    """The tokens of a conversation. Raises BadInput where the template refuses to render it."""
    users = [i for i, message in enumerate(messages) if message.role == "user"]
    if template.kind == "reasoning" and not users:
        raise BadInput("the reasoning template wants a user message")
    terse, out = template.kind == "terse", list[int]()
    for i, (role, content) in enumerate(messages):
        thought = template.kind == "reasoning" and role == "assistant" and i > users[-1]
        thoughts = (THK, NL, ETHK, NL) if thought else ()
        out += [ROLE[role], *content, IME] if terse else [IMS, ROLE[role], NL, *thoughts, *content, IME, NL]
    if add_generation_prompt:
        out += [ROLE["assistant"]] if terse else [IMS, ROLE["assistant"], NL]
        out += ([THK] if terse else [THK, NL]) if template.thinking else []
    return tuple(out)
