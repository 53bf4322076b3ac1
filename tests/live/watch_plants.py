"""Conversations with a planted change in their third request, whose cause ``watch`` must name."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any, Callable

Messages = list[dict[str, Any]]
RESULT = "total 3\n" + "".join(f"entry {number} of the folder\n" for number in range(8))
"""Result of a tool. Call and result contain the conversation's words, because equal ones would connect two of them."""
SYSTEM = ("You are a careful helper for case {n}, {word}.\nDate: 2026-03-04 10:00\nSession: req_{n:06x}ab\n"
          "Tokens used: 1200\nMain branch, working directory:\n M alpha.py")  # fmt: skip
BILLING = "x-anthropic-billing-header: cc_version=2.1; cch=ab12;\n"
LETTERS = "abcdefghijklmnopqrst"


def tool(name: str) -> dict[str, Any]:
    """Return a tool definition."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return {"type": "function", "function": {"name": name, "description": f"the {name} tool", "parameters": schema}}


def opening(n: int, cause: str) -> tuple[Messages, list[dict[str, Any]]]:
    """Return messages and tools of the first request of conversation ``n``."""
    drawn = Random(n)                    # conversations share few words, as those of several users
    word = " ".join("".join(drawn.choices(LETTERS, k=6)) for _ in range(12))
    system = SYSTEM.format(n=n, word=word)
    first = {"role": "assistant", "content": f"The answer  about {word} is known."}
    if cause != "reasoning added":
        first["reasoning_content"] = f"Let me think about {word}."
    messages: Messages = [
        {"role": "system", "content": (BILLING if cause == "billing header" else "") + system},
        {"role": "user", "content": f"What do you know about {word}, please?"}, first,
        {"role": "user", "content": f"List the folder of {word}."},
    ]  # fmt: skip
    if cause in ("pruned", "tool result"):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "list", "arguments": f'{{"path": "{word}"}}'}}
        messages += [{"role": "assistant", "content": "", "tool_calls": [call]},
                     {"role": "tool", "tool_call_id": f"c{n}", "content": RESULT + word},
                     {"role": "user", "content": f"And now about {word}?"}]  # fmt: skip
    return messages, [tool("list"), tool("read")] if "tool" in cause.split() or cause in TOOLS else []


TOOLS = ("order of tools", "order of keys", "tools", "a tool")


def _replace(place: int, old: str, new: str) -> Callable[[Messages], Messages]:
    def changed(messages: Messages) -> Messages:
        assert old in messages[place]["content"]
        messages[place]["content"] = messages[place]["content"].replace(old, new)
        return messages

    return changed


def _reasoning(text: str | None) -> Callable[[Messages], Messages]:
    def changed(messages: Messages) -> Messages:
        messages[2].pop("reasoning_content", None)
        return messages if text is None else [*messages[:2], {**messages[2], "reasoning_content": text}, *messages[3:]]

    return changed


def _inserted(messages: Messages) -> Messages:
    pair = [{"role": "user", "content": "One more thing first."}, {"role": "assistant", "content": "Yes, go on."}]
    return [messages[0], *pair, *messages[1:]]


def _summary(messages: Messages) -> Messages:
    about = messages[1]["content"].split()[6:9]
    said = {"role": "user", "content": f"Summary of the conversation so far: all about {' '.join(about)} is known."}
    return [messages[0], said, messages[-1]]


CHANGES: dict[str, Callable[[Messages], Messages]] = {
    "date": _replace(0, "10:00", "10:01"), "id": _replace(0, "ab\n", "cd\n"),
    "billing header": _replace(0, "cch=ab12", "cch=cd34"), "listing": _replace(0, "alpha.py", "gamma.py"),
    "counter": _replace(0, "1200", "1350"), "whitespace": _replace(2, "answer  about", "answer about"),
    "reasoning removed": _reasoning(None), "reasoning added": _reasoning("So it is."),
    "reasoning changed": _reasoning("Quite another thought."), "truncated": lambda m: [m[0], *m[3:]],
    "inserted": _inserted, "summary": _summary, "pruned": _replace(5, RESULT, "[cleared] "),
    "tail": lambda m: [*m[:-3], {**m[-3], "content": m[-3]["content"].partition("\n")[0]}, *m[-2:]],
    "edited": _replace(1, "What do you know", "What do we know"), "answer": _replace(2, "is known", "is unknown"),
    "tool result": _replace(5, "entry 2", "entry two"), "system prompt": _replace(0, "careful", "bold"),
    **dict.fromkeys(TOOLS, lambda m: m), "extends": lambda m: m,
}  # fmt: skip
"""Cause -> the change to the messages of the third request."""


def changed_tools(cause: str, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools of the third request."""
    tools = deepcopy(tools)
    if cause == "order of tools":
        return tools[::-1]
    if cause == "order of keys":
        for one in tools:
            one["function"]["parameters"] = dict(reversed(one["function"]["parameters"].items()))
        return tools
    if cause == "tools":
        return [*tools, tool("write")]
    if cause == "a tool":
        tools[0]["function"]["description"] = "another tool"
    return tools
