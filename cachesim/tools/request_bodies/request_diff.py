"""Differences between each request and the previous request of its conversation: common prefix, place and cause."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Hashable, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.limits import RENDERED
from cachesim.base.tokens import common_prefix
from cachesim.tools.request_bodies import prompt_causes
from cachesim.tools.request_bodies.body import (
    IMAGE,
    MARK,
    REASONING,
    TEXT,
    Body,
    DifferenceTexts,
    changed,
    common_bytes,
    evidence,
)
from cachesim.tools.request_bodies.conversations import ConversationLink, ConversationLinker
from cachesim.tools.request_bodies.message_fields import changed_fields
from cachesim.tools.request_bodies.plain_render import BodyPlace, RenderedPrompt, answer_text, render_plain
from cachesim.tools.request_bodies.prompt_causes import PromptCause
from cachesim.tools.request_bodies.sent_again import SentRange, TokenPositions, find_region, sent_ranges
from cachesim.tools.request_bodies.shared_prefixes import SharedPrefix, shared_under
from cachesim.tools.request_bodies.template import Prompt, is_template_option
from cachesim.tools.request_bodies.tokenizer import Tokenizer

NAMED = 4                    # names of fields in a cause, at most
WHOLE = 64                   # characters of evidence that hold the name, size and digest of an image


@dataclass(slots=True)
class PromptRecord:
    """Request and its relations to earlier requests."""

    body: Body                          # the HTTP body
    text: str                           # its prompt, rendered by the chat template
    history: int                        # length of `text` without the text that begins the answer
    plain: RenderedPrompt                     # its prompt by the plain rendering
    link: ConversationLink                          # relations to earlier requests
    ids: Sequence[int] = ()             # token ids, or as many placeholders
    cause: PromptCause = field(default_factory=lambda: PromptCause(prompt_causes.NEW))  # change since `link.before`
    common: int = 0                     # characters in common with the previous request
    bytes: int = 0                      # bytes in common with the previous request
    shared: int = 0                     # tokens in common with the previous request
    base: int = -1  # request with the most tokens in common, including its answer; -1 = none
    best: int = 0                       # tokens in common with `base`
    under: int = -1                     # request with the most tokens in common under the same adapters, -1 = none
    usable: int = 0                     # tokens in common with `under`
    place: BodyPlace | None = None      # place of the first change in this body
    old_place: BodyPlace | None = None  # its place in the previous body
    seen: DifferenceTexts | None = None        # texts around the first change
    answer: int = 1                     # tokens of its answer
    returned: int = 0                   # answer tokens that the next request sends back unchanged
    known_answer: str = ""              # text of its answer, "" = unknown
    again: tuple[SentRange, ...] = ()   # text after the change that the previous prompt contains, too

    @property
    def tokens(self) -> int:
        """Number of tokens of the prompt."""
        return len(self.ids)

    @property
    def is_harmless(self) -> bool:
        """True if no token of the previous request is invalidated."""
        return self.cause.name in prompt_causes.HARMLESS


def kept_by_any(records: Sequence[PromptRecord], record: PromptRecord) -> int:
    """Return the tokens of a prompt that a server can reuse at most. Each server evaluates the last token of a prompt,
    and none evaluates the last token of an answer before it is sent back."""
    if record.under < 0:
        return 0
    source = records[record.under]
    return max(0, min(record.usable, record.tokens - 1, source.tokens + source.answer - 1))


def link_requests(bodies: Sequence[Body], prompts: Sequence[Prompt | None], tokenizer: Tokenizer,
                  adapters: Sequence[Hashable] = ()) -> list[PromptRecord]:  # fmt: skip
    """Return the requests with their relations. ``adapters``: those of each request, () = all equal. Raise BadInput
    for an empty prompt, and if the prompts together are too large."""
    made, size = [], 0
    for body, prompt in zip(bodies, prompts, strict=True):
        rendered = render_plain(body)
        text, history = (rendered.text, rendered.history) if prompt is None else prompt
        size += len(text)
        RENDERED.check(size, "the prompts together", file=body.place)
        if not text:
            raise BadInput("empty prompt", file=body.place)
        made.append((body, prompt, text, history, rendered))
    texts, keys = [text for _, _, text, _, _ in made], adapters or [None] * len(made)
    known, under, out = ConversationLinker(texts), shared_under(texts, keys), list[PromptRecord]()
    for body, prompt, text, history, rendered in made:
        record = _record(PromptRecord(body, text, history, rendered, known.add(body)), tokenizer)
        out.append(record)
        relate(out, record, prompt is not None, tokenizer)
        if len({*keys}) > 1:
            find_usable(out, record, tokenizer, under[len(out) - 1], keys)
        if record.link.before >= 0 and not record.is_harmless:
            _find_sent_again(out[record.link.before], record, tokenizer)
    return out


def _record(record: PromptRecord, tokenizer: Tokenizer) -> PromptRecord:
    """Store the tokens of a prompt in its record, and return it. Raise BadInput if there are none."""
    record.ids = tokenizer.tokens(record.text)
    if not record.ids:
        raise BadInput("the tokenizer returns no tokens for this prompt", file=record.body.place)
    return record


def relate(known: Sequence[PromptRecord], record: PromptRecord, templated: bool, tokenizer: Tokenizer) -> None:
    """Compare the last request with the previous one of its conversation, and store what it can reuse. ``known``: the
    requests that the numbers in its link name."""
    if record.link.before >= 0:
        _compare(known[record.link.before], record, templated, tokenizer)
    record.base, record.best = _find_reusable(known, record, tokenizer, record.link.best, record.link.common)
    record.under, record.usable = record.base, record.best


def _compare(a: PromptRecord, b: PromptRecord, templated: bool, tokenizer: Tokenizer) -> None:
    """Compare ``b`` with ``a``, the previous request, and store common prefix, cause, place and evidence in ``b``."""
    b.common = common_prefix(a.text, b.text)
    b.bytes = common_bytes(a.text, b.text, b.common)
    b.shared = _shared(a, b, b.common, tokenizer)
    at = common_prefix(a.plain.text, b.plain.text)
    b.cause = prompt_causes.cause_of_bodies(a.body, b.body, a.plain, b.plain, at)
    harmless = b.cause.name in (prompt_causes.EXTENDS, prompt_causes.SAME, prompt_causes.BACK)
    if templated and harmless and b.common < min(len(a.text), b.history):
        b.cause = _cause_of_template(a, b)
    if not b.is_harmless:
        b.place, b.old_place = b.plain.place(at), a.plain.place(at)
        if b.cause.name in (prompt_causes.TEMPLATE, prompt_causes.OPENING, prompt_causes.FIELDS):
            b.place, b.old_place = find_place(b, b.common), find_place(a, b.common)
        b.seen = evidence(a.text, b.text, b.common)
        if b.place.kind == MARK:                     # between two values of the body
            b.place = b.place._replace(character=0)
    if b.place and b.old_place and IMAGE in (b.place.kind, b.old_place.kind):
        b.place, b.old_place = b.place._replace(character=0), b.old_place._replace(character=0)
        b.seen = evidence(a.plain.text, b.plain.text, b.plain.start(at), WHOLE)
    _store_answer(a, b, tokenizer)


def _cause_of_template(a: PromptRecord, b: PromptRecord) -> PromptCause:
    """Return the cause of a rendered prompt that differs although the texts of the bodies agree."""
    if b.common >= a.history:
        return PromptCause(prompt_causes.OPENING)
    parameters = [one for one in changed(a.body.parameters, b.body.parameters) if is_template_option(one["name"])]
    names = [one["name"] for one in (*parameters, *changed_fields(a.body, b.body)) if one["matters"] != "no"]
    if not names:
        return PromptCause(prompt_causes.TEMPLATE)
    more = f", ... ({len(names)})" if len(names) > NAMED else ""
    return PromptCause(prompt_causes.FIELDS, ", ".join(names[:NAMED]) + more)


def _find_sent_again(a: PromptRecord, b: PromptRecord, tokenizer: Tokenizer) -> None:
    """Store in ``b`` the text after its first change that the prompt of ``a`` contains, too."""
    region = find_region(a.text, b.text, b.common, (len(a.text), a.history))
    if region is not None:
        positions = TokenPositions(a.text, a.tokens, tokenizer)
        b.again = sent_ranges(positions, b.text, region, b.shared, a.known_answer, a.answer)


def find_place(record: PromptRecord, at: int) -> BodyPlace:
    """Return the place in the body of a character of the rendered prompt. The texts of the body are searched in the
    prompt in order; the first that ends after the character contains it."""
    end = 0
    for number, message in enumerate(record.body.messages):
        starts = (record.text.find(part.text.strip(), end) for part in message.parts if part.kind == TEXT)
        text_start = next(starts, len(record.text))
        for part in message.parts:
            begin = record.text.find(part.text.strip(), end)
            left_out = part.kind == REASONING and 0 <= text_start < begin      # the match belongs to a later message
            if begin < 0 or left_out or not part.text.strip():
                continue
            end = begin + len(part.text.strip())
            if end > at:
                return BodyPlace(part.path, max(0, at - begin), part.kind, number)
    return BodyPlace("", 0, MARK, -1)


def _store_answer(a: PromptRecord, b: PromptRecord, tokenizer: Tokenizer) -> None:
    """Store the answer to ``a``: the recorded response, else the message that ``b`` sends back."""
    back = next(iter(b.body.messages[len(a.body.messages) :]), None)
    if a.known_answer or back is None or back.role != "assistant":
        return
    text = answer_text(back)
    generated = answer_text(a.body.answer) if a.body.answer is not None else text
    a.known_answer = generated
    a.answer = max(1, len(tokenizer.tokens(generated))) if generated else 1
    if b.cause.name != prompt_causes.EXTENDS or not generated:
        return
    same = common_prefix(generated, text)
    a.returned = a.answer if same == len(generated) else len(tokenizer.tokens(generated[:same])) if same else 0
    if same < len(generated.rstrip()) and a.body.answer is not None:
        kept = a.body.answer.text_without("reasoning").strip()
        if kept == back.text_without("reasoning").strip():
            b.cause = PromptCause(prompt_causes.DROPPED_ANSWER)
            b.place, b.old_place = b.plain.place(len(a.plain.text)), a.plain.place(len(a.plain.text))
            b.seen = DifferenceTexts("", generated[same : same + 40], text[same : same + 40])


def _shared(a: PromptRecord, b: PromptRecord, common: int, tokenizer: Tokenizer) -> int:
    """Return the number of common tokens of two prompts with ``common`` characters in common."""
    estimated = tokenizer.shared(a.text, b.text, common)
    if estimated is None:
        return common_prefix(a.ids, b.ids)
    return min(a.tokens if common == len(a.text) else estimated, b.tokens)       # including its last token


def _find_reusable(known: Sequence[PromptRecord], b: PromptRecord, tokenizer: Tokenizer, best: int, common: int,
                   ) -> tuple[int, int]:  # fmt: skip
    """Return the earlier request whose prompt and answer share the most tokens with ``b``, and their number: the
    previous request, or request ``best`` with ``common`` characters in common."""
    found = -1, 0
    for number in dict.fromkeys((b.link.before, best)):
        if number < 0:
            continue
        a = known[number]
        shared = b.shared if number == b.link.before else _shared(a, b, common, tokenizer)
        if shared == a.tokens and number == b.link.before:
            shared = min(shared + a.returned, b.tokens)
        found = max(found, (number, shared), key=lambda one: one[1])
    return found


def find_usable(known: Sequence[PromptRecord], b: PromptRecord, tokenizer: Tokenizer, best: SharedPrefix,
                 keys: Sequence[Hashable]) -> None:  # fmt: skip
    """Store in ``b`` what it shares with earlier requests under its adapters. If that is less than with any other, and
    less than the previous request has, the adapters are the cause."""
    before, key = b.link.before, keys[len(known) - 1]
    b.under, b.usable = -1, 0
    if before >= 0 and keys[before] == key:
        b.under, b.usable = _find_reusable(known, b, tokenizer, best.number, best.size)
    elif best.number >= 0:
        b.under, b.usable = best.number, _shared(known[best.number], b, best.size, tokenizer)
    if before >= 0 and keys[before] != key and b.usable < b.shared:
        b.cause, b.place, b.old_place = PromptCause(prompt_causes.ADAPTERS), *[BodyPlace("lora", 0, MARK, -1)] * 2
        b.seen = None
