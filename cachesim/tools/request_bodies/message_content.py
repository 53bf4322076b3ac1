"""The content of a message, in the dialects of several APIs, as parts and as a chat template gets it.

A string; a list of texts, images, calls, results and thinking. Reasoning is in fields of its own
(``reasoning_content``, ``reasoning``, ``thinking``), in blocks, or between think tags inside of the text.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Iterator

from cachesim.tools.request_bodies.body import CALL, IMAGE, REASONING, TEXT, BodyMessage, BodyText

# What did the server answer? From the response of a dump: JSON of several APIs, or its stream of events.

INNER = ("content", "body", "text", "response", "data", "json")
DEEP = 4


def answer_of(value: Any, deep: int = 0) -> BodyMessage | None:
    """The message that a response holds, None where none is found."""
    if deep > DEEP:
        return None
    if isinstance(value, str):
        return _of_text(value, deep)
    if not isinstance(value, dict):
        return None
    said = _message(value)
    if said is not None:
        return message_of({"role": "assistant", **said}, "response")
    found = (answer_of(value[key], deep + 1) for key in INNER if value.get(key))
    return next((one for one in found if one is not None), None)


def _message(value: dict[str, Any]) -> dict[str, Any] | None:
    """The message in a response of a form that is known."""
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
    return None


def _of_text(text: str, deep: int) -> BodyMessage | None:
    if text.lstrip()[:1] == "{":
        try:
            return answer_of(json.loads(text), deep + 1)
        except (ValueError, RecursionError):
            return None
    reasoning, content = "", ""
    calls: dict[Any, Any] = {}
    for delta in _deltas(text):
        for key in REASONS:
            reasoning += delta[key] if isinstance(delta.get(key), str) else ""
        for key in ("content", "text"):
            content += delta[key] if isinstance(delta.get(key), str) else ""
        for call in delta["tool_calls"] if isinstance(delta.get("tool_calls"), list) else ():
            _add_call(calls, call)
    if not (reasoning or content or calls):
        return None
    said = {"role": "assistant", "reasoning_content": reasoning, "content": content, "tool_calls": [*calls.values()]}
    return message_of(said, "response")


def _add_call(calls: dict[Any, Any], call: Any) -> None:
    """One more piece of a call that is streamed."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return
    index = call.get("index")
    mine = calls.setdefault(index if isinstance(index, int) else 0, {"function": {"name": "", "arguments": ""}})
    for key in ("name", "arguments"):
        mine["function"][key] += function[key] if isinstance(function.get(key), str) else ""


def _deltas(text: str) -> Iterator[dict[str, Any]]:
    """The changes that a stream of events tells."""
    for line in text.splitlines():
        if not line.startswith("data:"):
            continue
        try:
            event = json.loads(line[5:])
        except (ValueError, RecursionError):
            continue
        if not isinstance(event, dict):
            continue
        choices = event.get("choices")
        if isinstance(choices, list) and choices and isinstance(choices[0], dict):
            delta = choices[0].get("delta", choices[0])
        else:
            delta = event.get("delta", event)
        if isinstance(delta, dict):
            yield delta


REASONS = ("reasoning_content", "reasoning", "thinking")
IMAGES = ("image", "image_url", "input_image", "input_audio", "audio", "video", "file", "input_file", "document")
THOUGHTS = ("thinking", "redacted_thinking", "reasoning", "reasoning_text")
THINK = re.compile(r"\A\s*<think>.*?(?:</think>\s*|\Z)", re.S)


def message_of(one: dict[str, Any], path: str) -> BodyMessage:
    """The parts of a message of a chat."""
    parts = [part for key in REASONS if key in one for part in _reasoning(one[key], f"{path}.{key}")]
    parts += content(one.get("content"), f"{path}.content")
    calls = one["tool_calls"] if isinstance(one.get("tool_calls"), list) else []
    parts += [_call(call, f"{path}.tool_calls[{number}]") for number, call in enumerate(calls)]
    role = one.get("role")
    return BodyMessage(role if isinstance(role, str) else "", path, tuple(parts))


def content(value: Any, path: str) -> list[BodyText]:
    """The parts of a content: a string, a list of blocks, or one block."""
    if isinstance(value, str):
        return list(_text(value, path))
    if isinstance(value, list):
        return [part for number, one in enumerate(value) for part in block(one, f"{path}[{number}]")]
    return list(block(value, path)) if isinstance(value, dict) else []


def block(one: Any, path: str) -> list[BodyText]:
    """The parts of one block of a content."""
    if isinstance(one, str):
        return list(_text(one, path))
    if not isinstance(one, dict):
        return []
    what = one.get("type")
    if what in THOUGHTS:
        key = next((key for key in ("thinking", "text", "data", "summary", "content") if one.get(key)), "thinking")
        return list(_reasoning(one.get(key), f"{path}.{key}"))
    if what in IMAGES:
        return [_image(one, path)]
    if what in ("tool_use", "function_call", "custom_tool_call"):
        return [_call(one, path)]
    if what in ("tool_result", "function_call_output", "custom_tool_call_output"):
        key = "output" if "output" in one else "content"
        return content(one.get(key), f"{path}.{key}")
    if isinstance(one.get("text"), str):
        return list(_text(one["text"], f"{path}.text"))
    return content(one["content"], f"{path}.content") if isinstance(one.get("content"), str | list) else []


def _text(text: str, path: str) -> Iterator[BodyText]:
    """A text; what it thinks in front is reasoning."""
    found = THINK.match(text)
    if found and found.end():
        yield BodyText(REASONING, path, text[: found.end()])
    rest = text[found.end() :] if found else text
    if rest:
        yield BodyText(TEXT, path, rest)


def _reasoning(value: Any, path: str) -> Iterator[BodyText]:
    text = value if isinstance(value, str) else "".join(part.text for part in content(value, path))
    if text:
        yield BodyText(REASONING, path, text)


def _image(one: dict[str, Any], path: str) -> BodyText:
    """An image, or a sound, stands as a digest: where it is changed, its text is."""
    said = json.dumps(one, sort_keys=True).encode("utf-8", "surrogatepass")
    return BodyText(IMAGE, path, f"<{one['type']} {hashlib.sha256(said).hexdigest()[:32]}>")


def _call(call: Any, path: str) -> BodyText:
    """A call of a tool, as its name and arguments: its id is in no prompt of the usual templates."""
    if not isinstance(call, dict):
        return BodyText(CALL, path, "")
    function = call.get("function") if isinstance(call.get("function"), dict) else call
    assert isinstance(function, dict)
    given: Any = next((function[key] for key in ("arguments", "input") if key in function), {})
    said = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    name = json.dumps(function.get("name"), ensure_ascii=False)
    return BodyText(CALL, path, f'{{"name": {name}, "arguments": {said}}}')


def arguments(value: Any) -> Any:
    """The arguments of a call as a template gets them: an object where the text is one."""
    try:
        return json.loads(value) if isinstance(value, str) and len(value) < 1 << 20 else value
    except (ValueError, RecursionError):
        return value


def joined(parts: list[BodyText], kind: str = TEXT) -> str:
    """The text of the parts of one kind."""
    return "\n".join(part.text for part in parts if part.kind == kind)
