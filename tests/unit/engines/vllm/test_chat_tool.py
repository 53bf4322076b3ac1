"""Tool definitions as vLLM dumps them: declared fields first, then the others."""

from __future__ import annotations

import json

from cachesim.engines.vllm.chat_tool import parsed_tool


def test_declared_fields_come_first_and_others_are_kept():
    tool = {"x": 1, "function": {"strict": True, "parameters": {"b": 1, "a": 2}, "name": "w"}, "type": "function"}
    assert json.dumps(parsed_tool(tool)) == (
        '{"type": "function", "function": {"name": "w", "description": null, "parameters": {"b": 1, "a": 2}, '
        '"strict": true}, "x": 1}'
    )
