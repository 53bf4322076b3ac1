"""Bodies of every API in which some values have another shape: each is read, or refused as bad input."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.tools.request_bodies.api_forms import bodies_of
from cachesim.tools.request_bodies.body_files import bodies_in
from cachesim.tools.request_bodies.parsed_bodies import as_parsed
from cachesim.tools.watch.recent_bodies import RecentBodies

TURN = {"role": "user", "content": "a question"}
CALL = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
PROFILES = [engine.line[-1] for engine in ENGINES.values()]
TOOLS = [{"function": {"name": "f", "parameters": {}}}]
THOUGHT = {"type": "thinking", "thinking": "Hm."}
USE = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}
MEDIA = {"type": "media", "kind": "image", "text": "x"}
ITEMS = [{"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
         {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
         {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]}]  # fmt: skip
BLOCKS = {"role": "user", "content": [{"type": "tool_result", "content": "x"}, {"type": "text", "text": "y"}]}
FORMS = {
    "chat": {"messages": [TURN, {**CALL, "content": [{"type": "text", "text": "x"}, MEDIA]}], "tools": TOOLS},
    "anthropic": {"messages": [TURN, BLOCKS, {"role": "assistant", "content": [THOUGHT, USE]}], "system": "s",
                  "tools": [{"name": "f", "input_schema": {}}]},
    "responses": {"model": "m", "input": [TURN, *ITEMS, {"type": "function_call_output", "output": "x"}], "tools": []},
    "completion": {"prompt": "a question", "n_predict": 4},
    "several": {"prompt": ["a", [1, 2], {"prompt_string": "b", "multimodal_data": []}]},
    "ollama": {"prompt": "a", "images": ["aGk="]},
}
SHAPES = [None, True, 5, "text", [], [None], ["x"], [[]], [{}], {}, {"a": 1}]
KEYS = ("messages", "prompt", "input", "system", "instructions", "tools", "functions", "model", "images", "stream",
        "chat_template_kwargs", "lora")  # fmt: skip


def places(value, path=()):
    """Yield the paths of all values inside a body."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*path, key)
        yield from places(inner, (*path, key))


def changed(form, path, shape):
    """Return a copy of a body with another value at a path."""
    body = json.loads(json.dumps(form))
    holder = body
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = shape
    return body


@pytest.mark.parametrize("form", FORMS)
def test_a_body_with_a_value_of_another_shape_is_read_or_refused(form):
    own = [(path, shape) for path in places(FORMS[form]) for shape in SHAPES]
    added = [((key,), shape) for key in KEYS if key not in FORMS[form] for shape in SHAPES]
    for path, shape in itertools.chain(own, added):
        body = changed(FORMS[form], path, shape)
        with suppress(BadInput):
            read = bodies_of([*bodies_in(body, "place")])
            for profile in PROFILES:
                as_parsed(read, profile)
        with suppress(BadInput):
            RecentBodies().add("/v1/chat/completions", json.dumps(body).encode())


@pytest.mark.parametrize(("body", "form"), [
    ({"messages": 5, "prompt": "x"}, "completion"), ({"messages": {"a": 1}, "prompt": "x"}, "completion"),
    ({"messages": None, "system": "s", "prompt": "x"}, "completion"),
    ({"prompt": 5, "input": "x", "model": "m", "stream": True}, "responses"),
    ({"prompt": 5, "messages": [TURN]}, "chat completions"),
])  # fmt: skip
def test_the_api_is_that_of_the_prompt_that_has_its_shape(body, form):
    assert [one.form for one in bodies_of([*bodies_in(body, "place")])] == [form]
