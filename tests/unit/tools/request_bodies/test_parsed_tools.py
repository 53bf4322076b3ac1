"""Definitions of tools whose form a server undoes: no change of the prompt, and no cause."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cachesim.cli.main import main
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body_files import FoundBody
from cachesim.tools.request_bodies.changed_tools import KEYS
from cachesim.tools.request_bodies.parsed_tools import as_parsed

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}}
FUNCTION = {"name": "weather", "description": "Weather of a city", "parameters": SCHEMA}
TOOL = {"type": "function", "function": FUNCTION}
TURNED = {"function": {name: FUNCTION[name] for name in reversed(FUNCTION)}, "type": "function"}
TURNED_OUTSIDE = {"function": FUNCTION, "type": "function"}
TURNED_SCHEMA = {"type": "function", "function": {**FUNCTION, "parameters": dict(reversed(SCHEMA.items()))}}


def chat(tool: Any, *turns: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": "You are helpful. " * 40}, {"role": "user", "content": "Hello. " * 30}]
    roles = ("assistant", "user")
    messages += [{"role": roles[number % 2], "content": text} for number, text in enumerate(turns)]
    return {"messages": messages, "tools": [tool]}


def causes(path, capsys, tools: list[Any], *options: str) -> list[str]:
    """Return the causes of a loss that ``import`` finds in a conversation whose requests have these tools."""
    bodies = [chat(tool, *(["Yes.", "More."] * number)) for number, tool in enumerate(tools)]
    file = path / "bodies.jsonl"
    file.write_text("\n".join(map(json.dumps, bodies)), "utf-8")
    main(["import", str(file), "--json", *options])
    found = json.loads(capsys.readouterr().out)["bodies"]["causes"]
    return [cause["cause"] for cause in found if not cause["harmless"]]


@pytest.mark.parametrize("profile", ["llama_cpp", "ik_llama", "vllm"])
def test_an_order_of_keys_that_the_server_undoes_is_no_cause(profile, tmp_path, capsys):
    assert causes(tmp_path, capsys, [TOOL, TURNED, TOOL], "-p", profile) == []


def test_sglang_undoes_the_order_around_a_function_and_keeps_the_order_within(tmp_path, capsys):
    assert causes(tmp_path, capsys, [TOOL, TURNED_OUTSIDE, TOOL], "-p", "sglang") == []
    assert causes(tmp_path, capsys, [TOOL, TURNED, TOOL], "-p", "sglang") == [KEYS]


def test_a_server_that_hands_tools_on_as_they_are_sees_their_order(tmp_path, capsys):
    assert causes(tmp_path, capsys, [TOOL, TURNED_OUTSIDE, TOOL], "-p", "mlx_lm") == [KEYS]


@pytest.mark.parametrize("profile", ["llama_cpp", "vllm"])
def test_the_order_of_keys_in_a_schema_is_a_cause_everywhere(profile, tmp_path, capsys):
    assert causes(tmp_path, capsys, [TOOL, TURNED_SCHEMA, TOOL], "-p", profile) == [KEYS]


@pytest.mark.parametrize(("tool", "written"), [
    ({"name": "w", "strict": True, "type": "function"},
     {"type": "function", "name": "w", "description": "", "parameters": {}}),
    ({"type": "web_search", "name": "w"}, {"type": "web_search", "name": "w"}),
    ({"type": "function", "function": {"description": "no name"}},
     {"type": "function", "function": {"description": "no name"}}),
    ("not a tool", "not a tool"),
], ids=["responses API", "another kind", "no name", "no object"])  # fmt: skip
def test_only_functions_of_a_known_form_are_written_again(tool, written):
    [body] = as_parsed(bodies_of([FoundBody("x", {"input": "hi", "tools": [tool]})]), "llama_cpp@b11549")
    assert body.tools == [("tools[0]", written)]
