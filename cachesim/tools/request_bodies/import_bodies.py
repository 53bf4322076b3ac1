"""Request bodies become data: for the report, for JSON, and a scenario file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, cut
from cachesim.scenarios.schema import DEFAULT_PROFILE
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body import Body, changed
from cachesim.tools.request_bodies.body_files import read_bodies
from cachesim.tools.request_bodies.changed_text import COUNTER, DATE, ID, LISTING, SPACE
from cachesim.tools.request_bodies.conversations import key_of
from cachesim.tools.request_bodies.import_scenario import PlayedImport, play_bodies
from cachesim.tools.request_bodies.plain_render import BodyPlace
from cachesim.tools.request_bodies.prompt_causes import CAUSES, CHANGED
from cachesim.tools.request_bodies.request_diff import PromptRecord, linked
from cachesim.tools.request_bodies.template import Prompt, read_template, render
from cachesim.tools.request_bodies.tokenizer import Estimate, Given, Tokenizer, read_tokenizer

# How many tokens must be evaluated because a prompt was changed, and what are the causes of all of them?
#
# The tokens of a prompt are, in this order: in common with an earlier request; changed or behind a change, although the
# request before had them (``client``); new (``new``).

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
    found: list[dict[str, Any]] = []
    for (name, part), numbers in groups.items():
        one, seen = asked[numbers[0]], asked[numbers[0]].seen
        found.append({
            "cause": name, "says": CAUSES[name].says, "where": part, **at(one.place), "detail": one.cause.detail,
            "in_requests": numbers, "again": sum(lost[number] for number in numbers), "advice": CAUSES[name].advice,
            "most": max(asked[number].best for number in numbers), "harmless": one.harmless,
            "evidence": None if seen is None else {
                "text_common": seen.same, "text_before": seen.before, "text_after": seen.after,
                "previous": one.link.before, "request": numbers[0],
            },
        })  # fmt: skip
    return sorted(found, key=lambda entry: (-entry["again"], entry["in_requests"][0]))


class ImportOptions(NamedTuple):
    """What is asked of an import: files of the tokenizer and the template ("" = none), the rule set, the model, options
    of the server, whether the scenario file may quote the texts, and its id ("" = made of the first file's name)."""

    tokenizer: str = ""
    template: str = ""
    profile: str = DEFAULT_PROFILE
    model: str = "GGGA"
    server: Mapping[str, Any] = {}
    with_text: bool = False
    name: str = ""


def import_bodies(paths: Sequence[Path], asking: ImportOptions) -> tuple[dict[str, Any], str]:
    """What these files say, as data, and the scenario file made of them. Raises BadInput."""
    found, left = read_bodies(paths)
    bodies = bodies_of(found)
    prompts: list[Prompt | None] = [None] * len(bodies)
    if asking.template:
        prompts = render(read_template(Path(asking.template)), bodies, asking.template)
    tokenizer = _tokenizer(bodies, asking.tokenizer)
    asked = linked(bodies, prompts, tokenizer)
    lost = [client_tokens(asked, one, tokenizer) for one in asked]
    data = _data(paths, asked, lost, tokenizer, asking)
    data["skipped"] = left
    head = _head(paths, data, asking)
    played = play_bodies(asked, asking.profile, asking.model, asking.server, head)
    _simulated(data, played)
    return data, played.toml


def _tokenizer(bodies: Sequence[Body], file: str) -> Tokenizer:
    tokens = [body.of_tokens for body in bodies]
    if any(tokens) and not all(tokens):
        raise BadInput("some prompts are tokens, others are text: they cannot be compared", hint="import them apart")
    if any(tokens):
        return Given()
    return read_tokenizer(Path(file)) if file else Estimate()


def _data(
    paths: Sequence[Path], asked: Sequence[PromptRecord], lost: Sequence[int], tokenizer: Tokenizer,
    asking: ImportOptions,
) -> dict[str, Any]:
    losing = [number for number, tokens in enumerate(lost) if tokens]
    return {
        "files": [str(path) for path in paths], "forms": list(dict.fromkeys(one.body.form for one in asked)),
        "models": list(dict.fromkeys(one.body.model for one in asked if one.body.model))[:20],
        "conversations": max(one.link.conversation for one in asked) + 1,
        "rendering": asking.template or ("as sent" if all(one.body.raw for one in asked) else "plain"),
        "tokens_exact": tokenizer.exact, "tokenizer": tokenizer.name, "tokens": sum(one.tokens for one in asked),
        "again": sum(lost), "losing": losing, "most": max((asked[number].best for number in losing), default=0),
        "causes": causes(asked, lost),
        "requests": [_request(asked, number, tokens) for number, tokens in enumerate(lost)],
    }  # fmt: skip


def _request(asked: Sequence[PromptRecord], number: int, lost: int) -> dict[str, Any]:
    one = asked[number]
    before = one.link.before
    parameters = [] if before < 0 else changed(asked[before].body.parameters, one.body.parameters)
    model = before >= 0 and asked[before].body.model != one.body.model
    return {
        "request": number, "place": one.body.place, "conversation": one.link.conversation, "previous": before,
        "tokens": one.tokens, "shared": one.shared, "reusable": one.best, "reusable_from": one.base, "again": lost,
        "new_tokens": max(0, one.tokens - one.best - lost), "answer": one.answer,
        "characters": None if before < 0 else one.common, "bytes": None if before < 0 else one.bytes,
        "cause": one.cause.name, "says": CAUSES[one.cause.name].says, "where": where(one), **at(one.place),
        **at(one.old_place, "old_"), "detail": one.cause.detail, "model_changed": model, "parameters": parameters,
    }  # fmt: skip


def _head(paths: Sequence[Path], data: Mapping[str, Any], asking: ImportOptions) -> dict[str, Any]:
    """Id, title and why of the scenario file; texts of the requests are in it if they are wanted."""
    stem = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in paths[0].stem.lower()).strip("-")
    count = "exact" if data["tokens_exact"] else "estimated"
    why = (f"Made from {len(data['requests'])} request bodies: words are invented, lengths are {count} "
           f"({data['tokenizer']}).")  # fmt: skip
    for cause in data["causes"][:3]:
        if cause["harmless"]:
            continue
        why += f" Requests {', '.join(map(str, cause['in_requests'][:12]))}: {cause['says']}."
        if asking.with_text and cause["evidence"]:
            sides = cause["evidence"]["text_before"], cause["evidence"]["text_after"]
            why += f" Before: {cut(sides[0], 60)} After: {cut(sides[1], 60)}"
    return {"id": asking.name or f"import-{stem or 'bodies'}"[:80], "why": why,
            "title": f"imported from {len(data['requests'])} request bodies"}  # fmt: skip


def _simulated(data: dict[str, Any], played: PlayedImport) -> None:
    """What the simulator makes of the requests: reused, and evaluated for which reason."""
    for one, reused in zip(data["requests"], played.reused, strict=False):
        one["simulated"] = reused
        one["not_kept"] = None if reused is None else max(0, one["reusable"] - reused)
    for one in data["requests"][len(played.reused) :]:
        one["simulated"] = one["not_kept"] = None
    known = [one for one in data["requests"] if one["simulated"] is not None]
    data["simulation"] = {
        "profile": played.scenario.profiles[0], "model": played.scenario.model, "flags": dict(played.scenario.server),
        "played": len(known), "not_played": played.left, "tokens": sum(one["tokens"] for one in known),
        "reused": sum(one["simulated"] for one in known), "new_tokens": sum(one["new_tokens"] for one in known),
        "again": sum(one["again"] for one in known), "not_kept": sum(one["not_kept"] for one in known),
    }  # fmt: skip
