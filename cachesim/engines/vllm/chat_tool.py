"""Tool definitions as vLLM's server hands them to the chat template.

Source: vLLM entrypoints/openai FunctionDefinition, ChatCompletionToolsParam, ``tool.model_dump()`` (0.33.0, read). The
models allow further fields, which follow the declared ones.
"""

from __future__ import annotations

from typing import Any, Mapping


def parsed_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool definition in OpenAI's form with its declared fields first. Keys within ``parameters`` keep their
    order."""
    function = tool["function"]
    declared = {
        "name": function.get("name"),
        "description": function.get("description"),
        "parameters": function.get("parameters"),
    }
    return {"type": "function", "function": {**declared, **function}, **tool_extras(tool)}


def tool_extras(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a tool beside its type and its function."""
    return {name: value for name, value in tool.items() if name not in ("type", "function")}
