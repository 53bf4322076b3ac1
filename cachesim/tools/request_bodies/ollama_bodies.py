"""Bodies of Ollama's own API (``/api/chat``, ``/api/generate``) as Ollama's server reads them.

Ollama parses a body into its own records and writes the prompt itself: fields that a record lacks are dropped, roles
are written in lower case, and a tool is written again with the fields of its record. Its templates, the system text of
a Modelfile and the messages that it leaves out of a prompt longer than ``options.num_ctx`` are not in the body.
Source: ``api/types.go``, ``server/routes.go`` and ``server/prompt.go`` of Ollama 0.33.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.tools.request_bodies.body import (
    OLLAMA_OPTION,
    RELOADING,
    TEXT,
    Body,
    BodyMessage,
    BodyText,
    token_character,
)
from cachesim.tools.request_bodies.media_parts import media_list
from cachesim.tools.request_bodies.message_content import message_of

OLLAMA_CHAT = "Ollama chat"
OLLAMA_GENERATE = "Ollama generate"
FORMS = frozenset({OLLAMA_CHAT, OLLAMA_GENERATE})
OPTIONS = "options"
CONTEXT = "context"
_OF_MESSAGE = frozenset({"images", "tool_name"})
_OF_GENERATE = frozenset({"context", "raw", "template", "images"})
_SINCE_WHOLE_COUNT = frozenset({"think", "truncate", "shift", "thinking", "tool_name"})
"""Fields that Ollama reads since 0.9, long after ``prompt_eval_count`` became the length of the whole prompt (0.4; the
evaluated part before)."""
_MESSAGE = ("role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id")
_FUNCTION = ("name", "description", "parameters")
_PARAMETERS = ("type", "$defs", "items", "required", "properties")
_PROPERTY = ("anyOf", "type", "items", "description", "enum", "properties", "required")
_WRITTEN_EMPTY = frozenset({"name", "properties", "type", "parameters"})
"""Fields of a tool that its record writes without a value, too."""


def is_ollama(body: Mapping[str, Any], url: str) -> bool:
    """True if a body is of Ollama's own API: by its URL, or by fields that no other API has."""
    path = url.partition("?")[0]
    if "/v1/" in path:                                   # another API
        return False
    if path.endswith(("/api/chat", "/api/generate")):
        return True
    if "keep_alive" in body or isinstance(body.get(OPTIONS), dict):
        return True
    messages = body.get("messages")
    if isinstance(messages, list):
        return any(map(_is_ollama_message, messages))
    return isinstance(body.get("prompt"), str) and not _OF_GENERATE.isdisjoint(body)


def _is_ollama_message(message: Mapping[str, Any]) -> bool:
    """True if a message has fields of Ollama's API: its tool calls have no type, and arguments that are objects."""
    listed = message.get("tool_calls")
    calls = [call for call in listed if isinstance(call, dict)] if isinstance(listed, list) else []
    functions = [call.get("function") for call in calls if "type" not in call]
    has_objects = any(isinstance(one, dict) and isinstance(one.get("arguments"), dict) for one in functions)
    is_text = isinstance(message.get("content"), str | None)
    return is_text and (has_objects or not _OF_MESSAGE.isdisjoint(message))


def chat_body(body: Mapping[str, Any]) -> Body:
    """Return a body of ``/api/chat`` with the messages and tools that its template receives."""
    messages = [_message(message) for message in body["messages"]]
    given = body.get("tools")
    tools = given if isinstance(given, list) else []
    return Body(
        OLLAMA_CHAT,
        messages=[message_of(message, f"messages[{number}]") for number, message in enumerate(messages)],
        tools=[(f"tools[{number}]", _tool(tool)) for number, tool in enumerate(tools)],
        chat=messages,
        refused=_refusal(body["messages"]),
    )


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as Ollama reads it."""
    read = {name: message[name] for name in _MESSAGE if message.get(name) is not None}
    if isinstance(read.get("role"), str):
        read["role"] = read["role"].lower()
    if isinstance(read.get("tool_calls"), list):
        read["tool_calls"] = [_call(call) for call in read["tool_calls"]]
    return read


def _call(call: Any) -> Any:
    """Return a tool call with the fields of its record; the order of the arguments is kept."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    return {"function": {name: function[name] for name in ("name", "arguments") if name in function}}


def _tool(tool: Any) -> Any:
    """Return the definition of a tool as Ollama writes it again."""
    function = tool.get("function") if isinstance(tool, dict) else None
    if not isinstance(function, dict):
        return tool
    written = _written(function, _FUNCTION)
    if isinstance(written.get("parameters"), dict):
        written["parameters"] = _with_properties(_written(written["parameters"], _PARAMETERS))
    return {"type": tool.get("type", ""), "function": written}


def _with_properties(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose properties have the fields of their record, in the order in which they were sent."""
    properties = schema.get("properties")
    if isinstance(properties, dict):
        schema["properties"] = {name: _property(one) for name, one in properties.items()}
    return schema


def _property(value: Any) -> Any:
    """Return the definition of an argument, with those inside of it."""
    if not isinstance(value, dict):
        return value
    read = _with_properties(_written(value, _PROPERTY))
    if isinstance(read.get("anyOf"), list):
        read["anyOf"] = [_property(one) for one in read["anyOf"]]
    return read


def _written(value: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the fields of a record in its order, without those that are left out when they are empty."""
    return {name: value[name] for name in names if value.get(name) or (name in value and name in _WRITTEN_EMPTY)}


def _refusal(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return why Ollama answers a chat with an error, "" if nothing shows that it does."""
    for number, message in enumerate(messages):
        if not isinstance(message.get("content"), str | None):
            return f"messages[{number}].content: expected a string"
        calls = message.get("tool_calls")
        for at, call in enumerate(calls if isinstance(calls, list) else ()):
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict) and isinstance(function.get("arguments"), str):
                return f"messages[{number}].tool_calls[{at}].function.arguments: expected an object"
    return ""


def generate_body(body: Mapping[str, Any]) -> Body:
    """Return a body of ``/api/generate``: ``context``, the system text, then the prompt. A raw prompt has neither a
    template nor a system text; one with a suffix has no system text. The tokens of a context are characters of a text,
    because its text is not known."""
    prompt = BodyText(TEXT, "prompt", body["prompt"])
    parts = (*media_list(body.get("images"), "images"), prompt)
    if body.get("raw"):
        return Body(OLLAMA_GENERATE, messages=[BodyMessage("", "prompt", parts)])
    messages = [BodyMessage("user", "prompt", parts)]
    system = body.get("system")
    if isinstance(system, str) and system and not body.get("suffix"):
        messages.insert(0, BodyMessage("system", "system", (BodyText(TEXT, "system", system),)))
    given = body.get(CONTEXT)
    context = "".join(map(token_character, given)) if isinstance(given, list) else ""
    if context:
        messages.insert(0, BodyMessage("", CONTEXT, (BodyText(TEXT, CONTEXT, context),)))
        return Body(OLLAMA_GENERATE, messages=messages)
    chat = [{"role": message.role, "content": message.parts[-1].text} for message in messages]
    return Body(OLLAMA_GENERATE, messages=messages, chat=chat)


def counts_whole_prompt(body: Mapping[str, Any]) -> bool:
    """True if the fields of a body show an Ollama whose ``prompt_eval_count`` is the length of the whole prompt."""
    messages = body.get("messages")
    records = [body, *(messages if isinstance(messages, list) else ())]
    return any(not _SINCE_WHOLE_COUNT.isdisjoint(record) for record in records)


def reloads(bodies: Sequence[Body]) -> dict[int, str]:
    """Return the requests for which Ollama loads the model again, by number, each with the field that causes it. The
    bodies are in the order of their arrival."""
    found: dict[int, str] = {}
    latest: dict[str, Body] = {}
    for body in (one for one in bodies if one.form in FORMS):
        before = latest.get(body.model)
        latest[body.model] = body
        if before is None:
            continue
        if _is_zero(before.parameters.get("keep_alive")):
            found[body.number] = "keep_alive"
        for name in (f"{OLLAMA_OPTION}{name}" for name in sorted(RELOADING)):
            if _is_other(before.parameters.get(name), body.parameters.get(name)):
                found[body.number] = name
    return found


def _is_other(before: Any, after: Any) -> bool:
    """True if an option differs. Without a value it is the server's default, which may be the value of the other."""
    return before is not None and after is not None and before != after


def _is_zero(keep_alive: Any) -> bool:
    """True if Ollama unloads a model at once: a duration of 0, as a number or as a text with a unit."""
    return str(keep_alive).rstrip("smh") == "0"


def ollama_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a body beside its prompt, each option as a field of its own."""
    options = parameters.get(OPTIONS)
    others = {name: value for name, value in parameters.items() if name != OPTIONS}
    inner = options if isinstance(options, dict) else {}
    return {**others, **{f"{OLLAMA_OPTION}{name}": value for name, value in inner.items()}}
