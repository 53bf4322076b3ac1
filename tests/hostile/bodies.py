"""Mutated request bodies of every API, single, as JSON lines and in a HAR file."""

from __future__ import annotations

import json

from tests.hostile.written import flipped, to_json

CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
TOOL = {"type": "function", "function": {"name": "read", "description": "reads", "parameters": {
    "type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}}  # fmt: skip
USER = {"role": "user", "content": "read it, please"}
AGENT = {"role": "assistant", "content": None, "tool_calls": [CALL]}
BODIES = (
    {"model": "m", "messages": [{"role": "system", "content": "It is 10:00 now."}, USER], "tools": [TOOL]},
    {"model": "m", "messages": [{"role": "system", "content": "It is 10:01 now."}, USER, AGENT,
                                {"role": "tool", "tool_call_id": "call_1", "content": "text"}], "tools": [TOOL]},
    {"messages": [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nyes", "reasoning": "so"}, USER]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {
        "url": "data:image/png;base64,AAAA"}}]}], "chat_template_kwargs": {"enable_thinking": False}},
    {"system": [{"type": "text", "text": "x-anthropic-billing-header: cch=fa690;"}], "max_tokens": 4, "messages": [
        USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "tool_use", "id": "i",
                                                                                      "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "content": [{"type": "text",
                                                                                            "text": "r"}]}]}]},
    {"model": "m", "instructions": "help", "input": [{"role": "user", "content": [{"type": "input_text", "text": "u"}]},
                                                     {"type": "function_call_output", "call_id": "c", "output": "o"}]},
    {"prompt": "once upon a time 2026-11-21", "n_predict": 4},
    {"prompt": [1, 2, 3, 4], "lora": [{"id": 0, "scale": 0.5}]},
    {"prompt": ["a", 5, "b"]}, {"prompt": {"prompt_string": "a", "multimodal_data": ["AAAA"]}},
)  # fmt: skip
ANSWER = {"choices": [{"message": {"role": "assistant", "reasoning_content": "hm", "content": "yes"}}]}


def bent_bodies(rng, mutated):
    """Return file name and bytes of a mutant. ``mutated`` changes a tree."""
    some = [json.loads(json.dumps(one)) for one in rng.choices(BODIES, k=rng.randrange(1, 5))]
    if rng.random() < 0.5:                       # continue a conversation
        some.append({**some[-1], "temperature": 0.1})
    at = rng.randrange(len(some))
    how = rng.randrange(4)
    whole = {"one.json": some[at], "all.json": some, "all.har": {"log": {"entries": [
        {"request": {"url": "/v1/messages", "postData": {"text": json.dumps(one)}}, "response": {
            "content": {"text": json.dumps(ANSWER)}}} for one in some]}}}  # fmt: skip
    if how == 3:
        some[at] = mutated(some[at], rng, {"x": list(BODIES)})
        name, data = "all.jsonl", "\n".join(map(to_json, some))
    else:
        name = list(whole)[how]
        data = to_json(mutated(whole[name], rng, {"x": list(BODIES)}))
    text = data.encode("utf-8", "surrogatepass")
    return name, flipped(text, rng) if rng.random() < 0.15 else text

