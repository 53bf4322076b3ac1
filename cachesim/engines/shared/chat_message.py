"""Messages as llama.cpp's and ik_llama.cpp's parsers of chat bodies write them for the chat template.

Source: llama.cpp common/chat.cpp common_chat_msgs_parse_oaicompat, common_chat_msg::to_json_oaicompat,
messages_inp_normalizer, common_chat_templates_apply_jinja, tools/server/server-common.cpp oaicompat_chat_params_parse
(b11549, compared with ``POST /apply-template``); ik_llama.cpp common/chat.cpp (8337e4c, read). Formats with an own
parser (common/parsers: gpt-oss, Ministral, Gemma 4 and others) change messages further; these changes are not
simulated. Earlier releases were not examined.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Mapping, Sequence

from cachesim.engines.chat_bodies import (
    MEDIA,
    Continued,
    ParsedChat,
    Refused,
    RefusedByTemplate,
    SentMessage,
    TemplateUse,
)

HARMONY = "<|channel|>"
"""Text of templates that know the role developer."""
MEDIA_KINDS = frozenset({"image_url", "input_audio", "input_video", "video_url", "image", "input_image"})
"""Types of content blocks that the server replaces by a media marker, or that its conversions make such blocks of."""
TEXTS = ("reasoning_content", "name", "tool_call_id")
"""Fields of a message that have to be texts."""
FIRST, LAST = -(1 << 63), (1 << 64) - 1
"""Smallest and largest integer of the JSON parser; beyond them a number is a float."""


def parsed_message(message: Mapping[str, Any], use: TemplateUse) -> dict[str, Any]:
    """Return a message as the template receives it: role, content, reasoning_content, name, tool_call_id and
    tool_calls, in this order; every other field is dropped. Raise Refused."""
    role = message.get("role")
    has_content = "content" in message
    if not isinstance(role, str) or not (has_content or "tool_calls" in message):
        raise Refused("a message needs a role, and content or tool calls")
    if role != "assistant" and not has_content:
        raise Refused("only an answer may lack content")
    found: dict[str, Any] = {"role": role, "content": _content(message.get("content"), use)}
    for name in TEXTS:
        value = message.get(name, "")
        if not isinstance(value, str):
            raise Refused(f"{name} is not a text")
        if value:
            found[name] = value
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise Refused("tool calls are not a list")
    if calls:
        found["tool_calls"] = [_call(call, use) for call in calls]
    return found


def _content(content: Any, use: TemplateUse) -> Any:
    """Return the content that a template receives: a string, or a list of texts for a template that loops over it.
    Raise Refused."""
    only_lists = use.iterates_content and not use.writes_strings
    if isinstance(content, list) and content:
        parts = [_part(part) for part in content]
        has_media = any(part["type"] == MEDIA for part in parts)
        if use.iterates_content and not has_media:
            return parts
        text = joined_parts(parts)
    elif content is None or content == []:
        text = ""
    elif isinstance(content, str):
        text = content
    else:
        raise Refused("content is neither a text nor a list")
    return [{"type": "text", "text": text}] if only_lists else text


def _part(part: Any) -> dict[str, str]:
    """Return a block of a content with its type and its text. Raise Refused."""
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == MEDIA and part["kind"] in MEDIA_KINDS:
        return {"type": MEDIA, "text": part["text"]}
    if kind != "text" or not isinstance(part.get("text"), str):
        raise Refused("a content block is neither text nor media")
    return {"type": "text", "text": part["text"]}


def joined_parts(parts: Sequence[Mapping[str, str]]) -> str:
    """Return the texts of content blocks, joined by line ends, but without one beside media."""
    text = ""
    after_media = False
    for part in parts:
        is_media = part["type"] == MEDIA
        if text and not is_media and not after_media:
            text += "\n"
        text += part["text"]
        after_media = is_media
    return text


def _call(call: Any, use: TemplateUse) -> dict[str, Any]:
    """Return a tool call as the template receives it: type, function and id. Raise Refused."""
    function = call.get("function") if isinstance(call, dict) and call.get("type") == "function" else None
    if not isinstance(function, dict) or "arguments" not in function:
        raise Refused("a tool call is not of a function with arguments")
    name, number = function.get("name"), call.get("id", "")
    if not isinstance(name, str) or not isinstance(number, str):
        raise Refused("the name or id of a tool call is not a text")
    value = function["arguments"]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    arguments = parsed_arguments(text) if use.reads_arguments else text
    found: dict[str, Any] = {"type": "function", "function": {"name": name, "arguments": arguments}}
    if number:
        found["id"] = number
    return found


def parsed_arguments(text: str) -> Any:
    """Return the arguments of a tool call from their JSON text, with numbers as a template writes them. Raise
    RefusedByTemplate for a text that is not JSON."""
    try:
        return as_written(json.loads(text, parse_constant=_no_constant))
    except (ValueError, RecursionError):
        raise RefusedByTemplate("the arguments of a tool call are not JSON") from None


def _no_constant(name: str) -> None:
    """Refuse NaN and Infinity, which JSON does not have."""
    raise ValueError(name)


def as_written(value: Any) -> Any:
    """Return a JSON value with numbers as the template engine writes them: floats with six digits and no point after a
    whole number, integers as signed numbers of 64 bits. Source: common/jinja/value.cpp from_json,
    value_to_json_internal."""
    if isinstance(value, dict):
        return {key: as_written(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [as_written(entry) for entry in value]
    if isinstance(value, int) and not isinstance(value, bool) and FIRST <= value <= LAST:
        return (value - FIRST) % (1 << 64) + FIRST
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    text = f"{value:.6g}"
    return int(text) if text.lstrip("-").isdigit() else float(text)


def _with_roles(chat: Sequence[SentMessage], use: TemplateUse) -> list[SentMessage]:
    """Return the messages with the roles that the template knows: developer becomes system, and a system message that
    the template does not read is put in front of the next message."""
    found = [*chat]
    if HARMONY not in use.source:
        found = [replace(one, message={**one.message, "role": "system"})
                 if one.message.get("role") == "developer" else one for one in found]  # fmt: skip
    if use.reads_system or not found or found[0].message.get("role") != "system":
        return found
    if len(found) == 1:
        return []
    first, second = found[0].message.get("content"), found[1].message.get("content")
    if not isinstance(first, str) or not isinstance(second, str):
        return found
    merged = {**found[1].message, "content": f"{first}\n{second}"}
    places = (*(found[0].places or (found[0].path,)), *(found[1].places or (found[1].path,)))
    return [replace(found[1], message=merged, places=places), *found[2:]]


def llama_messages(chat: Sequence[SentMessage], use: TemplateUse, fields: Mapping[str, Any]) -> ParsedChat:
    """Return the messages of a chat as llama.cpp's template receives them. The last answer of a chat is the beginning
    of the new answer, unless the server refuses to continue it."""
    last = chat[-1].message if chat else {}
    has_two = len(chat) > 1 and chat[-2].message.get("role") == "assistant"
    asked = fields.get("continue_final_message")
    is_asked = asked is True or asked in ("content", "reasoning_content")
    opens_answer = fields.get("add_generation_prompt") is not False
    is_answer = last.get("role") == "assistant"
    is_refused = bool(is_answer and last.get("tool_calls")) or (opens_answer if is_asked else has_two)
    if not chat or is_refused or not (is_asked or is_answer):
        refused = "two answers at the end" if is_answer and has_two and not asked else ""
        return ParsedChat(tuple(_parsed(chat, use)), opens_answer=opens_answer, refused=refused)
    rest = tuple(_parsed(chat[:-1], use))
    try:
        parsed_message(last, use)
    except Refused:
        return ParsedChat(tuple(_parsed(chat, use)), opens_answer=opens_answer)
    content = _continued_content(last.get("content"), "\n\n")
    reasoning = last.get("reasoning_content") or ""
    if not (last.get("content") or any(last.get(name) for name in TEXTS)):
        return ParsedChat(rest, opens_answer=False)
    only_reasoning = asked == "reasoning_content" or (asked != "content" and reasoning and not last.get("content"))
    message = {"role": "assistant", "reasoning_content": reasoning, "content": None if only_reasoning else content}
    return ParsedChat(rest, continued=replace(chat[-1], message=message), way=Continued.WITH_REASONING)


def ik_messages(chat: Sequence[SentMessage], use: TemplateUse, fields: Mapping[str, Any]) -> ParsedChat:
    """Return the messages of a chat as ik_llama.cpp's template receives them. The last answer of a chat is the
    beginning of the new answer; its reasoning is dropped."""
    last = chat[-1].message if chat else {}
    has_two = len(chat) > 1 and chat[-2].message.get("role") == "assistant"
    opens_answer = fields.get("add_generation_prompt") is not False
    if last.get("role") != "assistant" or has_two:
        return ParsedChat(tuple(_parsed(chat, use)), opens_answer=opens_answer)
    message = {"role": "assistant", "content": _continued_content(last.get("content"), "")}
    return ParsedChat(tuple(_parsed(chat[:-1], use)), continued=replace(chat[-1], message=message))


def _parsed(chat: Sequence[SentMessage], use: TemplateUse) -> list[SentMessage]:
    """Return messages with their roles and values as the template receives them."""
    return _with_roles([one.parsed(lambda message: parsed_message(message, use)) for one in chat], use)


def _continued_content(content: Any, between: str) -> str:
    """Return the text of an answer that is continued, its blocks joined by ``between``."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return between.join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""
