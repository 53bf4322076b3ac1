"""Readers of request bodies of each API (chat completions, Anthropic messages, responses, completion); each returns a
``Body``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.limits import BODIES
from cachesim.tools.request_bodies.body import (
    CALL,
    IMAGE,
    REASONING,
    TEXT,
    TOKENS,
    Body,
    BodyMessage,
    BodyText,
    token_character,
)
from cachesim.tools.request_bodies.body_files import FoundBody, prompt_key
from cachesim.tools.request_bodies.media_parts import split_at_media
from cachesim.tools.request_bodies.message_content import (
    answer_of,
    answer_tokens,
    arguments,
    block,
    content,
    join_text,
    message_of,
)
from cachesim.tools.request_bodies.message_fields import block_fields, fields_text
from cachesim.tools.request_bodies.ollama_bodies import (
    FORMS,
    chat_body,
    counts_whole_prompt,
    generate_body,
    is_ollama,
    ollama_parameters,
)
from cachesim.tools.request_bodies.reported_counts import NO_COUNTS, counts_of_answer

CHAT = "chat completions"
ANTHROPIC = "Anthropic messages"
RESPONSES = "responses"
COMPLETION = "completion"
NATIVE = ("n_predict", "id_slot", "slot_id", "n_keep", "n_cache_reuse", "cache_prompt", "samplers")
SEEN = frozenset({"messages", "prompt", "input", "tools", "system", "instructions", "model", "functions",
                  "images"})  # fmt: skip
"""Keys of prompt parts; all others are parameters."""
_ANTHROPIC_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})


def bodies_of(found: Sequence[FoundBody]) -> list[Body]:
    """Return the bodies in order, numbered from 0. A completion with several prompts becomes several bodies. Raise
    BadInput for malformed prompts and for more bodies than the limit."""
    out: list[Body] = []
    for request in found:
        for body in _read(request):
            out.append(replace(body, number=len(out)))
            BODIES.check(len(out), "requests", file=request.place)
    return out


def _read(found: FoundBody) -> list[Body]:
    """Return the bodies of a request: several for a completion with several prompts."""
    value = found.body
    key = prompt_key(value)
    is_readable = key == "messages" or (key == "prompt" and isinstance(value["prompt"], str))
    if is_readable and is_ollama(value, found.url):
        read = [chat_body(value) if key == "messages" else generate_body(value)]
    elif key == "messages":
        read = [_anthropic(value) if _is_anthropic(found) else _chat(value)]
    elif key == "input" or "prompt" not in value:
        read = [_responses(value)]
    else:
        read = _completions(value, found.place)
    model = value["model"] if isinstance(value.get("model"), str) else ""
    parameters = {key: part for key, part in value.items() if key not in SEEN}
    if read[0].form in FORMS:
        parameters = ollama_parameters(parameters)
    answer = None
    reported = NO_COUNTS
    if len(read) == 1 and found.answer is not None:
        answer = answer_tokens(found.answer) if read[0].of_tokens else answer_of(found.answer)
        is_whole = read[0].form in FORMS and counts_whole_prompt(value)
        reported = counts_of_answer(found.answer, counts_whole_prompt=is_whole)
    sent = {} if read[0].is_raw else value
    return [
        replace(
            body,
            place=found.place,
            url=found.url,
            model=model,
            parameters=parameters,
            answer=answer,
            reported=reported,
            sent=sent,
        )
        for body in read
    ]


def _is_anthropic(found: FoundBody) -> bool:
    """True if a body with `messages` is of Anthropic's API: by URL, top-level keys, content blocks, or tool
    schemas."""
    body = found.body
    if found.url.partition("?")[0].endswith("/messages") or "system" in body or "anthropic_version" in body:
        return True
    blocks = (part for message in body["messages"] if isinstance(message.get("content"), list)
              for part in message["content"])  # fmt: skip
    kinds = {part.get("type") for part in blocks if isinstance(part, dict) and isinstance(part.get("type"), str)}
    tools = body.get("tools")
    given = tools[0] if isinstance(tools, list) and tools and isinstance(tools[0], dict) else {}
    return bool(kinds & _ANTHROPIC_BLOCKS) or "input_schema" in given


def _tools(value: Any, path: str = "tools") -> list[tuple[str, Any]]:
    """Return the tool definitions with their paths."""
    return [(f"{path}[{number}]", tool) for number, tool in enumerate(value)] if isinstance(value, list) else []


def _chat(value: Mapping[str, Any]) -> Body:
    """Return a chat completions body."""
    tools = _tools(value.get("tools")) or _tools(value.get("functions"), "functions")
    messages = [message_of(message, f"messages[{i}]") for i, message in enumerate(value["messages"])]
    chat = [for_template(message) for message in value["messages"]]
    return Body(CHAT, messages=messages, tools=tools, chat=chat)


def for_template(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as most servers hand it to a chat template: texts joined to a string, arguments of tool calls
    parsed."""
    listed = isinstance(message.get("content"), list) or bool(message.get("images"))
    out = dict(message)
    if listed:
        out["content"] = join_text([part for part in message_of(out, "").parts if part.kind in (TEXT, IMAGE)])
    if isinstance(message.get("tool_calls"), list):
        out["tool_calls"] = [_object_call(call) for call in message["tool_calls"]]
    return out


def _object_call(call: Any) -> Any:
    """Return a tool call with its arguments parsed."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    return {**call, "function": {**function, "arguments": arguments(function.get("arguments"))}}


def _anthropic(value: Mapping[str, Any]) -> Body:
    """Return a body of Anthropic's API, converted as llama-server does: the system texts are the first message, and
    tool results are separate messages."""
    messages: list[BodyMessage] = []
    system = content(value.get("system"), "system")
    if system:
        messages.append(BodyMessage("system", "system", tuple(system)))
    for number, one in enumerate(value["messages"]):
        path, raw = f"messages[{number}]", one.get("content")
        results: list[BodyMessage] = []
        rest: list[BodyText] = []
        for i, part in enumerate(raw) if isinstance(raw, list) else ():
            parts = block(part, f"{path}.content[{i}]")
            if isinstance(part, dict) and part.get("type") == "tool_result":
                results.append(BodyMessage("tool", f"{path}.content[{i}]", tuple(parts), block_fields(part)))
            else:
                rest += parts
        rest = rest if isinstance(raw, list) else content(raw, f"{path}.content")
        role = one.get("role")
        own = BodyMessage(role if isinstance(role, str) else "", path, tuple(rest), fields_text(_without_results(one)))
        messages += [*results, *([own] if rest or not results else [])]
    chat = [plain_chat(one) for one in messages]
    tools = [(path, _open_ai_tool(one)) for path, one in _tools(value.get("tools"))]
    return Body(ANTHROPIC, messages=messages, tools=tools, chat=chat)


def _without_results(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message of Anthropic's API without its tool results."""
    blocks = message.get("content")
    if not isinstance(blocks, list):
        return message
    kept = [one for one in blocks if not (isinstance(one, dict) and one.get("type") == "tool_result")]
    return {**message, "content": kept}


def plain_chat(message: BodyMessage) -> dict[str, Any]:
    """Return a message as a chat template receives it, made from its parts."""
    parts = list(message.parts)
    out: dict[str, Any] = {"role": message.role, "content": join_text([p for p in parts if p.kind in (TEXT, IMAGE)])}
    thought = join_text(parts, REASONING)
    calls = [arguments(part.text) for part in parts if part.kind == CALL]
    if thought:
        out["reasoning_content"] = thought
    if calls:
        out["tool_calls"] = [{"type": "function", "function": call} for call in calls]
    return out


def _open_ai_tool(tool: Any) -> Any:
    """Return a tool definition of Anthropic's API in the format of OpenAI's."""
    if not isinstance(tool, dict) or "input_schema" not in tool:
        return tool
    function = {"name": tool.get("name"), "description": tool.get("description"), "parameters": tool["input_schema"]}
    return {"type": "function", "function": {key: part for key, part in function.items() if part is not None}}


def _responses(value: Mapping[str, Any]) -> Body:
    """Return a body of the responses API. Reasoning belongs to the answer or call that follows it."""
    thoughts: list[BodyText] = []
    messages: list[BodyMessage] = []
    for role, key in (("system", "instructions"), ("user", "input")):
        if isinstance(value.get(key), str):
            messages.append(BodyMessage(role, key, (BodyText(TEXT, key, value[key]),)))
    for number, one in enumerate(value["input"] if isinstance(value["input"], list) else ()):
        path = f"input[{number}]"
        what = one.get("type")
        role = one.get("role")
        parts = content(one.get("content"), f"{path}.content") if what in (None, "message") else block(one, path)
        if what == "reasoning":
            thoughts += parts
            continue
        default = "tool" if str(what).endswith("_output") else "assistant"
        role = role if isinstance(role, str) else default
        if thoughts and role != "assistant":
            messages.append(_of_thoughts(thoughts))
            thoughts = []
        messages.append(BodyMessage(role, path, (*thoughts, *parts), block_fields(one)))
        thoughts = []
    if thoughts:
        messages.append(_of_thoughts(thoughts))
    chat = [plain_chat(one) for one in messages]
    return Body(RESPONSES, messages=messages, tools=_tools(value.get("tools")), chat=chat)


def _of_thoughts(thoughts: Sequence[BodyText]) -> BodyMessage:
    """Return an answer that consists of reasoning."""
    path = thoughts[0].path
    return BodyMessage("assistant", path[: path.index("]") + 1], tuple(thoughts))


def _completions(value: Mapping[str, Any], place: str) -> list[Body]:
    """Return the bodies of a completion. Its prompt is a text, a token list, a list that mixes both, or several of
    these."""
    prompt = value["prompt"]
    prompts = [("prompt", prompt)]
    if isinstance(prompt, list) and all(isinstance(part, str | list | dict) for part in prompt):
        prompts = [(f"prompt[{number}]", part) for number, part in enumerate(prompt)]
    form = f"native {COMPLETION}" if any(key in value for key in NATIVE) else COMPLETION
    return [Body(form, messages=[BodyMessage("", path, tuple(_raw(value, path, place)))]) for path, value in prompts]


def _raw(prompt: Any, path: str, place: str) -> list[BodyText]:
    """Return the parts of a prompt. Raise BadInput for values that are neither text nor tokens."""
    if isinstance(prompt, dict) and isinstance(prompt.get("prompt_string"), str):
        inner, media = f"{path}.prompt_string", f"{path}.multimodal_data"
        pieces = split_at_media(prompt["prompt_string"], prompt.get("multimodal_data"), inner, media)
        return [piece if isinstance(piece, BodyText) else BodyText(TEXT, *piece) for piece in pieces]
    if isinstance(prompt, str):
        return [BodyText(TEXT, path, prompt)]
    if not isinstance(prompt, list):
        raise BadInput(f"{path} is neither text nor tokens", file=place)
    signs = [token_character(token) for token in prompt]
    if all(signs):
        return [BodyText(TOKENS, path, "".join(signs))] if prompt else []
    parts = []
    for number, (token, sign) in enumerate(zip(prompt, signs, strict=True)):
        if not sign and not isinstance(token, str):
            raise BadInput(f"{path}[{number}] is neither text nor a token", file=place)
        parts.append(BodyText(TOKENS if sign else TEXT, f"{path}[{number}]", sign or token))
    return parts
