"""Every request with its prompt, its tokens, the one before it, and where and why the two differ."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Sequence

from cachesim.base.errors import BadInput
from cachesim.base.limits import RENDERED
from cachesim.base.tokens import common_prefix
from cachesim.tools.request_bodies import prompt_causes
from cachesim.tools.request_bodies.body import MARK, REASONING, TEXT, Body, Evidence, common_bytes, evidence
from cachesim.tools.request_bodies.conversations import Conversations, Link
from cachesim.tools.request_bodies.plain_render import BodyPlace, Rendered, answer_text, plain
from cachesim.tools.request_bodies.prompt_causes import PromptCause
from cachesim.tools.request_bodies.template import Prompt
from cachesim.tools.request_bodies.tokenizer import Tokenizer


@dataclass(slots=True)
class PromptRecord:
    """A request and how it relates to earlier ones."""

    body: Body                          # the HTTP body
    text: str                           # its prompt, rendered by the chat template
    history: int                        # length of `text` without what begins the answer
    plain: Rendered                     # its prompt by the plain rendering
    link: Link                          # the earlier request that it goes on from
    ids: Sequence[int] = ()             # tokens of the prompt, where a tokenizer is given
    cause: PromptCause = field(default_factory=lambda: PromptCause(prompt_causes.NEW))  # change since that request
    common: int = 0                     # characters in common with the earlier request
    bytes: int = 0                      # the same in bytes
    shared: int = 0                     # the same in tokens
    base: int = -1  # the request with which it has most tokens in common, its answer included; -1 = none
    best: int = 0                       # these tokens
    place: BodyPlace | None = None      # where the first change is in this body
    old_place: BodyPlace | None = None  # where it is in the earlier body
    seen: Evidence | None = None        # the texts around the first change
    answer: int = 1                     # tokens of its answer
    returned: int = 0                   # tokens of its answer that the next request sends back unchanged
    known_answer: str = ""              # text of its answer, where it is known

    @property
    def tokens(self) -> int:
        """Tokens of the prompt."""
        return len(self.ids)

    @property
    def harmless(self) -> bool:
        """Does it lose nothing that the request before had?"""
        return self.cause.name in prompt_causes.HARMLESS


def linked(bodies: Sequence[Body], prompts: Sequence[Prompt | None], tokenizer: Tokenizer) -> list[PromptRecord]:
    """The requests, linked. Raises BadInput for prompts that are too much together, or that hold nothing."""
    known, out, size = Conversations(), [], 0
    for body, prompt in zip(bodies, prompts, strict=True):
        mine = plain(body)
        text, history = (mine.text, mine.history) if prompt is None else prompt
        size += len(text)
        RENDERED.check(size, "the prompts together", file=body.place)
        if not text:
            raise BadInput("a prompt without text", file=body.place)
        one = PromptRecord(body, text, history, mine, known.add(body, text), tokenizer.tokens(text))
        out.append(one)
        if one.link.before >= 0:
            _compare(out[one.link.before], one, prompt is not None, tokenizer)
        _reach(out, one, tokenizer)
    return out


def _compare(a: PromptRecord, b: PromptRecord, templated: bool, tokenizer: Tokenizer) -> None:
    """What ``b`` has of ``a``, the request before it."""
    b.common = common_prefix(a.text, b.text)
    b.bytes = common_bytes(a.text, b.text, b.common)
    b.shared = _shared(a, b, b.common, tokenizer)
    at = common_prefix(a.plain.text, b.plain.text)
    b.cause = prompt_causes.cause_of_bodies(a.body, b.body, a.plain, b.plain, at)
    same = b.cause.name in (prompt_causes.EXTENDS, prompt_causes.SAME, prompt_causes.BACK)
    if templated and same and b.common < min(len(a.text), b.history):
        b.cause = PromptCause(prompt_causes.OPENING if b.common >= a.history else prompt_causes.TEMPLATE)
    if not b.harmless:
        b.place, b.old_place = b.plain.place(at), a.plain.place(at)
        if b.cause.name in (prompt_causes.TEMPLATE, prompt_causes.OPENING):
            b.place, b.old_place = found_place(b, b.common), found_place(a, b.common)
        b.seen = evidence(a.text, b.text, b.common)
    _answered(a, b, tokenizer)


def found_place(one: PromptRecord, at: int) -> BodyPlace:
    """The place in the body of a character of what the template rendered: the texts of the body are looked for in it,
    one behind the other; the first that ends behind the place is it."""
    end = 0
    for number, message in enumerate(one.body.messages):
        said = next((one.text.find(part.text.strip(), end) for part in message.parts if part.kind == TEXT), -1)
        for part in message.parts:
            begin = one.text.find(part.text.strip(), end)
            left_out = part.kind == REASONING and 0 <= said < begin      # what is found is of a later message
            if begin < 0 or left_out or not part.text.strip():
                continue
            end = begin + len(part.text.strip())
            if end > at:
                return BodyPlace(part.path, max(0, at - begin), part.kind, number)
    return BodyPlace("", 0, MARK, -1)


def _answered(a: PromptRecord, b: PromptRecord, tokenizer: Tokenizer) -> None:
    """The answer to ``a``: what the dump says that it was, else what ``b`` sends back."""
    back = next(iter(b.body.messages[len(a.body.messages) :]), None)
    if a.known_answer or a.answer > 1 or back is None or back.role != "assistant":
        return
    text = answer_text(back)
    said = answer_text(a.body.answer) if a.body.answer is not None else text
    a.known_answer = said
    a.answer = max(1, len(tokenizer.tokens(said))) if said else 1
    if b.cause.name != prompt_causes.EXTENDS or not said:
        return
    same = common_prefix(said, text)
    a.returned = a.answer if same == len(said) else len(tokenizer.tokens(said[:same])) if same else 0
    if same < len(said.rstrip()) and a.body.answer is not None:
        kept = a.body.answer.said("reasoning").strip()
        if kept == back.said("reasoning").strip():
            b.cause = PromptCause(prompt_causes.DROPPED_ANSWER)
            b.place, b.old_place = b.plain.place(len(a.plain.text)), a.plain.place(len(a.plain.text))
            b.seen = Evidence("", said[same : same + 40], text[same : same + 40])


def _shared(a: PromptRecord, b: PromptRecord, common: int, tokenizer: Tokenizer) -> int:
    estimated = tokenizer.shared(a.text, b.text, common)
    if estimated is None:
        return common_prefix(a.ids, b.ids)
    return min(a.tokens if common == len(a.text) else estimated, b.tokens)       # all of it, its last token included


def _reach(known: Sequence[PromptRecord], b: PromptRecord, tokenizer: Tokenizer) -> None:
    """The earlier request whose prompt and answer share most with ``b``."""
    for number in dict.fromkeys((b.link.before, b.link.best)):
        if number < 0:
            continue
        a = known[number]
        shared = b.shared if number == b.link.before else _shared(a, b, b.link.common, tokenizer)
        if shared == a.tokens and number == b.link.before:
            shared = min(shared + a.returned, b.tokens)
        if shared > b.best:
            b.base, b.best = number, shared
