"""Tool definitions of request bodies as a server writes them again before it renders the chat template.

A server parses the definitions of a body: the order of their keys, outside the schema of the parameters, and fields
that it does not know change nothing in the prompt.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Mapping, Sequence

from cachesim.engines.registry import engine_of
from cachesim.tools.request_bodies.body import Body

ChatTool = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def as_parsed(bodies: Sequence[Body], profile: str) -> list[Body]:
    """Return the bodies with the tool definitions that the server of a profile hands to its template."""
    chat_tool = engine_of(profile).chat_tool
    if chat_tool is None:
        return list(bodies)
    return [_parsed(body, chat_tool) for body in bodies]


def _parsed(body: Body, chat_tool: ChatTool) -> Body:
    return replace(body, tools=[(path, _definition(tool, chat_tool)) for path, tool in body.tools])


def _definition(tool: Any, chat_tool: ChatTool) -> Any:
    """Return a tool definition as the server writes it; one in no known form as it is. The responses API has the fields
    of the function beside the type."""
    if not isinstance(tool, dict):
        return tool
    function = tool.get("function")
    if isinstance(function, dict) and isinstance(function.get("name"), str):
        return chat_tool(tool)
    if function is None and isinstance(tool.get("name"), str) and tool.get("type", "function") == "function":
        fields = {name: value for name, value in tool.items() if name != "type"}
        return {"type": "function", **chat_tool({"type": "function", "function": fields})["function"]}
    return tool
