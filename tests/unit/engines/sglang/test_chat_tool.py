"""Tool definitions as SGLang dumps them: declared fields alone."""

from __future__ import annotations

import json

from cachesim.engines.sglang.chat_tool import parsed_tool


def test_only_declared_fields_are_kept_in_their_order():
    tool = {"x": 1, "function": {"y": 2, "parameters": {"b": 1, "a": 2}, "name": "w"}, "type": "function"}
    assert json.dumps(parsed_tool(tool)) == (
        '{"type": "function", "function": {"description": null, "name": "w", "parameters": {"b": 1, "a": 2}, '
        '"strict": false}}'
    )
