"""Stages of a request body, each a frozen record with the fields of the stage before.

```
 Body ──────> RenderedBody ──> RelatedBody ──────> ComparedBody ───────> AnsweredBody
 parsed by    its prompt as    its tokens, and     what changed, and     its answer, and what
 api_forms    text             the request before  what it can reuse     it repeats after a change
```

``request_diff`` has the function that makes each stage. A later request shows the answer to a request, because it sends
the answer back: until the last stage, a ``KnownAnswer`` beside the request has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

from cachesim.tools.request_bodies import prompt_causes
from cachesim.tools.request_bodies.body import Body, DifferenceTexts
from cachesim.tools.request_bodies.conversations import ConversationLink
from cachesim.tools.request_bodies.plain_render import BodyPlace, RenderedPrompt
from cachesim.tools.request_bodies.prompt_causes import PromptCause
from cachesim.tools.request_bodies.sent_again import SentRange


@dataclass(frozen=True, slots=True)
class RenderedBody:
    """Request with its prompt as text."""

    body: Body                          # the HTTP body
    text: str                           # its prompt, rendered by the chat template, else plainly
    history: int                        # length of `text` without the text that begins the answer
    plain: RenderedPrompt               # its prompt by the plain rendering
    is_templated: bool                  # `text` was rendered by a chat template


@dataclass(frozen=True, slots=True)
class RelatedBody(RenderedBody):
    """Request with its tokens, and its relations to earlier requests."""

    ids: Sequence[int]                  # token ids, or as many placeholders
    link: ConversationLink              # relations to earlier requests
    common: int                         # characters in common with the previous request
    bytes: int                          # bytes in common with the previous request
    shared: int                         # tokens in common with the previous request

    @property
    def tokens(self) -> int:
        """Number of tokens of the prompt."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class PromptDifference:
    """First difference of a prompt from that of the previous request."""

    cause: PromptCause                          # change since the previous request
    place: BodyPlace | None = None              # place of the difference in the body, None = no token is invalidated
    old_place: BodyPlace | None = None          # its place in the previous body
    seen: DifferenceTexts | None = None         # texts around it


@dataclass(frozen=True, slots=True)
class ReusablePrefix:
    """Earlier request whose prompt and answer share the most tokens with a prompt."""

    number: int = -1                    # of the request, -1 = none
    tokens: int = 0                     # tokens in common with its prompt and answer


@dataclass(frozen=True, slots=True)
class ComparedBody(RelatedBody):
    """Request with its difference from the previous request, and the tokens that it can reuse."""

    cause: PromptCause                  # change since `link.before`
    place: BodyPlace | None             # place of the first change in this body
    old_place: BodyPlace | None         # its place in the previous body
    seen: DifferenceTexts | None        # texts around the first change
    base: int                           # request with the most tokens in common, including its answer; -1 = none
    best: int                           # tokens in common with `base`
    under: int                          # request with the most tokens in common under the same adapters, -1 = none
    usable: int                         # tokens in common with `under`

    @property
    def is_harmless(self) -> bool:
        """True if no token of the previous request is invalidated."""
        return self.cause.name in prompt_causes.HARMLESS


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """Answer to a request, as far as it is known."""

    text: str = ""                      # "" = unknown
    tokens: int = 1
    returned: int = 0                   # its first tokens that the next request sends back unchanged


NO_ANSWER = KnownAnswer()
"""Answer to a request that no later request continues."""


@dataclass(frozen=True, slots=True)
class AnsweredBody(ComparedBody):
    """Request with its answer, and the text that it repeats after a change."""

    answer: int                         # tokens of its answer
    returned: int                       # answer tokens that the next request sends back unchanged
    known_answer: str                   # text of its answer, "" = unknown
    again: tuple[SentRange, ...]        # text after the change that the previous prompt contains, too
