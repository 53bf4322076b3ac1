"""Messages as SGLang's server hands them to the chat template.

Source: SGLang srt/entrypoints/openai/protocol.py ChatCompletionMessageGenericParam, ChatCompletionMessageUserParam,
serving_chat.py _apply_jinja_template, srt/parser/jinja_template_utils.py process_content_for_template_format (0.5.23;
the released classes and functions were run on drawn messages). Models with an own encoding (DeepSeek, Kimi, MiniMax and
others) are not simulated. Earlier releases were not examined.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Mapping, Sequence

from cachesim.engines.chat_bodies import MEDIA, Continued, ParsedChat, Refused, SentMessage, TemplateUse

ROLES = frozenset({"system", "assistant", "tool", "function", "developer", "latest_reminder", "root"})
FIELDS = ("tool_call_id", "name", "phase", "reasoning_content", "tool_calls", "tools", "prefix")
"""Declared fields of a message beside role and content, in their order; the role user has none."""
MEDIA_WORDS = ("image", "audio", "video", "vision")
"""Words in a template by which the server takes it for one that loops over contents."""


def takes_lists(use: TemplateUse) -> bool:
    """True if a template receives the blocks of a content as a list."""
    return use.iterates_content or any(word in use.source for word in MEDIA_WORDS)


def parsed_message(message: Mapping[str, Any], use: TemplateUse) -> dict[str, Any]:
    """Return a message as the template receives it: its declared fields that have a value. The texts of a content are
    joined by spaces, or stay a list for a template that loops over it. Raise Refused."""
    role = message.get("role")
    content = message.get("content")
    if not isinstance(role, str) or (role != "user" and role.lower() not in ROLES):
        raise Refused("an unknown role")
    if role == "user" and content is None:
        raise Refused("a user message needs content")
    fields = {} if role == "user" else {name: message.get(name) for name in FIELDS}
    fields["tool_calls"] = _calls(fields.get("tool_calls"), is_answer=role.lower() == "assistant")
    kept = {name: value for name, value in fields.items() if value is not None}
    begin = {"role": role if role == "user" else role.lower()}
    if not isinstance(content, list):
        if not isinstance(content, str | None):
            raise Refused("content is neither a text nor a list")
        return {**begin, "content": content or "", **kept}
    blocks = [block for block in content if not _is_thought(block, begin["role"])]
    texts = [_text(block) for block in blocks]
    is_text = all(text is not None for text in texts)
    joined = " ".join(text for text in texts if text is not None)
    if not takes_lists(use):
        media = [block["text"] for block in blocks if block.get("type") == MEDIA]
        return {**begin, "content": " ".join([joined, *media]) if media else joined, **kept}
    listed = [dict(block) if text is None else {"type": "text", "text": text}
              for block, text in zip(blocks, texts, strict=True)]  # fmt: skip
    return {**begin, **kept, "content": joined if begin["role"] == "tool" and is_text else listed}


def _is_thought(block: Any, role: str) -> bool:
    """True if a block of a content is reasoning, which the server drops. Raise Refused outside of an answer."""
    is_thought = isinstance(block, dict) and block.get("type") in ("thinking", "reasoning")
    if is_thought and role != "assistant":
        raise Refused("only an answer has reasoning")
    return is_thought


def _text(block: Any) -> str | None:
    """Return the text of a block, None for media and references of tools. Raise Refused."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind in (MEDIA, "tool_reference"):
        return None
    if kind != "text" or not isinstance(block.get("text"), str):
        raise Refused("a content block of an unknown type")
    text: str = block["text"]
    return text


def _calls(calls: Any, *, is_answer: bool) -> list[dict[str, Any]] | None:
    """Return the tool calls of a message with their declared fields, None if it has none. Raise Refused."""
    if calls is None:
        return None
    if not isinstance(calls, list):
        raise Refused("tool calls are not a list")
    return [_call(call, is_answer=is_answer) for call in calls]


def _call(call: Any, *, is_answer: bool) -> dict[str, Any]:
    """Return a tool call with its declared fields; the arguments of an answer are parsed. Raise Refused."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type", "function") != "function":
        raise Refused("a tool call is not of a function")
    arguments = function.get("arguments")
    if is_answer and isinstance(arguments, str):
        arguments = parsed_arguments(arguments)
    return {
        "id": call.get("id"),
        "index": call.get("index"),
        "type": "function",
        "function": {"name": function.get("name"), "arguments": arguments},
    }


def parsed_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a tool call. Raise Refused for a text that is not a JSON object."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Refused("the arguments of a tool call are not an object")
    return value


def sglang_messages(chat: Sequence[SentMessage], use: TemplateUse, fields: Mapping[str, Any]) -> ParsedChat:
    """Return the messages of a chat as the template receives them. An answer at the end is one of the user, unless the
    client asks to continue it."""
    found = [one.parsed(lambda message: parsed_message(message, use)) for one in chat]
    last = found[-1].message if found else {}
    if last.get("role") != "assistant" or not isinstance(last.get("content"), str):
        return ParsedChat(tuple(found))
    if fields.get("continue_final_message") is True:
        return ParsedChat(tuple(found[:-1]), continued=found[-1], way=Continued.AFTER_OPENING)
    asked = {"role": "user", "content": last["content"]}
    return ParsedChat((*found[:-1], replace(found[-1], message=asked)))
