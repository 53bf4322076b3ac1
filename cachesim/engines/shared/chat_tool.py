"""Tool definitions as llama.cpp's parser of chat bodies writes them for the chat template.

Source: llama.cpp common/chat.cpp common_chat_tools_parse_oaicompat and common_chat_tools_to_json_oaicompat (b11549,
compared with ``POST /apply-template``). ik_llama.cpp's functions (read) write the same fields, and refuse a definition
without a description or parameters.
"""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.engines.shared.chat_message import as_written


def parsed_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool definition in OpenAI's form as the template receives it: name, description and parameters, in this
    order; every other field is dropped. Keys within ``parameters`` keep their order."""
    function = tool["function"]
    return {
        "type": "function",
        "function": {
            "name": function.get("name"),
            "description": function.get("description", ""),
            "parameters": as_written(function.get("parameters", {})),
        },
    }
