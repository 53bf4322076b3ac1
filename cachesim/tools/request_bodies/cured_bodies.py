"""Request bodies as a client sends them that does not cause one of the changes: only the texts of that cause differ
from the bodies that were sent.

A change inside a message or a tool is undone where it occurs, until the first difference of two prompts has another
cause. A change of the order or the number of messages is undone by appending what is new to the bodies that were sent
before.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from difflib import Match, SequenceMatcher
from typing import Any, Iterator, NamedTuple, Sequence

from cachesim.base.tokens import common_prefix
from cachesim.tools.request_bodies import changed_messages as messages
from cachesim.tools.request_bodies import changed_text as text
from cachesim.tools.request_bodies import changed_tools as tools
from cachesim.tools.request_bodies import prompt_causes as causes
from cachesim.tools.request_bodies.api_forms import plain_chat
from cachesim.tools.request_bodies.body import TOOL, Body, BodyMessage, BodyText, common_suffix
from cachesim.tools.request_bodies.body_stages import ComparedBody, RenderedBody
from cachesim.tools.request_bodies.conversations import contains_summary, message_key
from cachesim.tools.request_bodies.moved_text import find_moved, find_moved_lines, list_begins
from cachesim.tools.request_bodies.plain_render import BodyPlace, RenderedPrompt, render_plain
from cachesim.tools.request_bodies.prompt_causes import part_of_prompt
from cachesim.tools.request_bodies.sent_again import find_region
from cachesim.tools.request_bodies.template import Prompt, is_template_option

ROUNDS = 64                  # changes of a cause in a body that are undone, at most
LINES = 400                  # lines of a text that are compared one by one, at most

_VALUES = frozenset({text.DATE, text.ID, text.COUNTER})
_LISTED = frozenset({messages.DROPPED, messages.INSERTED, messages.SUMMARY, messages.TAKEN_OUT, messages.MOVING,
                     messages.OTHER_PLACE})  # fmt: skip
_RENDERED = frozenset({causes.TEMPLATE, causes.OPENING})
_PREPARED = frozenset({tools.LIST, text.BILLING, causes.ADAPTERS})
_SAME_CURE = (
    frozenset({messages.RESULT, messages.PRUNED}),
    frozenset({messages.IMAGES, messages.MOVED}),
    frozenset({messages.REMOVED, messages.ADDED, messages.CHANGED_REASONING}),
    frozenset({tools.ORDER, tools.KEYS}),
)


class CureTarget(NamedTuple):
    """Cause to cure: its name, and the part of the prompt (``part_of_prompt``)."""

    cause: str
    part: str

    def names(self, cause: str, part: str) -> bool:
        """True if the cure of this cause undoes a change of that cause in that part."""
        same = cause == self.cause or any({cause, self.cause} <= group for group in _SAME_CURE)
        return same and part == self.part


class CuredRequests(NamedTuple):
    """Bodies without the changes of a cause, and their prompts if a chat template rendered them and its result has
    to change."""

    bodies: list[Body]
    prompts: list[Prompt | None] | None = None


def cured_requests(
    records: Sequence[ComparedBody], target: CureTarget, prompts: Sequence[Prompt | None]
) -> CuredRequests | None:
    """Return the requests as sent without the changes of a cause; None if no request differs then, or if the cause
    cannot be undone. ``prompts``: the prompts that a chat template rendered, None = rendered plainly."""
    if target.cause in _RENDERED:
        return _rendered_alike(records, target, prompts)
    sent = _prepared(records, target)
    cured: list[Body] = []
    for number, body in enumerate(sent):
        before = records[number].link.before
        if before < 0:
            cured.append(body)
            continue
        pair = _Pair(records[before], records[number], sent[before], body, cured[before])
        cured.append(_cured(pair, target))
    if all(body is record.body for body, record in zip(cured, records, strict=True)):
        return None
    return CuredRequests(cured)


class _Pair(NamedTuple):
    """Request and the previous request of its conversation."""

    old_record: RenderedBody
    record: ComparedBody
    old: Body                # the previous body as it was sent
    new: Body                # the body as it was sent
    cured: Body              # the previous body without the changes of the cause

    @property
    def is_changed(self) -> bool:
        """True if the previous body differs from the body that was sent."""
        return self.cured is not self.old

    def has(self, target: CureTarget) -> bool:
        """True if the body has a change of the cause."""
        record = self.record
        return target.names(record.cause.name, part_of_prompt(record.body, record.place, record.cause.name))


def _cured(pair: _Pair, target: CureTarget) -> Body:
    """Return a body without the changes of a cause."""
    if target.cause in _PREPARED or not (pair.is_changed or pair.has(target)):
        return pair.new
    if target.cause in causes.OF_ANSWER:
        return _with_reasoning(pair)
    if target.cause == causes.FIELDS:
        return _with_fields(pair)
    if pair.new.is_raw and target.cause not in _VALUES:
        return _continued_text(pair, target)
    if target.cause in _LISTED:
        return _continued_messages(pair, target)
    return _undone(pair, target)


# Changes that are undone in all requests of a conversation before they are compared.


def _prepared(records: Sequence[ComparedBody], target: CureTarget) -> list[Body]:
    """Return the bodies, with what all requests of a conversation have to share if it has a change of the cause: the
    list of tools, no billing header, the adapters."""
    bodies = [record.body for record in records]
    concerned = {record.link.conversation for record in records if record.cause.name == target.cause}
    if target.cause not in _PREPARED:
        return bodies
    numbers = [number for number, record in enumerate(records) if record.link.conversation in concerned]
    if target.cause == tools.LIST:
        for conversation in concerned:
            own = [number for number in numbers if records[number].link.conversation == conversation]
            every = {tools.name_of(tool): (path, tool) for number in reversed(own) for path, tool in
                     reversed(bodies[number].tools)}  # fmt: skip
            for number in own:
                bodies[number] = replace(bodies[number], tools=[*reversed(every.values())])
    elif target.cause == text.BILLING:
        for number in numbers:
            bodies[number] = _without_billing(bodies[number])
    else:
        first: dict[int, Any] = {}
        for number in numbers:
            parameters = bodies[number].parameters
            lora = first.setdefault(records[number].link.conversation, parameters.get("lora"))
            kept = {key: value for key, value in parameters.items() if key != "lora"}
            bodies[number] = replace(bodies[number], parameters=kept if lora is None else {**kept, "lora": lora})
    return bodies


_BILLING_LINE = re.compile(r"[^\n]*x-anthropic-[^\n]*\n?")


def _without_billing(body: Body) -> Body:
    """Return a body without the lines of a billing header."""
    for number, message in enumerate(body.messages):
        for part in message.parts if message.is_system else ():
            if "x-anthropic-" in part.text:
                body = _with_text(body, number, part, _BILLING_LINE.sub("", part.text))
    return body


# Changes inside messages and tools.


def _undone(pair: _Pair, target: CureTarget) -> Body:
    """Return the body with the texts of the previous body wherever a difference has the cause."""
    body = _as_before(pair)
    old_prompt = render_plain(pair.cured)
    for _ in range(ROUNDS):
        new_prompt = render_plain(body)
        at = common_prefix(old_prompt.text, new_prompt.text)
        cause = causes.cause_of_bodies(pair.cured, body, old_prompt, new_prompt, at).name
        if cause in causes.HARMLESS:
            return body
        place = new_prompt.place(at)
        if not target.names(cause, part_of_prompt(body, place, cause)):
            return body
        difference = _Difference(old_prompt, new_prompt, at, cause)
        changed = _undo(pair.cured, body, difference)
        if changed is None:
            return body
        body = changed
    return body


def _as_before(pair: _Pair) -> Body:
    """Return the body with the cured messages and tools in place of those that it repeats from the previous body."""
    body = pair.new
    if not pair.is_changed:
        return body
    for number, message in enumerate(pair.cured.messages):
        sent = pair.old.messages[number] if number < len(pair.old.messages) else None
        if number < len(body.messages) and message != sent and body.messages[number] == sent:
            body = _with_message(body, number, pair.cured, number)
    if pair.cured.tools != pair.old.tools and [one for _, one in body.tools] == [one for _, one in pair.old.tools]:
        body = replace(body, tools=pair.cured.tools)
    return body


class _Difference(NamedTuple):
    """First difference of two prompts in the plain rendering, and its cause."""

    old: RenderedPrompt
    new: RenderedPrompt
    at: int
    cause: str

    @property
    def message(self) -> int:
        """Return the number of the message, -1 = none."""
        return min(self.old.place(self.at).message, self.new.place(self.at).message)

    @property
    def is_in_tools(self) -> bool:
        """True if the difference is in the definitions of tools."""
        places = self.old.place(self.at), self.new.place(self.at)
        return any(place.kind == TOOL or place.path.startswith(("tools", "functions")) for place in places)


def _undo(old: Body, new: Body, difference: _Difference) -> Body | None:
    """Return a body without a difference; None if it cannot be undone."""
    if difference.is_in_tools:
        names = [[tools.name_of(tool) for _, tool in body.tools] for body in (old, new)]
        return replace(new, tools=old.tools) if sorted(names[0]) == sorted(names[1]) else None
    number = difference.message
    if not 0 <= number < min(len(old.messages), len(new.messages)):
        return None
    if difference.cause in (*_VALUES, text.LISTING):
        changed = _with_old_value(old, new, difference)
        if changed is not None:
            return changed
    if difference.cause in (messages.EDITED, causes.CHANGED) and not _goes_on(old, new, number):
        return None
    if difference.cause in (messages.IMAGES, messages.MOVED):
        return _with_media(old, new, number)
    return None if old.messages[number] == new.messages[number] else _with_message(new, number, old, number)


def _goes_on(old: Body, new: Body, number: int) -> bool:
    """True if the message after an edited message is in both bodies: who edits a message drops what follows."""
    after = number + 1
    if after >= min(len(old.messages), len(new.messages)):
        return False
    return message_key(old.messages[after]) == message_key(new.messages[after])


def _with_media(old: Body, new: Body, number: int) -> Body:
    """Return a body with the past messages of the previous body from ``number`` on, where both have the same roles: an
    image that moves changes two messages."""
    for at in range(number, min(len(old.messages), len(new.messages))):
        if old.messages[at].role != new.messages[at].role:
            break
        if old.messages[at] != new.messages[at]:
            new = _with_message(new, at, old, at)
    return new


def _with_old_value(old: Body, new: Body, difference: _Difference) -> Body | None:
    """Return a body with the value that the previous body has at the difference; None if it is in no text."""
    places = difference.old.place(difference.at), difference.new.place(difference.at)
    number = difference.message
    parts = [_part(body.messages[number], place) for body, place in zip((old, new), places, strict=True)]
    before, after = parts
    if before is None or after is None or after.kind == TOOL:
        return None
    span = None
    if difference.cause in _VALUES:
        span = text.changed_value(difference.cause, before.text, after.text, places[1].character)
    if span is None:
        span = _changed_lines(before.text, after.text)
    if span is None:
        return None
    start, old_stop, new_stop = span
    value = f"{after.text[:start]}{before.text[start:old_stop]}{after.text[new_stop:]}"
    return None if value == after.text else _with_text(new, number, after, value)


def _part(message: BodyMessage, place: BodyPlace) -> BodyText | None:
    """Return the part of a message that contains a place."""
    found = (part for part in message.parts if part.path == place.path and part.kind == place.kind)
    return next(found, None)


def _changed_lines(old: str, new: str) -> text.ChangedValue | None:
    """Return the first lines that differ, as the character at which they begin and those at which they end in both
    texts; None if there are none."""
    start = common_prefix(old, new)
    begin = old.rfind("\n", 0, start) + 1
    a, b = (one[begin:].splitlines(keepends=True) for one in (old, new))
    if max(len(a), len(b)) > LINES:
        same = common_suffix(old[start:], new[start:], min(len(old), len(new)) - start)
        return text.ChangedValue(start, len(old) - same, len(new) - same)
    for tag, i, i_stop, j, j_stop in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag != "equal":
            at = begin + sum(map(len, a[:i]))
            return text.ChangedValue(at, at + sum(map(len, a[i:i_stop])), at + sum(map(len, b[j:j_stop])))
    return None


def _with_text(body: Body, number: int, part: BodyText, value: str) -> Body:
    """Return a body in which a part of a message has another text."""
    message = body.messages[number]
    parts = tuple(one._replace(text=value) if one is part else one for one in message.parts)
    changed = [*body.messages]
    changed[number] = message._replace(parts=parts)
    if body.chat is None:
        return replace(body, messages=changed)
    chat = [*body.chat]
    chat[number] = {key: entry.replace(part.text, value) if isinstance(entry, str) and part.text else entry
                    for key, entry in chat[number].items()}  # fmt: skip
    return replace(body, messages=changed, chat=chat)


def _with_message(body: Body, number: int, source: Body, source_number: int) -> Body:
    """Return a body in which a message is that of another body."""
    changed = [*body.messages]
    changed[number] = source.messages[source_number]
    if body.chat is None or source.chat is None:
        return replace(body, messages=changed)
    chat = [*body.chat]
    chat[number] = source.chat[source_number]
    return replace(body, messages=changed, chat=chat)


# Changes of the order and the number of messages or texts: new ones are appended to those that were sent before.


def _continued_messages(pair: _Pair, target: CureTarget) -> Body:
    """Return the messages of the previous body, followed by those that are new; the body itself if another change is
    in its history."""
    record = pair.record
    cured = pair.cured
    new = pair.new
    place = record.place
    in_front = place is not None and (place.kind == TOOL or place.path.startswith(("tools", "functions")) or (
        0 <= place.message < len(new.messages) and new.messages[place.message].is_system))  # fmt: skip
    if cured.is_raw != new.is_raw or record.cause.name == causes.BACK:
        return new
    if not (record.is_harmless or pair.has(target) or in_front or record.cause.name in _LISTED):
        return new
    kept = [*zip(cured.messages, cured.chat or (), strict=True)]
    if not pair.has(target):
        kept = [*_with_own_fronts(pair, kept)]
    added = [*_new_messages(pair.old, new, is_summary=target.cause == messages.SUMMARY)]
    return replace(new, messages=[message for message, _ in [*kept, *added]], chat=[one for _, one in [*kept, *added]])


_Said = tuple[BodyMessage, dict[str, Any]]


def _with_own_fronts(pair: _Pair, kept: Sequence[_Said]) -> Iterator[_Said]:
    """Yield messages, with the system messages at the front that the body itself has."""
    for number, said in enumerate(kept):
        in_both = number < min(len(pair.new.messages), len(pair.old.messages)) and pair.new.chat is not None
        if in_both and said[0].is_system and pair.new.messages[number].is_system:
            assert pair.new.chat is not None
            yield pair.new.messages[number], pair.new.chat[number]
        else:
            yield said


def _new_messages(old: Body, new: Body, is_summary: bool) -> Iterator[_Said]:
    """Yield the messages of a body that the previous body does not have, in order: those inserted between other
    messages come last. ``is_summary``: leave out summaries."""
    a, b = [*map(message_key, old.messages)], [*map(message_key, new.messages)]
    blocks = _blocks_in_both(a, b)
    in_both = {number for block in blocks for number in range(block.b, block.b + block.size)}
    in_old = {number for block in blocks for number in range(block.a, block.a + block.size)}
    left = Counter(key for number, key in enumerate(a) if number not in in_old)
    end = max(in_both, default=-1)
    is_system = all(body.messages[0].is_system for body in (old, new) if body.messages)
    inserted: list[_Said] = []
    for number, (message, chat) in enumerate(zip(new.messages, new.chat or (), strict=True)):
        if number in in_both:
            continue
        if left[b[number]]:
            left[b[number]] -= 1
        elif (number == 0 and is_system) or (is_summary and number < len(b) - 1 and contains_summary([message])):
            continue
        elif number < end:
            inserted.append((message, chat))
        else:
            yield message, chat
    yield from inserted


def _blocks_in_both(a: Sequence[int], b: Sequence[int]) -> list[Match]:
    """Return the blocks of messages that follow each other in both bodies. Messages that moved are in none."""
    at = common_prefix(a, b)
    moved = find_moved(a, b, at, list_begins)
    skipped = 0 if moved is None else moved.size
    found = SequenceMatcher(None, a[at + skipped :], b[at:], autojunk=False).get_matching_blocks()
    return [Match(0, 0, at), *(Match(one.a + at + skipped, one.b + at, one.size) for one in found)]


def _continued_text(pair: _Pair, target: CureTarget) -> Body:
    """Return the raw prompt of the previous body, followed by the text that is new; the body itself if it is not
    known which text is new."""
    record = pair.record
    old_text = pair.old_record.text
    new_text = pair.record.text
    if pair.has(target):
        added = _new_text(pair, target)
    elif record.cause.name in (causes.EXTENDS, causes.SAME):
        added = new_text[len(old_text) :] if new_text.startswith(old_text) else None
    else:
        added = None
    if added is None or not pair.new.messages or not pair.cured.messages:
        return pair.new
    last = pair.new.messages[-1].parts[-1]
    parts = (*pair.cured.messages[-1].parts, *([BodyText(last.kind, last.path, added)] if added else ()))
    return replace(pair.new, messages=[pair.cured.messages[-1]._replace(parts=parts)])


def _new_text(pair: _Pair, target: CureTarget) -> str | None:
    """Return the text of a raw prompt that the previous prompt does not contain; None if it is not known."""
    record = pair.record
    old_text = pair.old_record.text
    new_text = pair.record.text
    if target.cause in (messages.MOVING, causes.MOVED_LINES):
        moved = find_moved_lines(old_text, new_text, record.common)
        if moved is not None:
            begin = old_text.rfind("\n", 0, record.common) + 1
            new_lines = new_text[begin:].splitlines(keepends=True)
            place = len(new_lines) - moved.after - moved.size
            without = new_lines[:place] + new_lines[place + moved.size :]
            rest = len(old_text) - begin - sum(map(len, old_text[begin:].splitlines(keepends=True)[: moved.size]))
            return "".join(without)[rest:]
    region = find_region(old_text, new_text, record.common, (len(old_text),))
    if region is None:
        return None
    added = new_text[region.new_stop + region.end - region.old_stop :]
    return added + new_text[region.start : region.new_stop] if target.cause == causes.PUT_IN else added


# Changes beside the texts.


def _with_reasoning(pair: _Pair) -> Body:
    """Return a body with the generated answers of the requests before it."""
    old = pair.old
    new = pair.new
    cured = pair.cured
    has_changed_answer = pair.record.cause.name in causes.OF_ANSWER
    is_other = not pair.record.is_harmless and not has_changed_answer
    if is_other or new.chat is None:
        return new
    sent, chat = [*new.messages[len(old.messages) :]], [*new.chat[len(old.messages) :]]
    if has_changed_answer and old.answer is not None and sent:
        sent[0], chat[0] = old.answer, plain_chat(old.answer)
    return replace(new, messages=[*cured.messages, *sent], chat=[*(cured.chat or ()), *chat])


def _with_fields(pair: _Pair) -> Body:
    """Return a body with the template options and the past messages of the previous body."""
    old, new = pair.cured, pair.new
    own = {key: value for key, value in new.parameters.items() if not is_template_option(key)}
    kept = {key: value for key, value in old.parameters.items() if is_template_option(key)}
    body = replace(new, parameters={**own, **kept})
    for number in range(min(len(old.messages), len(new.messages))):
        body = _with_message(body, number, old, number)
    return body


def _rendered_alike(
    records: Sequence[ComparedBody], target: CureTarget, prompts: Sequence[Prompt | None]
) -> CuredRequests | None:
    """Return the bodies, with prompts that begin with the previous prompt where the chat template renders its messages
    differently."""
    cured: list[Prompt | None] = []
    for record, prompt in zip(records, prompts, strict=True):
        before = record.link.before
        old = cured[before] if before >= 0 else None
        if old is None or prompt is None:
            cured.append(prompt)
            continue
        kept, added = _continued_rendering(records[before], record, target, old)
        if added is None:
            cured.append(prompt)
            continue
        whole = kept + added
        cured.append(Prompt(whole, len(whole) - len(record.text) + record.history))
    if cured == [*prompts]:
        return None
    return CuredRequests([record.body for record in records], cured)


def _continued_rendering(
    a: RenderedBody, b: ComparedBody, target: CureTarget, old: Prompt
) -> tuple[str, str | None]:
    """Return the part of the previous prompt that a prompt without the change begins with, and what follows it; None
    if that is not known."""
    if b.cause.name == target.cause == causes.TEMPLATE:
        history = b.text[: b.history]                # the text that begins the answer ends both prompts
        region = find_region(a.text, history, b.common, (len(a.text), a.history)) if b.common < b.history else None
        if region is None:
            return "", None
        kept = old.text[: len(old.text) - (len(a.text) - region.end)]
        return kept, b.text[region.new_stop + region.end - region.old_stop :]
    if b.cause.name == target.cause:
        return old.text, b.text[b.common :]
    if b.is_harmless and b.common >= a.history:
        return old.text[: len(old.text) - (len(a.text) - b.common)], b.text[b.common :]
    return "", None
