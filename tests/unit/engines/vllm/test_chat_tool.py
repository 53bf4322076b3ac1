"""Tool definitions as vLLM dumps them: expected texts are those of the classes of 0.33.0."""

from __future__ import annotations

import json

from cachesim.engines.vllm.chat_tool import parsed_tool


def test_declared_fields_are_written_in_their_order_and_others_dropped():
    tool = {"x": 1, "function": {"y": 2, "strict": True, "parameters": {"b": 1, "a": 2}, "name": "w"}}
    assert json.dumps(parsed_tool(tool)) == (
        '{"type": "function", "function": {"name": "w", "description": null, "parameters": {"b": 1, "a": 2}, '
        '"strict": true}}'
    )


def test_a_deferred_tool_has_a_deferred_function():
    found = parsed_tool({"type": "function", "function": {"name": "w"}, "defer_loading": True})
    assert found["function"]["defer_loading"] is found["defer_loading"] is True
