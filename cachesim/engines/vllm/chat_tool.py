"""Tool definitions as vLLM's server hands them to the chat template.

Source: vLLM entrypoints/generate/base/protocol.py FunctionDefinition, entrypoints/openai/chat_completion/protocol.py
ChatCompletionToolsParam (0.33.0; the classes were run on drawn definitions). Earlier releases were not examined.
"""

from __future__ import annotations

from typing import Any, Mapping


def parsed_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool definition in OpenAI's form with its declared fields in their order; every other field is dropped.
    Keys within ``parameters`` keep their order."""
    function = tool["function"]
    deferred = function.get("defer_loading")
    if deferred is None:
        deferred = tool.get("defer_loading")
    written = {
        "name": function.get("name"),
        "description": function.get("description"),
        "parameters": function.get("parameters"),
    }
    if function.get("strict") is not None:
        written["strict"] = function["strict"]
    if deferred is not None:
        written["defer_loading"] = deferred
    found: dict[str, Any] = {"type": "function", "function": written}
    if tool.get("defer_loading") is not None:
        found["defer_loading"] = tool["defer_loading"]
    return found
