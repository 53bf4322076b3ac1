"""Bodies of Anthropic's API and of the responses API as llama.cpp and ik_llama.cpp convert them to chat bodies.

Source: llama.cpp tools/server/server-chat.cpp server_chat_convert_anthropic_to_oai,
server_chat_convert_responses_to_chatcmpl (b11549, compared with the prompts of ``GET /slots``); ik_llama.cpp
examples/server/server-chat.cpp (8337e4c, read).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Callable, Iterator, Mapping

from cachesim.engines.chat_bodies import MEDIA, Refused, SentMessage

Block = Mapping[str, Any]
BILLING = "x-anthropic-billing-header:"
STAMP = 5                    # characters of the stamp in a billing header
IMAGES = frozenset({"image", "image_url", "input_image"})
INPUT_ROLES = frozenset({"user", "system", "developer"})


def _text(block: Any, name: str) -> str:
    """Return a field of a block that is a text, "" if it is missing or another value."""
    value = block.get(name) if isinstance(block, dict) else None
    return value if isinstance(value, str) else ""


def _kind(block: Any) -> str:
    """Return the type of a block, ``MEDIA`` for an image."""
    kind = _text(block, "type")
    return "" if kind == MEDIA and block["kind"] not in IMAGES else kind


# Anthropic's API.


def with_fixed_stamp(text: str) -> str:
    """Return a system text in which the stamp of a billing header at its beginning is replaced by a fixed one, as
    llama.cpp does (normalize_anthropic_billing_header)."""
    at = text.find("cch=", len(BILLING)) + len("cch=") if text.startswith(BILLING) else -1
    if at < len("cch=") or text[at + STAMP : at + STAMP + 1] != ";":
        return text
    return f"{text[:at]}{'f' * STAMP}{text[at + STAMP :]}"


def without_header(text: str) -> str:
    """Return a block of a system text, "" if it is a billing header, as ik_llama.cpp does."""
    return "" if text.startswith("x-anthropic-") else text


def as_sent(text: str) -> str:
    """Return a text."""
    return text


@dataclass(frozen=True, slots=True)
class AnthropicReading:
    """How a server reads a body of Anthropic's API."""

    system_text: Callable[[str], str]            # from a system prompt that is a text
    system_block: Callable[[str], str]           # from a block of a system prompt
    keeps_images: bool                           # the result of a tool keeps its images


def anthropic_messages(body: Mapping[str, Any], reading: AnthropicReading) -> list[SentMessage]:
    """Return the messages of a body of Anthropic's API: the system prompt, then each message, followed by the results
    of tools in it."""
    found: list[SentMessage] = []
    system = body.get("system")
    if system is not None:
        found.append(_system(system, reading))
    for number, message in enumerate(body["messages"]):
        path = f"messages[{number}]"
        content = message.get("content")
        if isinstance(content, list):
            found += _anthropic(message.get("role"), content, path, reading)
        elif "content" in message or message.get("role") != "assistant":
            found.append(SentMessage(message, path))
    return found


def _system(system: Any, reading: AnthropicReading) -> SentMessage:
    """Return the message of a system prompt: its texts without anything between them."""
    text = reading.system_text(system) if isinstance(system, str) else ""
    if isinstance(system, list):
        text = "".join(reading.system_block(_text(block, "text")) for block in system if _kind(block) == "text")
    return SentMessage({"role": "system", "content": text}, "system")


def _anthropic(role: Any, blocks: list[Any], path: str, reading: AnthropicReading) -> Iterator[SentMessage]:
    """Yield the messages that the blocks of a message become."""
    content: list[Block] = []
    calls: list[Block] = []
    reasoning = ""
    places: list[str] = []
    results: list[SentMessage] = []
    for number, block in enumerate(blocks):
        place = f"{path}.content[{number}]"
        kind = _kind(block)
        if kind == "tool_result":
            results.append(_result(block, place, reading))
            continue
        places.append(place)
        if kind in ("text", MEDIA):
            content.append(block)
        elif kind == "thinking":
            reasoning += _text(block, "thinking")
        elif kind == "tool_use":
            calls.append(_call(_text(block, "id"), _text(block, "name"), _object_text(block.get("input"))))
    if content or calls or reasoning:
        message: dict[str, Any] = {"role": role, "content": content or ""}
        if calls:
            message["tool_calls"] = calls
        if reasoning:
            message["reasoning_content"] = reasoning
        yield SentMessage(message, path, tuple(places))
    yield from results


def _object_text(value: Any) -> str:
    """Return the input of a tool as JSON, ``{}`` if it is missing."""
    return json.dumps({} if value is None else value, ensure_ascii=False, separators=(",", ":"))


def _call(number: str, name: str, arguments: str) -> dict[str, Any]:
    """Return a tool call."""
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


def _result(block: Block, place: str, reading: AnthropicReading) -> SentMessage:
    """Return the message of a tool's result: its texts without anything between them, or a list if it has images."""
    value = block.get("content")
    content: Any = value if isinstance(value, str) else ""
    if isinstance(value, list):
        parts = [part for part in value if _kind(part) == "text" or (_kind(part) == MEDIA and reading.keeps_images)]
        has_images = any(_kind(part) == MEDIA for part in parts)
        content = parts if has_images else "".join(_text(part, "text") for part in parts)
    return SentMessage({"role": "tool", "tool_call_id": _text(block, "tool_use_id"), "content": content}, place)


def llama_anthropic(body: Mapping[str, Any]) -> list[SentMessage]:
    """Return the messages of a body of Anthropic's API as llama.cpp converts them."""
    return anthropic_messages(body, AnthropicReading(with_fixed_stamp, with_fixed_stamp, keeps_images=True))


def older_anthropic(body: Mapping[str, Any]) -> list[SentMessage]:
    """Return the messages of a body of Anthropic's API as builds of llama.cpp before #21793 convert them."""
    return anthropic_messages(body, AnthropicReading(as_sent, as_sent, keeps_images=True))


def ik_anthropic(body: Mapping[str, Any]) -> list[SentMessage]:
    """Return the messages of a body of Anthropic's API as ik_llama.cpp converts them."""
    return anthropic_messages(body, AnthropicReading(as_sent, without_header, keeps_images=False))


# The responses API.


def _instructions(body: Mapping[str, Any]) -> list[SentMessage]:
    """Return the message of the instructions."""
    if "instructions" not in body:
        return []
    return [SentMessage({"role": "system", "content": _text(body, "instructions")}, "instructions")]


def llama_responses(body: Mapping[str, Any]) -> list[SentMessage]:
    """Return the messages of a body of the responses API as llama.cpp converts them: answers, reasoning and calls that
    follow an answer are put into its message. Raise Refused."""
    found = _instructions(body)
    given = body["input"]
    if isinstance(given, str):
        return [*found, SentMessage({"role": "user", "content": given}, "input")]
    for number, item in enumerate(given):
        path = f"input[{number}]"
        made = _item(item, path)
        last = found[-1] if found else None
        if last is not None and last.message["role"] == "assistant" and made.message["role"] == "assistant":
            found[-1] = _merged(last, made)
        else:
            found.append(made)
    return found


def ik_responses(body: Mapping[str, Any]) -> list[SentMessage]:
    """Return the messages of a body of the responses API as ik_llama.cpp converts them: reasoning is kept only in front
    of a call. Raise Refused."""
    found = _instructions(body)
    given = body["input"]
    if isinstance(given, str):
        return [*found, SentMessage({"role": "user", "content": given}, "input")]
    for number, item in enumerate(given):
        made = _item(item, f"input[{number}]")
        last = found[-1] if found else None
        if last is not None and "tool_calls" in made.message and "reasoning_content" in last.message:
            reasoning = last.message["reasoning_content"]
            places = (*(last.places or (last.path,)), made.path)
            found[-1] = replace(made, message={**made.message, "reasoning_content": reasoning}, places=places)
        else:
            found.append(made)
    return [one for one in found if "reasoning_content" not in one.message or one.message.get("content") != []]


def _merged(last: SentMessage, made: SentMessage) -> SentMessage:
    """Return an answer with what the next item adds to it."""
    message = dict(last.message)
    if "tool_calls" in made.message:
        message["tool_calls"] = [*message.get("tool_calls", ()), *made.message["tool_calls"]]
    elif "reasoning_content" in made.message:
        message["reasoning_content"] = made.message["reasoning_content"]
    else:
        message["content"] = [*message.get("content", ()), *made.message["content"]]
    return replace(last, message=message, places=(*(last.places or (last.path,)), made.path))


def _item(item: Mapping[str, Any], path: str) -> SentMessage:
    """Return the message of an item: of a client, of the model, a call, its result, or reasoning. Raise Refused."""
    content = item.get("content")
    blocks = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    role, kind = _text(item, "role"), _text(item, "type")
    if isinstance(blocks, list) and role in INPUT_ROLES:
        fields = {name: value for name, value in item.items() if name not in ("type", "status")}
        return SentMessage({**fields, "content": [_input_block(block) for block in blocks]}, path)
    if role == "assistant" and kind == "message":
        fields = {name: value for name, value in item.items() if name not in ("type", "status")}
        listed = blocks if isinstance(blocks, list) else []
        return SentMessage({**fields, "content": [_output_block(block) for block in listed]}, path)
    number = item.get("call_id")
    if kind == "function_call" and isinstance(number, str):
        name, arguments = item.get("name"), item.get("arguments")
        if isinstance(name, str) and isinstance(arguments, str):
            return SentMessage({"role": "assistant", "tool_calls": [_call(number, name, arguments)]}, path)
    if kind == "function_call_output" and isinstance(number, str):
        return SentMessage({"role": "tool", "tool_call_id": number, "content": _output(item.get("output"))}, path)
    if kind == "reasoning" and isinstance(item.get("summary"), list):
        first = content[0] if isinstance(content, list) and content else None
        if isinstance(first, dict) and isinstance(first.get("text"), str):
            return SentMessage({"role": "assistant", "content": [], "reasoning_content": first["text"]}, path)
    raise Refused("an item of no known kind")


def _input_block(block: Any) -> Block:
    """Return a block of a client's message in the form of the chat API. Raise Refused."""
    if _kind(block) == "input_text" and "text" in block:
        return {"type": "text", "text": block["text"]}
    if _kind(block) == MEDIA and block["kind"] == "input_image":
        return dict(block)
    raise Refused("a block of an input is neither text nor an image")


def _output_block(block: Any) -> Block:
    """Return a block of a message of the model in the form of the chat API. Raise Refused."""
    if _kind(block) in ("output_text", "input_text") and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    if _kind(block) == "refusal" and isinstance(block.get("refusal"), str):
        return {"type": "refusal", "refusal": block["refusal"]}
    raise Refused("a block of an output is not a text")


def _output(output: Any) -> Any:
    """Return the result of a tool in the form of the chat API. Raise Refused."""
    return output if isinstance(output, str) else [_input_block(block) for block in output or ()]
