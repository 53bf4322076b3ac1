"""How many tokens must be evaluated because a prompt was changed, and what are the causes of all of them?

The tokens of a prompt are, in this order: in common with an earlier request; changed or behind a change, although the
request before had them (``client``); new (``new``).
"""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.tools.request_bodies.causes import CAUSES, CHANGED
from cachesim.tools.request_bodies.changed_text import COUNTER, DATE, ID, LISTING, SPACE
from cachesim.tools.request_bodies.conversations import key_of
from cachesim.tools.request_bodies.links import PromptRecord
from cachesim.tools.request_bodies.plain import BodyPlace
from cachesim.tools.request_bodies.tokenizer import Tokenizer

ROLES = {"system": "the system prompt", "developer": "the system prompt", "user": "a user's message",
         "assistant": "an answer", "tool": "a result of a tool", "function": "a result of a tool"}  # fmt: skip

ANYWHERE = (DATE, ID, LISTING, COUNTER, SPACE, CHANGED)
"""Causes whose sentence does not say in which part of a prompt they are."""


def client_tokens(asked: Sequence[PromptRecord], one: PromptRecord, tokenizer: Tokenizer) -> int:
    """Tokens of a prompt that the request before had, and that cannot be reused because of what was changed."""
    if one.harmless or one.link.before < 0:
        return 0
    before = asked[one.link.before]
    if one.body.raw:
        return max(0, min(before.tokens, one.tokens) - one.best)
    return max(0, one.tokens - one.best - new_tokens(before, one, tokenizer))


def new_tokens(before: PromptRecord, one: PromptRecord, tokenizer: Tokenizer) -> int:
    """Tokens of the messages at the end of a prompt that the request before did not have, nor generate."""
    had = {key_of(message) for message in before.body.messages}
    messages = one.body.messages
    number = len(messages)
    while number and not messages[number - 1].system and key_of(messages[number - 1]) not in had:
        number -= 1
    generated = len(before.body.messages)
    if number == generated and number < len(messages) and messages[number].role == "assistant":
        number += 1
    begins = one.plain.begins
    text = one.plain.text[begins[number] :] if number < len(begins) else ""
    return len(tokenizer.tokens(text)) if text else 0


def where(one: PromptRecord) -> str:
    """In which part of the prompt the first difference is, in words; "" where the cause says it."""
    place = one.place
    if place is None or one.cause.name not in ANYWHERE:
        return ""
    if place.path.startswith(("tools", "functions")):
        return "the tools"
    if 0 <= place.message < len(one.body.messages):
        return ROLES.get(one.body.messages[place.message].role, "the prompt")
    return "the prompt"


def at(place: BodyPlace | None, which: str = "") -> dict[str, Any]:
    """A place of a body, as data: the path of a value, "" = the end of the body, and a character of its text."""
    path, character = ("", None) if place is None else (place.path, place.character)
    return {f"{which}path": path, f"{which}character": character}


def causes(asked: Sequence[PromptRecord], lost: Sequence[int]) -> list[dict[str, Any]]:
    """The causes, the most expensive first; what cost nothing comes last. Requests with one cause in one part of the
    prompt are one entry, whose place and evidence are those of the first of them."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number, one in enumerate(asked):
        groups.setdefault((one.cause.name, where(one)), []).append(number)
    found = [_entry(asked, lost, name, part, numbers) for (name, part), numbers in groups.items()]
    return sorted(found, key=lambda entry: (-entry["again"], entry["in_requests"][0]))


def _entry(
    asked: Sequence[PromptRecord], lost: Sequence[int], name: str, part: str, numbers: list[int]
) -> dict[str, Any]:
    one = asked[numbers[0]]
    seen = one.seen
    return {
        "cause": name, "says": CAUSES[name].says, "where": part, **at(one.place), "detail": one.cause.detail,
        "in_requests": numbers, "again": sum(lost[number] for number in numbers), "advice": CAUSES[name].advice,
        "most": max(asked[number].best for number in numbers), "harmless": one.harmless,
        "evidence": None if seen is None else {
            "text_common": seen.same, "text_before": seen.before, "text_after": seen.after, "previous": one.link.before,
            "request": numbers[0],
        },
    }  # fmt: skip
