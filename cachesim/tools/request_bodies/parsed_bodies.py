"""Request bodies as their server reads them before it renders the chat template.

A server parses the messages and the tool definitions of a body: the form of a content, fields that it does not know,
the spacing of JSON texts and the order of keys outside of schemas may change nothing in the prompt. Texts keep the path
of the value that the client sent.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import replace
from typing import Any, Mapping, Sequence

from cachesim.engines.chat_bodies import MEDIA as MEDIA_BLOCK
from cachesim.engines.chat_bodies import ChatBodies, ParsedChat, ParseTool, Refused, SentMessage, TemplateUse
from cachesim.engines.registry import engine_of
from cachesim.tools.request_bodies.api_forms import ANTHROPIC, CHAT, RESPONSES, for_template
from cachesim.tools.request_bodies.body import CALL, MARK, REASONING, TEXT, Body, BodyMessage, BodyText
from cachesim.tools.request_bodies.media_parts import MEDIA, media_part
from cachesim.tools.request_bodies.message_content import message_of
from cachesim.tools.request_bodies.ollama_bodies import FORMS

PLAIN = TemplateUse()
BETWEEN = frozenset({"\n", " "})
"""Texts that a server puts between the blocks of a content."""
CONTAINERS = frozenset({dict, list})
"""Types of JSON values that contain values."""


def as_parsed(bodies: Sequence[Body], profile: str, use: TemplateUse = PLAIN) -> list[Body]:
    """Return the bodies with the messages and tool definitions that the server of a profile hands to its template.
    ``use``: what the template does with messages."""
    reading = engine_of(profile).chat_bodies(profile)
    return [_parsed(body, reading, use) for body in bodies]


def _parsed(body: Body, reading: ChatBodies, use: TemplateUse) -> Body:
    """Return a body as a server reads it. Ollama reads those of its own API before any server behind it."""
    if body.form in FORMS:
        return replace(body, sent={})
    try:
        messages = _sent_messages(body, reading)
    except Refused as refusal:
        return replace(_with_tools(body, reading), sent={}, refused=str(refusal))
    body = replace(_with_tools(body, reading), sent={})
    if reading.messages is None or messages is None:
        return body
    parsed = reading.messages(messages, use, body.parameters)
    refused = _refusal(parsed, is_template_known=bool(use.source))
    return replace(_with_chat(body, parsed, messages if body.form == CHAT else ()), refused=refused)


def _refusal(parsed: ParsedChat, is_template_known: bool) -> str:
    """Return why a server answers a chat with an error, "" if nothing shows that it does."""
    if parsed.refused:
        return parsed.refused
    read = [*parsed.messages, *([] if parsed.continued is None else [parsed.continued])]
    found = (f"{one.path}: {one.refused}" for one in read if one.refused and (is_template_known or not one.by_template))
    return next(found, "")


def _with_tools(body: Body, reading: ChatBodies) -> Body:
    """Return a body with the tool definitions as a server writes them. The responses API has the fields of a function
    beside the type; a server that converts this API to the chat API drops all other tools."""
    if reading.tool is None:
        return body
    if body.form != RESPONSES or reading.responses is None:
        return replace(body, tools=[(path, _definition(tool, reading.tool)) for path, tool in body.tools])
    functions = [(path, _nested(tool)) for path, tool in body.tools
                 if isinstance(tool, dict) and tool.get("type") == "function"]  # fmt: skip
    tools = [(path, _definition(tool, reading.tool)) for path, tool in functions]
    return replace(body, tools=tools, has_bare_functions=True)


def _nested(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a function of the responses API in the form of the chat API."""
    return {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}


def _definition(tool: Any, parse: ParseTool) -> Any:
    """Return a tool definition as the server writes it; one in no known form as it is."""
    function = tool.get("function") if isinstance(tool, dict) else None
    if isinstance(function, dict) and isinstance(function.get("name"), str):
        return parse(tool)
    if function is not None or not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        return tool
    if tool.get("type", "function") != "function":
        return tool
    return {"type": "function", **parse(_nested(tool))["function"]}


def _sent_messages(body: Body, reading: ChatBodies) -> list[SentMessage] | None:
    """Return the messages of a body in the form of OpenAI's chat API, None if the server does not read this form. Raise
    Refused for a body that the server refuses."""
    converters = {ANTHROPIC: reading.anthropic, RESPONSES: reading.responses}
    if body.form == CHAT:
        messages = with_media_marks(body.sent.get("messages"))
        return [SentMessage(message, f"messages[{number}]") for number, message in enumerate(messages or ())]
    convert = converters.get(body.form)
    if convert is None or not body.sent:
        return None
    return convert(with_media_marks(body.sent))


def with_media_marks(value: Any) -> Any:
    """Return a JSON value in which short marks with a digest stand for images, sounds and files."""
    if isinstance(value, list):
        return [with_media_marks(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "type" not in value and CONTAINERS.isdisjoint(map(type, value.values())):
        return value
    if value.get("type") in MEDIA:
        return {"type": MEDIA_BLOCK, "kind": value["type"], "text": media_part(value, "").text}
    if value.get("type") == MEDIA_BLOCK:                     # the client's own word
        value = {**value, "type": f"{MEDIA_BLOCK} of the client"}
    return {key: with_media_marks(entry) for key, entry in value.items()}


def _with_chat(body: Body, parsed: ParsedChat, sent: Sequence[SentMessage]) -> Body:
    """Return a body with the messages that its template receives. ``sent``: messages that the body contains in the form
    of OpenAI's chat API; those that the server does not change keep their parts."""
    sources: Mapping[str, Sequence[BodyText]] | None = None          # most servers change no message of most bodies
    known = {message.path: message for message in body.messages}
    same = {one.path: one.message for one in sent}
    read = [*parsed.messages, *([] if parsed.continued is None else [parsed.continued])]
    messages = []
    chat: list[dict[str, Any]] = []
    for one in read:
        before = known.get(one.path)
        unchanged = same.get(one.path)
        if before is not None and isinstance(unchanged, dict) and _are_same_texts(unchanged, one.message):
            messages.append(before)
            chat.append(unchanged)
            continue
        if sources is None:
            sources = _parts_by_root(body.messages)
        messages.append(_placed(one, sources, before.fields if before is not None else ""))
        chat.append(for_template(one.message) if one.refused else dict(one.message))
    return replace(
        body,
        messages=messages,
        chat=chat,
        opens_answer=parsed.opens_answer,
        continued=None if parsed.continued is None else parsed.way,
    )


def _are_same_texts(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """True if two messages consist of the same texts in the same order."""
    return [*a.items()] == [*b.items()] and {str}.issuperset(map(type, a.values()))


def _root(path: str) -> str:
    """Return the path of the message or field that contains the value of a path: ``messages[2]``, ``system``."""
    end = path.find("]") + 1 if path.startswith(("messages[", "input[")) else 0
    return path[:end] if end else re.split(r"[.\[]", path, maxsplit=1)[0]


def _parts_by_root(messages: Sequence[BodyMessage]) -> dict[str, list[BodyText]]:
    """Return the parts of messages by the path of the message or field of the body."""
    found: dict[str, list[BodyText]] = defaultdict(list)
    for message in messages:
        for part in message.parts:
            found[_root(part.path)].append(part)
    return found


def _placed(read: SentMessage, sources: Mapping[str, Sequence[BodyText]], fields: str) -> BodyMessage:
    """Return a message as parts with the paths of the values that the client sent. ``sources``: the parts of the body
    as it was sent, ``fields``: the fields of the message that was sent."""
    sent = [part for place in read.places or (read.path,) for part in sources.get(_root(place), ())
            if part.path == place or part.path.startswith((f"{place}.", f"{place}["))]  # fmt: skip
    message = message_of(dict(read.message), read.path)
    thoughts = [part for part in message.parts if part.kind == REASONING and part.path != f"{read.path}.content"]
    calls = [part for part in message.parts if part.kind == CALL]
    texts = [part.text for part in message.parts if part.kind != CALL and part not in thoughts]
    parts = [
        *(_with_path(part, sent) for part in thoughts[:1]),
        *aligned("".join(texts), [part for part in sent if part.kind != CALL], f"{read.path}.content"),
        *_with_paths(calls, [part.path for part in sent if part.kind == CALL]),
    ]
    return message._replace(parts=tuple(parts), fields=_with_sent_names(message.fields, fields))


def _with_sent_names(fields: str, sent: str) -> str:
    """Return the fields of a message under the names that the client gave their values."""
    if not fields or fields == sent:
        return fields
    names = {value: name for name, value in json.loads(sent).items()} if sent else {}
    read = {names.get(value, name): value for name, value in json.loads(fields).items()}
    return json.dumps(read, ensure_ascii=False)


def _with_path(thought: BodyText, sent: Sequence[BodyText]) -> BodyText:
    """Return a reasoning with the path at which the client sent it."""
    paths = [part.path for part in sent if part.kind == REASONING and part.text and part.text in thought.text]
    return thought._replace(path=paths[0]) if paths else thought


def _with_paths(parts: Sequence[BodyText], paths: Sequence[str]) -> list[BodyText]:
    """Return parts with these paths, as far as there are as many."""
    if len(parts) != len(paths):
        return [*parts]
    return [part._replace(path=path) for part, path in zip(parts, paths, strict=True)]


def aligned(text: str, sent: Sequence[BodyText], path: str) -> list[BodyText]:
    """Return a text as the parts that the client sent, in order, and what the server put between them. A text that the
    server changed has the path of the part in its place. ``path``: of the text, if no part is in its place."""
    found: list[BodyText] = []
    at = 0
    changed = ""                                 # path of a part that the text does not contain
    for part in sent:
        begin = text.find(part.text, at)
        if begin < 0:
            changed = changed or part.path
            continue
        if begin > at:
            found.append(_between(text[at:begin], changed, found, path))
        found.append(part)
        at = begin + len(part.text)
        changed = ""
    if at < len(text):
        found.append(_between(text[at:], changed, found, path))
    return found


def _between(text: str, changed: str, found: Sequence[BodyText], path: str) -> BodyText:
    """Return a text that no part of the client equals."""
    place = changed or (found[-1].path if found else path)
    return BodyText(MARK if text in BETWEEN and not changed else TEXT, place, text)
