"""Which API is a body of, and what is in it? Each form becomes a ``Body``."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.limits import BODIES
from cachesim.tools.request_bodies.body import CALL, REASONING, TEXT, TOKENS, Body, BodyMessage, BodyText, token_sign
from cachesim.tools.request_bodies.body_files import Found
from cachesim.tools.request_bodies.message_content import answer_of, arguments, block, content, joined, message_of

CHAT, ANTHROPIC, RESPONSES, COMPLETION = "chat completions", "Anthropic messages", "responses", "completion"
NATIVE = ("n_predict", "id_slot", "slot_id", "n_keep", "n_cache_reuse", "cache_prompt", "samplers")
SEEN = frozenset({"messages", "prompt", "input", "tools", "system", "instructions", "model", "functions"})
"""Keys that are parts of the prompt; all others are parameters."""
_ANTHROPIC_BLOCKS = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})


def bodies_of(found: Sequence[Found]) -> list[Body]:
    """Bodies in their order, numbered from 0; a completion with several prompts is several. Raises BadInput, also
    for too many of them."""
    out: list[Body] = []
    for one in found:
        for body in _read(one):
            body.number = len(out)
            out.append(body)
            BODIES.check(len(out), "requests", file=one.place)
    return out


def _read(found: Found) -> list[Body]:
    value = found.body
    if "messages" in value:
        read = [_anthropic(value) if _is_anthropic(found) else _chat(value)]
    elif "prompt" in value:
        read = _completions(value, found.place)
    else:
        read = [_responses(value)]
    for one in read:
        one.place, one.url = found.place, found.url
        one.model = value["model"] if isinstance(value.get("model"), str) else ""
        one.parameters = {key: said for key, said in value.items() if key not in SEEN}
    if len(read) == 1 and found.answer is not None:
        read[0].answer = answer_of(found.answer)
    return read


def _is_anthropic(found: Found) -> bool:
    body = found.body
    if found.url.partition("?")[0].endswith("/messages") or "system" in body or "anthropic_version" in body:
        return True
    blocks = (part for one in body["messages"] if isinstance(one.get("content"), list) for part in one["content"])
    kinds = {part.get("type") for part in blocks if isinstance(part, dict) and isinstance(part.get("type"), str)}
    tools = body.get("tools")
    given = tools[0] if isinstance(tools, list) and tools and isinstance(tools[0], dict) else {}
    return bool(kinds & _ANTHROPIC_BLOCKS) or "input_schema" in given


def _tools(value: Any, path: str = "tools") -> list[tuple[str, Any]]:
    return [(f"{path}[{number}]", one) for number, one in enumerate(value)] if isinstance(value, list) else []


def _chat(value: Mapping[str, Any]) -> Body:
    body = Body(0, "", CHAT, tools=_tools(value.get("tools")) or _tools(value.get("functions"), "functions"))
    body.messages = [message_of(one, f"messages[{i}]") for i, one in enumerate(value["messages"])]
    body.chat = [_for_template(one, mine) for one, mine in zip(value["messages"], body.messages, strict=True)]
    return body


def _for_template(one: Mapping[str, Any], mine: BodyMessage) -> dict[str, Any]:
    """A message as a chat template gets it: texts in one string, arguments of calls as objects."""
    said = dict(one)
    if isinstance(one.get("content"), list):
        said["content"] = joined([part for part in mine.parts if part.kind in (TEXT, "image")])
    if isinstance(one.get("tool_calls"), list):
        said["tool_calls"] = [_object_call(call) for call in one["tool_calls"]]
    return said


def _object_call(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    return {**call, "function": {**function, "arguments": arguments(function.get("arguments"))}}


def _anthropic(value: Mapping[str, Any]) -> Body:
    """As llama-server does: the system texts are a first message, results of tools are messages of their own."""
    body = Body(0, "", ANTHROPIC, tools=_tools(value.get("tools")), chat=[])
    system = content(value.get("system"), "system")
    if system:
        body.messages.append(BodyMessage("system", "system", tuple(system)))
    for number, one in enumerate(value["messages"]):
        path, said = f"messages[{number}]", one.get("content")
        results: list[BodyMessage] = []
        rest: list[BodyText] = []
        for i, part in enumerate(said) if isinstance(said, list) else ():
            parts = block(part, f"{path}.content[{i}]")
            if isinstance(part, dict) and part.get("type") == "tool_result":
                results.append(BodyMessage("tool", f"{path}.content[{i}]", tuple(parts)))
            else:
                rest += parts
        rest = rest if isinstance(said, list) else content(said, f"{path}.content")
        role = one.get("role")
        mine = BodyMessage(role if isinstance(role, str) else "", path, tuple(rest))
        body.messages += [*results, *([mine] if rest or not results else [])]
    body.chat = [_plain_chat(one) for one in body.messages]
    body.tools = [(path, _open_ai_tool(one)) for path, one in body.tools]
    return body


def _plain_chat(one: BodyMessage) -> dict[str, Any]:
    """A message of parts as a chat template gets it."""
    parts = list(one.parts)
    said: dict[str, Any] = {"role": one.role, "content": joined([p for p in parts if p.kind in (TEXT, "image")])}
    thought = joined(parts, REASONING)
    calls = [arguments(part.text) for part in parts if part.kind == CALL]
    if thought:
        said["reasoning_content"] = thought
    if calls:
        said["tool_calls"] = [{"type": "function", "function": call} for call in calls]
    return said


def _open_ai_tool(one: Any) -> Any:
    if not isinstance(one, dict) or "input_schema" not in one:
        return one
    function = {"name": one.get("name"), "description": one.get("description"), "parameters": one["input_schema"]}
    return {"type": "function", "function": {key: said for key, said in function.items() if said is not None}}


def _responses(value: Mapping[str, Any]) -> Body:
    body = Body(0, "", RESPONSES, tools=_tools(value.get("tools")))
    for role, key in (("system", "instructions"), ("user", "input")):
        if isinstance(value.get(key), str):
            body.messages.append(BodyMessage(role, key, (BodyText(TEXT, key, value[key]),)))
    for number, one in enumerate(value["input"] if isinstance(value["input"], list) else ()):
        path, what, role = f"input[{number}]", one.get("type"), one.get("role")
        parts = content(one.get("content"), f"{path}.content") if what in (None, "message") else block(one, path)
        other = "tool" if str(what).endswith("_output") else "assistant"
        body.messages.append(BodyMessage(role if isinstance(role, str) else other, path, tuple(parts)))
    body.chat = [_plain_chat(one) for one in body.messages]
    return body


def _completions(value: Mapping[str, Any], place: str) -> list[Body]:
    """A prompt is a text, tokens, both in a list, or several of these."""
    prompt = value["prompt"]
    if isinstance(prompt, dict):
        prompts = [("prompt.prompt_string", prompt.get("prompt_string"))]
    elif isinstance(prompt, list) and all(isinstance(one, str | list | dict) for one in prompt):
        prompts = [(f"prompt[{number}]", one) for number, one in enumerate(prompt)]
    else:
        prompts = [("prompt", prompt)]
    form = f"native {COMPLETION}" if any(key in value for key in NATIVE) else COMPLETION
    return [Body(0, place, form, messages=[BodyMessage("", path, tuple(_raw(one, path, place)))])
            for path, one in prompts]  # fmt: skip


def _raw(prompt: Any, path: str, place: str) -> list[BodyText]:
    if isinstance(prompt, dict):
        prompt, path = prompt.get("prompt_string"), f"{path}.prompt_string"
    if isinstance(prompt, str):
        return [BodyText(TEXT, path, prompt)]
    if not isinstance(prompt, list):
        raise BadInput(f"{path} is neither text nor tokens", file=place)
    signs = [token_sign(one) for one in prompt]
    if all(signs):
        return [BodyText(TOKENS, path, "".join(signs))] if prompt else []
    parts = []
    for number, (one, sign) in enumerate(zip(prompt, signs, strict=True)):
        if not sign and not isinstance(one, str):
            raise BadInput(f"{path}[{number}] is neither text nor a token", file=place)
        parts.append(BodyText(TOKENS if sign else TEXT, f"{path}[{number}]", sign or one))
    return parts
