"""Message contents in the formats of several APIs, as parts and as a chat template receives them; and the answer in a
recorded response.

A content is a string or a list of texts, images, tool calls, tool results and reasoning. Reasoning is in separate
fields (``reasoning_content``, ``reasoning``, ``thinking``), in blocks, or between think tags in the text. Responses are
JSON of several APIs or event streams.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any, Iterator, Sequence

from cachesim.tools.request_bodies.body import CALL, REASONING, TEXT, TOKENS, BodyMessage, BodyText, token_character
from cachesim.tools.request_bodies.media_parts import MEDIA, media_list, media_part
from cachesim.tools.request_bodies.message_fields import fields_text

INNER = ("content", "body", "text", "response", "data", "json")
DEEP = 4


def answer_of(value: Any, deep: int = 0) -> BodyMessage | None:
    """Return the message in a response, None for an unknown format."""
    if deep > DEEP:
        return None
    if isinstance(value, str):
        return _of_text(value, deep)
    if not isinstance(value, dict):
        return None
    message = _message(value)
    if message is not None:
        return message_of({"role": "assistant", **message}, "response")
    found = (answer_of(value[key], deep + 1) for key in INNER if value.get(key))
    return next((answer for answer in found if answer is not None), None)


def answer_tokens(value: Any) -> BodyMessage | None:
    """Return the message in a response to a prompt of tokens, None without a list of its tokens (``"return_tokens":
    true`` of llama.cpp, ``output_ids`` of SGLang, ``"return_token_ids": true`` of vLLM)."""
    listed = _listed(value, ("tokens", "output_ids", "token_ids"))
    text = "".join(token_character(token) for token in listed)
    if not text or len(text) != len(listed):
        return None
    return BodyMessage("assistant", "response", (BodyText(TOKENS, "response.tokens", text),))


def prompt_token_ids(value: Any) -> list[int] | None:
    """Return the tokens of the prompt as a response lists them (``"return_token_ids": true`` of vLLM), None if it does
    not."""
    listed = _listed(value, ("prompt_token_ids",))
    return listed if listed and all(type(token) is int for token in listed) else None


def _listed(value: Any, names: Sequence[str]) -> list[Any]:
    """Return the first list of these names in a response or in its first choice."""
    choices = value.get("choices") if isinstance(value, dict) else None
    holders = (value, choices[0] if isinstance(choices, list) and choices else None)
    found = (one[name] for one in holders if isinstance(one, dict) for name in names if isinstance(one.get(name), list))
    return next(found, [])


def _message(value: dict[str, Any]) -> dict[str, Any] | None:
    """Return the message in a response of a known format, None for other formats."""
    choices = value.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        if isinstance(choices[0].get("message"), dict):
            return dict(choices[0]["message"])
        return {"content": choices[0]["text"]} if isinstance(choices[0].get("text"), str) else None
    if value.get("type") == "message" and isinstance(value.get("content"), list):
        return {"content": value["content"]}
    if isinstance(value.get("output"), list) and value.get("object") == "response":
        return {"content": value["output"]}
    if isinstance(value.get("content"), str) and {"tokens_predicted", "stop"} & value.keys():
        return {"content": value["content"]}
    return _of_ollama(value) if "done" in value else None


def _of_ollama(value: dict[str, Any]) -> dict[str, Any] | None:
    """Return the message in a reply of Ollama's API."""
    if isinstance(value.get("message"), dict):
        return dict(value["message"])
    if isinstance(value.get("response"), str):
        return {"content": value["response"], "thinking": value.get("thinking", "")}
    return None


def _of_text(text: str, deep: int) -> BodyMessage | None:
    """Return the message in a response text: JSON, or a stream of events."""
    if text.lstrip()[:1] == "{":
        with suppress(ValueError, RecursionError):             # ValueError: several objects, one a line
            return answer_of(json.loads(text), deep + 1)
    reasoning, content = "", ""
    calls: dict[Any, Any] = {}
    whole = next((event["response"] for event in _events(text) if event.get("type") == "response.completed"), None)
    if whole is not None:
        return answer_of(whole, deep + 1)
    for delta in _deltas(text):
        for key in REASONS:
            reasoning += delta[key] if isinstance(delta.get(key), str) else ""
        for key in ("content", "text"):
            content += delta[key] if isinstance(delta.get(key), str) else ""
        for call in delta["tool_calls"] if isinstance(delta.get("tool_calls"), list) else ():
            _add_call(calls, call)
    if not (reasoning or content or calls):
        return None
    message = {"role": "assistant", "reasoning_content": reasoning, "content": content, "tool_calls": [*calls.values()]}
    return message_of(message, "response")


def _add_call(calls: dict[Any, Any], call: Any) -> None:
    """Add a streamed fragment to a tool call."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return
    index = call.get("index")
    collected = calls.setdefault(index if isinstance(index, int) else 0, {"function": {"name": "", "arguments": ""}})
    for key in ("name", "arguments"):
        collected["function"][key] += function[key] if isinstance(function.get(key), str) else ""


def _events(text: str) -> Iterator[dict[str, Any]]:
    """Yield the events of an event stream, or of JSON lines, that are objects."""
    for line in text.splitlines():
        if not line.startswith(("data:", "{")):
            continue
        try:
            event = json.loads(line.removeprefix("data:"))
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


def _deltas(text: str) -> Iterator[dict[str, Any]]:
    """Yield the deltas of an event stream."""
    for event in _events(text):
        choices = event.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            delta = choices[0].get("delta", choices[0])
        else:
            delta = event.get("delta", _of_ollama(event) or event)
        if isinstance(delta, dict):
            yield delta


REASONS = ("reasoning_content", "reasoning", "thinking")
THOUGHTS = ("thinking", "redacted_thinking", "reasoning", "reasoning_text")
THINK = re.compile(r"\A\s*<think>.*?(?:</think>\s*|\Z)", re.S)


def message_of(message: dict[str, Any], path: str) -> BodyMessage:
    """Return a chat message as parts."""
    parts = [part for key in REASONS if key in message for part in _reasoning(message[key], f"{path}.{key}")]
    parts += media_list(message.get("images"), f"{path}.images")
    parts += content(message.get("content"), f"{path}.content")
    calls = message["tool_calls"] if isinstance(message.get("tool_calls"), list) else []
    parts += [_call(call, f"{path}.tool_calls[{number}]") for number, call in enumerate(calls)]
    role = message.get("role")
    return BodyMessage(role if isinstance(role, str) else "", path, tuple(parts), fields_text(message))


def content(value: Any, path: str) -> list[BodyText]:
    """Return the parts of a content: a string, a list of blocks, or a block."""
    if isinstance(value, str):
        return list(_text(value, path))
    if isinstance(value, list):
        return [part for number, entry in enumerate(value) for part in block(entry, f"{path}[{number}]")]
    return list(block(value, path)) if isinstance(value, dict) else []


def block(value: Any, path: str) -> list[BodyText]:
    """Return the parts of a content block."""
    if isinstance(value, str):
        return list(_text(value, path))
    if not isinstance(value, dict):
        return []
    what = value.get("type")
    if what in THOUGHTS:
        key = next((key for key in ("thinking", "text", "data", "summary", "content") if value.get(key)), "thinking")
        return list(_reasoning(value.get(key), f"{path}.{key}"))
    if what in MEDIA:
        return [media_part(value, path)]
    if what in ("tool_use", "function_call", "custom_tool_call"):
        return [_call(value, path)]
    if what in ("tool_result", "function_call_output", "custom_tool_call_output"):
        key = "output" if "output" in value else "content"
        return content(value.get(key), f"{path}.{key}")
    if isinstance(value.get("text"), str):
        return list(_text(value["text"], f"{path}.text"))
    return content(value["content"], f"{path}.content") if isinstance(value.get("content"), str | list) else []


def _text(text: str, path: str) -> Iterator[BodyText]:
    """Yield the parts of a text; a leading think block is reasoning."""
    found = THINK.match(text)
    if found and found.end():
        yield BodyText(REASONING, path, text[: found.end()])
    rest = text[found.end() :] if found else text
    if rest:
        yield BodyText(TEXT, path, rest)


def _reasoning(value: Any, path: str) -> Iterator[BodyText]:
    """Yield the reasoning part of a value, unless it is empty."""
    text = value if isinstance(value, str) else "".join(part.text for part in content(value, path))
    if text:
        yield BodyText(REASONING, path, text)


def _call(call: Any, path: str) -> BodyText:
    """Return a tool call as its name and arguments. Its id is omitted: usual chat templates do not render it."""
    if not isinstance(call, dict):
        return BodyText(CALL, path, "")
    function = call.get("function") if isinstance(call.get("function"), dict) else call
    assert isinstance(function, dict)
    given: Any = next((function[key] for key in ("arguments", "input") if key in function), {})
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    name = json.dumps(function.get("name"), ensure_ascii=False)
    return BodyText(CALL, path, f'{{"name": {name}, "arguments": {text}}}')


def arguments(value: Any) -> Any:
    """Return the arguments of a call as a template receives them: parsed if they are JSON, else unchanged."""
    try:
        return json.loads(value) if isinstance(value, str) and len(value) < 1 << 20 else value
    except (ValueError, RecursionError):
        return value


def join_text(parts: list[BodyText], kind: str = TEXT) -> str:
    """Return the text of all parts of a kind, joined by line ends."""
    return "\n".join(part.text for part in parts if part.kind == kind)
