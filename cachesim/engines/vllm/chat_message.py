"""Messages as vLLM's server hands them to the chat template.

Source: vLLM renderers/chat_utils/chat_message.py parse_chat_messages, renderers/hf.py safe_apply_chat_template,
entrypoints/openai/chat_completion/protocol.py ChatCompletionRequest (0.33.0; the released functions were run on drawn
messages), entrypoints/anthropic/serving.py to_chat_completion_request (read). Models with an own renderer (DeepSeek,
Mistral, Kimi and others) are not simulated. Earlier releases were not examined.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Iterator, Mapping, Sequence

from cachesim.engines.chat_bodies import MEDIA, Continued, ParsedChat, Refused, SentMessage, TemplateUse

TEXT_FIELDS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
"""Types of content blocks that are texts, and the field with the text."""
BILLING = "x-anthropic-billing-header"


def parsed_message(message: Mapping[str, Any], use: TemplateUse) -> dict[str, Any]:
    """Return a message as the template receives it. The content is a text, its blocks joined by line ends, or a list
    for a template that loops over it. Fields that no API declares are dropped. Raise Refused."""
    role = message.get("role")
    if not isinstance(role, str):
        raise Refused("the role is not a text")
    blocks = _blocks(message.get("content"), role)
    content: Any = [block for part in blocks for block in _listed(part)]
    if not use.iterates_content or (role == "tool" and all(block["type"] == "text" for block in content)):
        media = [block["text"] for block in content if block["type"] == MEDIA]
        content = "\n".join([*media, *(block["text"] for block in content if block["type"] != MEDIA)])
    found: dict[str, Any] = {"role": role, "content": content}
    if role == "assistant":
        found |= _answer_fields(message)
    if role == "tool" and "tool_call_id" in message:
        found["tool_call_id"] = message["tool_call_id"]
    for name in ("name", "task"):
        if isinstance(message.get(name), str):
            found[name] = message[name]
    if role == "developer":
        found["tools"] = message.get("tools")
    return found


def _blocks(content: Any, role: str) -> Sequence[Any]:
    """Return the blocks of a content; those of a system message without a billing header. Raise Refused."""
    if content is None:
        return []
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise Refused("content is neither a text nor a list")
    return [kept for block in content for kept in _without_billing(block)] if role == "system" else content


def _without_billing(block: Any) -> Iterator[Any]:
    """Yield a block without the line of a billing header at its beginning; nothing if that is all."""
    text = block if isinstance(block, str) else block.get("text") if isinstance(block, dict) else None
    if not isinstance(text, str) or not text.startswith(BILLING):
        yield block
        return
    rest = text.partition("\n")[2]
    if rest:
        yield rest if isinstance(block, str) else {**block, "text": rest}


def _listed(block: Any) -> Iterator[dict[str, Any]]:
    """Yield a block as the template receives it; nothing if it has no text. Raise Refused."""
    if isinstance(block, str):
        yield {"type": "text", "text": block}
        return
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == MEDIA:
        yield {"type": MEDIA, "text": block["text"]}
        return
    if not isinstance(kind, str) or kind not in TEXT_FIELDS:
        raise Refused("a content block of an unknown type")
    text = block.get(TEXT_FIELDS[kind])
    if text is None:
        return
    if not isinstance(text, str):
        raise Refused("the text of a block is not a text")
    extra = {name: value for name, value in block.items() if name not in ("type", *TEXT_FIELDS.values())}
    yield {"type": "text", "text": text, **extra}


def _answer_fields(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tool calls and the reasoning of an answer as the template receives them. Raise Refused."""
    found: dict[str, Any] = {}
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise Refused("tool calls are not a list")
    if calls:
        found["tool_calls"] = [_call(call) for call in calls]
    reasoning = message.get("reasoning")
    if reasoning is None:
        reasoning = message.get("reasoning_content")
    if reasoning is not None:
        found |= {"reasoning": reasoning, "reasoning_content": reasoning}
    return found


def _call(call: Any) -> dict[str, Any]:
    """Return a tool call with its declared fields in their order, and parsed arguments. Raise Refused."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or call.get("type", "function") != "function":
        raise Refused("a tool call is not of a function")
    if not isinstance(function.get("arguments"), str):
        raise Refused("arguments are not a text")
    parsed = {**function, "arguments": parsed_arguments(function["arguments"])}
    return _ordered({**call, "function": _ordered(parsed, ("arguments", "name"))}, ("id", "function", "type"))


def _ordered(value: Mapping[str, Any], first: Sequence[str]) -> dict[str, Any]:
    """Return an object with these keys first."""
    return {**{name: value[name] for name in first if name in value}, **value}


def parsed_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a tool call: an object, empty if the text is not one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def knows_developer(use: TemplateUse) -> bool:
    """True if a template names the role developer."""
    return '"developer"' in use.source or "'developer'" in use.source


def _with_system(chat: Sequence[SentMessage]) -> list[SentMessage]:
    """Return messages with the role system for developer, and all system messages joined at the front if any follows
    another message."""
    found = [
        replace(one, message={**{key: value for key, value in one.message.items() if key != "tools"}, "role": "system"})
        if one.message.get("role") == "developer" else one for one in chat]  # fmt: skip
    system = [number for number, one in enumerate(found) if one.message["role"] == "system"]
    if system == [0]:
        return found
    texts = [_joined(found[number].message.get("content")) for number in system]
    places = tuple(place for number in system for place in found[number].places or (found[number].path,))
    merged = {"role": "system", "content": "\n\n".join(text for text in texts if text)}
    rest = [one for one in found if one.message["role"] != "system"]
    return [SentMessage(merged, found[system[0]].path, places), *rest]


def _joined(content: Any) -> str:
    """Return the text of a content."""
    if isinstance(content, list):
        return "\n".join(block["text"] for block in content if isinstance(block, dict) and "text" in block)
    return content if isinstance(content, str) else ""


def vllm_messages(chat: Sequence[SentMessage], use: TemplateUse, fields: Mapping[str, Any]) -> ParsedChat:
    """Return the messages of a chat as the template receives them."""
    found = [one.parsed(lambda message: parsed_message(message, use)) for one in chat]
    if any(one.message.get("role") == "developer" for one in found) and not knows_developer(use):
        found = _with_system(found)
    if fields.get("continue_final_message") is True and found and isinstance(found[-1].message.get("content"), str):
        return ParsedChat(tuple(found[:-1]), continued=found[-1], way=Continued.RENDERED)
    return ParsedChat(tuple(found), opens_answer=fields.get("add_generation_prompt") is not False)


# Anthropic's API.


def vllm_anthropic(body: Mapping[str, Any]) -> list[SentMessage]:
    """Return the messages of a body of Anthropic's API, for a template that takes system messages everywhere."""
    found: list[SentMessage] = []
    text = _system_text(body.get("system"), is_prompt=True)
    if text:
        found.append(SentMessage({"role": "system", "content": text}, "system"))
    for number, message in enumerate(body["messages"]):
        path = f"messages[{number}]"
        role, content = message.get("role"), message.get("content")
        if role == "system":
            text = _system_text(content, is_prompt=False)
            found += [SentMessage({"role": "system", "content": text}, path)] if text else []
        elif isinstance(content, list):
            found += _converted(role, content, path)
        else:
            found.append(SentMessage({"role": role, "content": content}, path))
    return found


def _system_text(system: Any, *, is_prompt: bool) -> str:
    """Return the text of a system prompt or system message without billing headers: of its blocks, and of a message
    that is a text."""
    if isinstance(system, str):
        return "" if not is_prompt and system.startswith(BILLING) else system
    blocks = system if isinstance(system, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str) and not text.startswith(BILLING))


def _converted(role: Any, blocks: Sequence[Any], path: str) -> Iterator[SentMessage]:
    """Yield the messages that the blocks of a message become: results of tools, then the message itself."""
    message: dict[str, Any] = {"role": role}
    content: list[Any] = []
    calls: list[Any] = []
    thoughts: list[str] = []
    places: list[str] = []
    for number, block in enumerate(blocks):
        place = f"{path}.content[{number}]"
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "tool_result" and role == "user":
            yield from _results(block, place)
            continue
        places.append(place)
        if (kind == "text" and block.get("text")) or kind == MEDIA:
            content.append(block if kind == MEDIA else {"type": "text", "text": block["text"]})
        elif kind == "thinking" and isinstance(block.get("thinking"), str):
            thoughts.append(block["thinking"])
        elif kind == "tool_use":
            function = {"name": block.get("name") or "", "arguments": json.dumps(block.get("input") or {})}
            calls.append({"id": block.get("id"), "type": "function", "function": function})
    if thoughts:
        message["reasoning"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    if content:
        message["content"] = content[0]["text"] if len(content) == 1 and content[0]["type"] == "text" else content
    if role != "user" or content:
        yield SentMessage(message, path, tuple(places))


def _results(block: Mapping[str, Any], place: str) -> Iterator[SentMessage]:
    """Yield the messages of a tool's result: its text, then its images."""
    value = block.get("content")
    listed = [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []
    text = value if isinstance(value, str) else "\n".join(part.get("text", "") for part in listed
                                                          if part.get("type") == "text")  # fmt: skip
    yield SentMessage({"role": "tool", "tool_call_id": block.get("tool_use_id") or "", "content": text}, place)
    images = [part for part in listed if part.get("type") == MEDIA and part["kind"] == "image"]
    if images:
        yield SentMessage({"role": "user", "content": images}, place)
