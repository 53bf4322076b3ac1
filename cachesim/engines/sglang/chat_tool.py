"""Tool definitions as SGLang's server hands them to the chat template.

Source: SGLang srt/entrypoints/openai/protocol.py Function, Tool (0.5.23; the classes were run on drawn definitions).
Earlier releases were not examined.
"""

from __future__ import annotations

from typing import Any, Mapping

FIELDS = ("description", "name", "parameters", "strict", "defer_loading")
"""Declared fields of a function, in the order of their declaration."""
OPTIONAL = frozenset({"strict", "defer_loading"})
"""Fields that are left out if they have no value."""


def parsed_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool definition in OpenAI's form. The type comes before the function, whose declared fields keep the
    client's order, followed by those that the client left out; every other field is dropped."""
    function = dict(tool["function"])
    if function.get("defer_loading") is None and tool.get("defer_loading") is not None:
        function["defer_loading"] = tool["defer_loading"]
    sent = [name for name in tool["function"] if name in FIELDS]
    names = [*sent, *(name for name in FIELDS if name not in sent)]
    written = {name: function.get(name) for name in names if name not in OPTIONAL or function.get(name) is not None}
    return {"type": "function", "function": written, "defer_loading": tool.get("defer_loading")}
