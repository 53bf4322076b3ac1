"""What did the server answer? From the response of a dump: JSON of several APIs, or its stream of events."""

from __future__ import annotations

import json
from typing import Any, Iterator

from cachesim.tools.request_bodies.body import BodyMessage
from cachesim.tools.request_bodies.content import message_of

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
        for key in ("reasoning_content", "reasoning", "thinking"):
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
