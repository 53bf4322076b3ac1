"""Tool definitions as SGLang's server hands them to the chat template.

Source: SGLang entrypoints/openai/protocol.py Function, ``item.function.model_dump()`` (0.5.23, read).
"""

from __future__ import annotations

from typing import Any, Mapping


def parsed_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool definition in OpenAI's form with the declared fields in their order; every other field is dropped.
    Keys within ``parameters`` keep their order."""
    function = tool["function"]
    return {
        "type": "function",
        "function": {
            "description": function.get("description"),
            "name": function.get("name"),
            "parameters": function.get("parameters"),
            "strict": function.get("strict", False),
        },
    }
