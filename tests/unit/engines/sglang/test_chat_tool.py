"""Tool definitions as SGLang dumps them: expected texts are those of the classes of 0.5.23."""

from __future__ import annotations

import json

from cachesim.engines.sglang.chat_tool import parsed_tool


def test_fields_of_the_function_keep_the_order_of_the_client():
    tool = {"x": 1, "function": {"y": 2, "parameters": {"b": 1, "a": 2}, "name": "w"}, "type": "function"}
    assert json.dumps(parsed_tool(tool)) == (
        '{"type": "function", "function": {"parameters": {"b": 1, "a": 2}, "name": "w", "description": null}, '
        '"defer_loading": null}'
    )


def test_a_deferred_tool_has_a_deferred_function():
    found = parsed_tool({"type": "function", "function": {"name": "w", "strict": None}, "defer_loading": True})
    assert found["function"] == {"name": "w", "description": None, "parameters": None, "defer_loading": True}
