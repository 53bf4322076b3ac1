"""Histories as real kinds of clients send them: each function returns the bodies of a conversation that only grows."""

from __future__ import annotations

import copy
import json
from typing import Any

RULES = "You are a careful assistant for a small code base. Answer briefly and do what is asked of you. " * 4
TASKS = ("Fix the parser of the settings file, please.", "Now write a test that shows the fault.",
         "Run all tests and tell me the result.", "Commit it with a clear message.")  # fmt: skip
ANSWERS = ("The parser skipped the last line; it reads it now.", "The test is in test_settings.py; it failed before.",
           "All 214 tests pass, in 3.1 seconds.", "It is committed.")  # fmt: skip
PICTURES = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ", "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAAB")

TOOLS = [
    {"type": "function", "function": {
        "name": name, "description": f"{name} in the working directory", "parameters": {
            "type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
            "required": ["path"]}}}
    for name in ("read_file", "edit_file", "run_tests")
]  # fmt: skip

Body = dict[str, Any]


def growing(body: Body, key: str, sizes: list[int]) -> list[Body]:
    """Return copies of a body with the first entries of its history."""
    return [copy.deepcopy({**body, key: body[key][:size]}) for size in sizes]


def chat() -> list[Body]:
    """A plain chat: system prompt, questions and answers."""
    messages = [{"role": "system", "content": RULES}]
    for task, answer in zip(TASKS, ANSWERS, strict=True):
        messages += [{"role": "user", "content": task}, {"role": "assistant", "content": answer}]
    return growing({"model": "m", "messages": messages, "stream": True, "temperature": 0.2}, "messages", [2, 4, 6, 8])


def agent() -> list[Body]:
    """A coding agent over chat completions: reasoning, tool calls with ids, tool results."""
    messages: list[Body] = [{"role": "system", "content": RULES}, {"role": "user", "content": TASKS[0]}]
    for number, path in enumerate(("settings.py", "parser.py", "test_settings.py")):
        call = {"id": f"call_{number}a7", "type": "function", "function": {
            "name": "read_file", "arguments": json.dumps({"path": path})}}  # fmt: skip
        messages += [
            {"role": "assistant", "content": "", "reasoning_content": f"I look at {path} now.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": f"# {path}\n" + f"line of {path}\n" * 12},
        ]
    body = {"model": "m", "messages": messages, "tools": TOOLS, "tool_choice": "auto", "parallel_tool_calls": True}
    return growing(body, "messages", [2, 4, 6, 8])


def anthropic() -> list[Body]:
    """An agent over Anthropic's API: thinking with signatures, tool use, results, cache marks."""
    messages: list[Body] = [{"role": "user", "content": [{"type": "text", "text": TASKS[0]}]}]
    for number, path in enumerate(("settings.py", "parser.py", "test_settings.py")):
        messages += [
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": f"First {path}.", "signature": f"sig{number}"},
                {"type": "tool_use", "id": f"toolu_{number}", "name": "read_file", "input": {"path": path}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_{number}",
                                          "content": f"# {path}\n" + f"line of {path}\n" * 12}]},
        ]  # fmt: skip
    tools = [{"name": one["function"]["name"], "description": one["function"]["description"],
              "input_schema": one["function"]["parameters"]} for one in TOOLS]  # fmt: skip
    body = {"model": "m", "max_tokens": 512, "system": [{"type": "text", "text": RULES}], "messages": messages,
            "tools": tools, "thinking": {"type": "enabled", "budget_tokens": 1024}}  # fmt: skip
    return growing(body, "messages", [1, 3, 5, 7])


def pictures() -> list[Body]:
    """A chat with parts: texts and images."""
    messages: list[Body] = [{"role": "system", "content": RULES}]
    for number, (task, answer) in enumerate(zip(TASKS, ANSWERS, strict=True)):
        parts: list[Body] = [{"type": "text", "text": task}]
        if number < len(PICTURES):
            parts.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURES[number]}"}})
        messages += [{"role": "user", "content": parts}, {"role": "assistant", "content": answer}]
    return growing({"model": "m", "messages": messages, "max_tokens": 99}, "messages", [2, 4, 6, 8])


def responses() -> list[Body]:
    """An agent over the responses API: items of several types."""
    items: list[Body] = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": TASKS[0]}]}]
    for number, path in enumerate(("settings.py", "parser.py", "test_settings.py")):
        items += [
            {"type": "function_call", "call_id": f"fc_{number}", "name": "read_file",
             "arguments": json.dumps({"path": path})},
            {"type": "function_call_output", "call_id": f"fc_{number}", "output": f"line of {path}\n" * 12},
        ]  # fmt: skip
    body = {"model": "m", "instructions": RULES, "input": items, "reasoning": {"effort": "low"}, "store": False,
            "tools": [{"type": "function", **one["function"]} for one in TOOLS]}  # fmt: skip
    return growing(body, "input", [1, 3, 5, 7])


def named() -> list[Body]:
    """A chat of several people: messages with names, template options."""
    bodies = chat()
    for body in bodies:
        body["chat_template_kwargs"] = {"enable_thinking": False}
        for message in body["messages"][1::2]:
            message["name"] = "ada"
    return bodies


def story() -> list[Body]:
    """A raw prompt of a story-telling client: a growing list of lines."""
    lines = [f"Ada: what happens in part {number} of the tale?\nBot: part {number} tells of ship {number * 7}.\n"
             for number in range(8)]  # fmt: skip
    prompts = [f"{RULES}\n{''.join(lines[:size])}" for size in (3, 4, 5, 6)]
    return [{"prompt": prompt, "n_predict": 40, "temperature": 0.8} for prompt in prompts]


SHAPES = {function.__name__: function for function in (chat, agent, anthropic, pictures, responses, named, story)}
