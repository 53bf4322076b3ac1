"""Differences between each request and the previous request of its conversation: common prefix, place and cause."""

from __future__ import annotations

from typing import Hashable, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.limits import RENDERED
from cachesim.base.tokens import common_prefix
from cachesim.tools.request_bodies import changed_messages as messages
from cachesim.tools.request_bodies import prompt_causes
from cachesim.tools.request_bodies.body import (
    AFTER,
    CALL,
    IMAGE,
    MARK,
    REASONING,
    TEXT,
    Body,
    BodyMessage,
    DifferenceTexts,
    changed,
    common_bytes,
    evidence,
)
from cachesim.tools.request_bodies.body_stages import (
    NO_ANSWER,
    AnsweredBody,
    ComparedBody,
    KnownAnswer,
    PromptDifference,
    RelatedBody,
    RenderedBody,
    ReusablePrefix,
)
from cachesim.tools.request_bodies.conversations import ConversationLink, ConversationLinker
from cachesim.tools.request_bodies.message_content import arguments
from cachesim.tools.request_bodies.message_fields import changed_fields
from cachesim.tools.request_bodies.plain_render import BodyPlace, answer_text, render_plain
from cachesim.tools.request_bodies.prompt_causes import PromptCause
from cachesim.tools.request_bodies.sent_again import SentRange, TokenPositions, find_region, sent_ranges
from cachesim.tools.request_bodies.shared_prefixes import SharedPrefix, shared_under
from cachesim.tools.request_bodies.template import Prompt, is_template_option
from cachesim.tools.request_bodies.tokenizer import Tokenizer

NAMED = 4                    # names of fields in a cause, at most
HIDDEN = 2                   # a reply that generated so many times the tokens of its text hid a part, such as reasoning
WHOLE = 64                   # characters of evidence that hold the name, size and digest of an image


def kept_by_any(records: Sequence[AnsweredBody], record: AnsweredBody) -> int:
    """Return the tokens of a prompt that a server can reuse at most. Each server evaluates the last token of a prompt,
    and none evaluates the last token of an answer before it is sent back."""
    if record.under < 0:
        return 0
    source = records[record.under]
    return max(0, min(record.usable, record.tokens - 1, source.tokens + source.answer - 1))


def link_requests(bodies: Sequence[Body], prompts: Sequence[Prompt | None], tokenizer: Tokenizer,
                  adapters: Sequence[Hashable] = ()) -> list[AnsweredBody]:  # fmt: skip
    """Return the requests with their relations. ``adapters``: those of each request, () = all equal. Raise BadInput
    for an empty prompt, and if the prompts together are too large."""
    rendered = _render_requests(bodies, prompts)
    texts = [request.text for request in rendered]
    keys = adapters or [None] * len(rendered)
    linker = ConversationLinker(texts)
    best_under = shared_under(texts, keys)
    compared: list[ComparedBody] = []
    answers: list[KnownAnswer] = []
    again: list[tuple[SentRange, ...]] = []
    for number, request in enumerate(rendered):
        related = relate(request, linker.add(request.body), compared, tokenizer)
        before = related.link.before
        under = None
        if len({*keys}) > 1:
            under = AdapterPrefix(best_under[number], before >= 0 and keys[before] == keys[number])
        comparison = compare(related, compared, answers, tokenizer, under)
        if before >= 0:
            answers[before] = comparison.previous_answer
        again.append(_sent_again(comparison, compared, tokenizer))
        compared.append(comparison.request)
        answers.append(KnownAnswer(tokens=max(1, request.body.reported.generated or 1)))
    parts = zip(compared, answers, again, strict=True)
    return [_answered(request, answer, ranges) for request, answer, ranges in parts]


# Parsed to rendered.


def _render_requests(bodies: Sequence[Body], prompts: Sequence[Prompt | None]) -> list[RenderedBody]:
    """Return the requests with their prompts. Raise BadInput for an empty prompt, and if the prompts together are too
    large."""
    rendered = []
    size = 0
    for body, prompt in zip(bodies, prompts, strict=True):
        request = render_request(body, prompt)
        size += len(request.text)
        RENDERED.check(size, "the prompts together", file=body.place)
        rendered.append(request)
    return rendered


def render_request(body: Body, prompt: Prompt | None = None) -> RenderedBody:
    """Return a request with its prompt. ``prompt``: as a chat template rendered it, None = rendered plainly. Raise
    BadInput for an empty prompt."""
    plain = render_plain(body)
    text, history = (plain.text, plain.history) if prompt is None else prompt
    if not text:
        raise BadInput("empty prompt", file=body.place)
    return RenderedBody(body=body, text=text, history=history, plain=plain, is_templated=prompt is not None)


# Rendered to related.


def relate(
    request: RenderedBody, link: ConversationLink, known: Sequence[RelatedBody], tokenizer: Tokenizer
) -> RelatedBody:
    """Return a request with its tokens and those that it has in common with the previous one of its conversation.
    ``known``: the requests that the numbers of ``link`` name. Raise BadInput if the prompt has no tokens."""
    ids = tokenizer.tokens(request.text)
    if not ids:
        raise BadInput("the tokenizer returns no tokens for this prompt", file=request.body.place)
    characters = size = tokens = 0
    if link.before >= 0:
        before = known[link.before]
        characters = common_prefix(before.text, request.text)
        size = common_bytes(before.text, request.text, characters)
        tokens = _shared_tokens(before, request.text, ids, characters, tokenizer)
    return RelatedBody(
        body=request.body,
        text=request.text,
        history=request.history,
        plain=request.plain,
        is_templated=request.is_templated,
        ids=ids,
        link=link,
        common=characters,
        bytes=size,
        shared=tokens,
    )


def _shared_tokens(a: RelatedBody, text: str, ids: Sequence[int], common: int, tokenizer: Tokenizer) -> int:
    """Return the number of tokens that the prompt ``text`` with the tokens ``ids`` shares with the prompt of ``a``, if
    both have ``common`` characters in common."""
    estimated = tokenizer.shared(a.text, text, common)
    if estimated is None:
        return common_prefix(a.ids, ids)
    return min(a.tokens if common == len(a.text) else estimated, len(ids))       # including its last token


# Related to compared.


class AdapterPrefix(NamedTuple):
    """What a request shares with earlier requests under its own adapters."""

    best: SharedPrefix       # the earlier prompt under these adapters with the longest common prefix
    has_previous: bool       # the previous request of the conversation has these adapters


class RequestComparison(NamedTuple):
    """Request that was compared, and the answer to the previous one of its conversation, as far as both show it."""

    request: ComparedBody
    previous_answer: KnownAnswer         # NO_ANSWER for the first request of a conversation


def compare(
    record: RelatedBody,
    known: Sequence[RelatedBody],
    answers: Sequence[KnownAnswer],
    tokenizer: Tokenizer,
    under: AdapterPrefix | None = None,
) -> RequestComparison:
    """Compare a request with the previous one of its conversation, and find what it can reuse.

    ``known``: the requests that the numbers in its link name, ``answers``: their answers as far as they are known,
    ``under``: None if all have the same adapters.
    """
    difference = PromptDifference(PromptCause(prompt_causes.NEW))
    answer = NO_ANSWER
    if record.link.before >= 0:
        before = known[record.link.before]
        answer = answers[record.link.before]
        difference = _find_difference(before, record)
        back = _answer_sent_back(before.body, record.body)
        if back is not None and not answer.text:
            is_extended = difference.cause.name == prompt_causes.EXTENDS
            answer = _learn_answer(before.body, back, is_extended, tokenizer)
            if is_extended:
                difference = _changed_answer(before, record, back) or difference
        elif record.body.is_raw and before.body.answer is not None and not answer.text:
            answer = _continued_answer(before, record, before.body.answer, tokenizer)
    best = SharedPrefix(record.link.best, record.link.common)
    reusable = _find_reusable(record, known, answer, tokenizer, best)
    usable = reusable
    if under is not None:
        usable = _find_usable(record, known, answer, tokenizer, under)
        if record.link.before >= 0 and not under.has_previous and usable.tokens < record.shared:
            place = BodyPlace("lora", 0, MARK, -1)
            difference = PromptDifference(PromptCause(prompt_causes.ADAPTERS), place, place)
    return RequestComparison(_compared(record, difference, reusable, usable), answer)


def _compared(
    record: RelatedBody, difference: PromptDifference, reusable: ReusablePrefix, usable: ReusablePrefix
) -> ComparedBody:
    """Return a request with its difference from the previous one, and what it can reuse under any adapters and under
    its own."""
    return ComparedBody(
        body=record.body,
        text=record.text,
        history=record.history,
        plain=record.plain,
        is_templated=record.is_templated,
        ids=record.ids,
        link=record.link,
        common=record.common,
        bytes=record.bytes,
        shared=record.shared,
        cause=difference.cause,
        place=difference.place,
        old_place=difference.old_place,
        seen=difference.seen,
        base=reusable.number,
        best=reusable.tokens,
        under=usable.number,
        usable=usable.tokens,
    )


def _find_difference(a: RelatedBody, b: RelatedBody) -> PromptDifference:
    """Return the first difference of ``b`` from ``a``, the previous request: cause, place and evidence."""
    at = common_prefix(a.plain.text, b.plain.text)
    cause = prompt_causes.cause_of_bodies(a.body, b.body, a.plain, b.plain, at)
    harmless = cause.name in (prompt_causes.EXTENDS, prompt_causes.SAME, prompt_causes.BACK)
    if b.is_templated and harmless and b.common < min(len(a.text), b.history):
        cause = _cause_of_template(a, b)
    if b.is_templated and not harmless and cause.name not in (messages.IMAGES, messages.MOVED):
        cause = _unseen_by_template(a, b) or cause
    if cause.name in prompt_causes.HARMLESS:
        return PromptDifference(cause)
    if cause.name in (prompt_causes.TEMPLATE, prompt_causes.OPENING, prompt_causes.FIELDS):
        place = find_place(b, b.common)
        old_place = find_place(a, b.common)
    else:
        place = b.plain.place(at)
        old_place = a.plain.place(at)
    seen = evidence(a.text, b.text, b.common)
    if place.kind == MARK:                           # between two values of the body
        place = place._replace(character=0)
    if IMAGE in (place.kind, old_place.kind):
        place = place._replace(character=0)
        old_place = old_place._replace(character=0)
        seen = evidence(a.plain.text, b.plain.text, b.plain.start(at), WHOLE)
    return PromptDifference(cause, place, old_place, seen)


def _unseen_by_template(a: RelatedBody, b: RelatedBody) -> PromptCause | None:
    """Return the harmless cause of bodies that differ in texts that the chat template does not write; None if the
    rendered prompts differ, too."""
    if b.common >= len(a.text):
        return PromptCause(prompt_causes.SAME if a.text == b.text else prompt_causes.EXTENDS)
    return PromptCause(prompt_causes.BACK) if b.common >= b.history else None


def _cause_of_template(a: RelatedBody, b: RelatedBody) -> PromptCause:
    """Return the cause of a rendered prompt that differs although the texts of the bodies agree."""
    if b.common >= a.history:
        return PromptCause(prompt_causes.OPENING)
    parameters = [one for one in changed(a.body.parameters, b.body.parameters) if is_template_option(one["name"])]
    names = [one["name"] for one in (*parameters, *changed_fields(a.body, b.body)) if one["matters"] != "no"]
    if not names:
        return PromptCause(prompt_causes.TEMPLATE)
    more = f", ... ({len(names)})" if len(names) > NAMED else ""
    return PromptCause(prompt_causes.FIELDS, ", ".join(names[:NAMED]) + more)


def find_place(record: RenderedBody, at: int) -> BodyPlace:
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


def _answer_sent_back(a: Body, b: Body) -> BodyMessage | None:
    """Return the message of ``b`` in the place of the answer to ``a``, None if it is of another role."""
    begun = 0 if a.continued is None else 1      # the last message of `a` is the beginning of the answer
    back = next(iter(b.messages[len(a.messages) - begun :]), None)
    return back if back is not None and back.role == "assistant" else None


def _learn_answer(body: Body, back: BodyMessage, is_extended: bool, tokenizer: Tokenizer) -> KnownAnswer:
    """Return the answer to a request: the recorded response, else the message that the next request sends back.
    ``is_extended``: the next request extends this one, and repeats the answer as far as the texts agree."""
    text = answer_text(back)
    if body.continued is not None:
        text = text.removeprefix(answer_text(body.messages[-1]))
    generated = answer_text(body.answer) if body.answer is not None else text
    if not generated:
        return NO_ANSWER
    same = common_prefix(generated, text) if is_extended else 0
    return _known_answer(body, generated, same, tokenizer)


def _continued_answer(
    before: RelatedBody, record: RelatedBody, answer: BodyMessage, tokenizer: Tokenizer
) -> KnownAnswer:
    """Return the recorded answer to a prompt without a chat template. ``record``: the next request, which repeats the
    answer as far as its prompt continues with it."""
    generated = answer.text_without()
    if not generated:
        return NO_ANSWER
    is_extended = record.text.startswith(before.text)
    same = common_prefix(generated, record.text[len(before.text) :]) if is_extended else 0
    return _known_answer(before.body, generated, same, tokenizer)


def _known_answer(body: Body, generated: str, same: int, tokenizer: Tokenizer) -> KnownAnswer:
    """Return the answer with the text ``generated``, of which the next request sends the first ``same`` characters
    back."""
    counted = max(1, len(tokenizer.tokens(generated)))
    stated = body.reported.generated
    if tokenizer.exact and stated and counted > stated:
        return KnownAnswer(generated, stated, returned=0)       # not the text's tokens, which are more
    tokens = _generated_tokens(body, counted, tokenizer.exact)
    if same == len(generated):
        is_whole = tokens < HIDDEN * counted
        return KnownAnswer(generated, tokens, returned=tokens if is_whole else counted)
    return KnownAnswer(generated, tokens, returned=len(tokenizer.tokens(generated[:same])) if same else 0)


def _generated_tokens(body: Body, counted: int, is_exact: bool) -> int:
    """Return the tokens of an answer: as its reply states them, if they are not counted by a tokenizer. ``counted``:
    tokens of its text."""
    stated = body.reported.generated
    return counted if is_exact or stated is None else max(1, stated)


def _changed_answer(a: RelatedBody, b: RelatedBody, back: BodyMessage) -> PromptDifference | None:
    """Return the difference of a request that sends the recorded answer back without its reasoning, or otherwise than
    it was generated; None if it does not."""
    if a.body.answer is None or a.body.continued is not None:
        return None
    generated = answer_text(a.body.answer)
    text = answer_text(back)
    same = common_prefix(generated, text)
    name = _change_of_answer(a.body.answer, back)
    if same >= len(generated.rstrip()) or not name:
        return None
    end = len(a.plain.text)
    seen = DifferenceTexts("", generated[same : same + AFTER], text[same : same + AFTER])
    at = end if name == prompt_causes.DROPPED_ANSWER else end + same
    return PromptDifference(PromptCause(name), b.plain.place(at), a.plain.place(end), seen)


def _change_of_answer(generated: BodyMessage, back: BodyMessage) -> str:
    """Return the cause of an answer that is sent back otherwise than it was generated, "" if only the form of its tool
    calls differs. A stream may not show all calls."""
    text, sent = (one.text_without(REASONING, CALL).strip() for one in (generated, back))
    calls, sent_calls = ([arguments(part.text) for part in one.parts if part.kind == CALL] for one in (generated, back))
    if text == sent and calls == sent_calls[: len(calls)]:
        has_dropped = generated.text_without(TEXT, CALL) != back.text_without(TEXT, CALL)
        return prompt_causes.DROPPED_ANSWER if has_dropped else ""
    return prompt_causes.CHANGED_ANSWER


def _find_reusable(
    b: RelatedBody,
    known: Sequence[RelatedBody],
    previous_answer: KnownAnswer,
    tokenizer: Tokenizer,
    best: SharedPrefix,
) -> ReusablePrefix:
    """Return the earlier request whose prompt and answer share the most tokens with ``b``: the previous request, or the
    request of ``best``."""
    found = ReusablePrefix()
    for number in dict.fromkeys((b.link.before, best.number)):
        if number < 0:
            continue
        a = known[number]
        is_previous = number == b.link.before
        shared = b.shared if is_previous else _shared_tokens(a, b.text, b.ids, best.size, tokenizer)
        if shared == a.tokens and is_previous:
            shared = min(shared + previous_answer.returned, b.tokens)
        if shared > found.tokens:
            found = ReusablePrefix(number, shared)
    return found


def _find_usable(
    b: RelatedBody,
    known: Sequence[RelatedBody],
    previous_answer: KnownAnswer,
    tokenizer: Tokenizer,
    under: AdapterPrefix,
) -> ReusablePrefix:
    """Return the earlier request under the adapters of ``b`` whose prompt and answer share the most tokens with it."""
    best = under.best
    if under.has_previous:
        return _find_reusable(b, known, previous_answer, tokenizer, best)
    if best.number < 0:
        return ReusablePrefix()
    return ReusablePrefix(best.number, _shared_tokens(known[best.number], b.text, b.ids, best.size, tokenizer))


# Compared to answered.


def _sent_again(
    comparison: RequestComparison, known: Sequence[RelatedBody], tokenizer: Tokenizer
) -> tuple[SentRange, ...]:
    """Return the text of a request after its first change that the previous prompt contains, too."""
    request = comparison.request
    answer = comparison.previous_answer
    if request.link.before < 0 or request.is_harmless:
        return ()
    before = known[request.link.before]
    region = find_region(before.text, request.text, request.common, (len(before.text), before.history))
    if region is None:
        return ()
    positions = TokenPositions(before.text, before.tokens, tokenizer)
    return sent_ranges(positions, request.text, region, request.shared, answer.text, answer.tokens)


def _answered(request: ComparedBody, answer: KnownAnswer, again: tuple[SentRange, ...]) -> AnsweredBody:
    """Return a request with its answer and the text that it repeats."""
    return AnsweredBody(
        body=request.body,
        text=request.text,
        history=request.history,
        plain=request.plain,
        is_templated=request.is_templated,
        ids=request.ids,
        link=request.link,
        common=request.common,
        bytes=request.bytes,
        shared=request.shared,
        cause=request.cause,
        place=request.place,
        old_place=request.old_place,
        seen=request.seen,
        base=request.base,
        best=request.best,
        under=request.under,
        usable=request.usable,
        answer=answer.tokens,
        returned=answer.returned,
        known_answer=answer.text,
        again=again,
    )
