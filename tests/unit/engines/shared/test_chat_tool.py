"""Tool definitions as llama.cpp writes them again: the expected texts are those of ``POST /apply-template`` of b11549,
with a template that prints ``tools | tojson``."""

from __future__ import annotations

import json

import pytest

from cachesim.engines.shared.chat_tool import parsed_tool

SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}, "required": ["b"]}
WHOLE = ('{"type": "function", "function": {"name": "w", "description": "d", "parameters": {"type": "object", '
         '"properties": {"b": {"type": "string"}, "a": {"type": "integer"}}, "required": ["b"]}}}')  # fmt: skip


@pytest.mark.parametrize(("tool", "written"), [
    ({"type": "function", "function": {"name": "w", "description": "d", "parameters": SCHEMA, "strict": True}}, WHOLE),
    ({"function": {"parameters": SCHEMA, "description": "d", "name": "w"}, "type": "function"}, WHOLE),
    ({"type": "function", "function": {"name": "w"}, "cache_control": {"type": "ephemeral"}},
     '{"type": "function", "function": {"name": "w", "description": "", "parameters": {}}}'),
], ids=["strict is dropped", "another order of keys", "only a name"])  # fmt: skip
def test_a_tool_is_written_as_the_real_server_writes_it(tool, written):
    assert json.dumps(parsed_tool(tool)) == written
