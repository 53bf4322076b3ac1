"""Changes of tool definitions, and of the first entries of a history."""

from __future__ import annotations

import copy

import pytest

from cachesim.tools.request_bodies.changed_tools import KEYS, LIST, ONE, ORDER, name_of, tools_change
from tests.unit.tools.request_bodies.made import TOOLS


def change(old, new):
    return tools_change([("", tool) for tool in old], [("", tool) for tool in new])


def described(tool, text):
    other = copy.deepcopy(tool)
    other["function"]["description"] = text
    return other


def reordered(tool):
    return {**tool, "function": dict(reversed(tool["function"].items()))}


@pytest.mark.parametrize("new, found", [
    (TOOLS, ("", "")), (TOOLS[::-1], (ORDER, "")), ([reordered(TOOLS[0]), *TOOLS[1:]], (KEYS, "")),
    ([described(TOOLS[0], "other"), *TOOLS[1:]], (ONE, "read")), (TOOLS[:2], (LIST, "removed run")),
    ([*TOOLS, {"type": "function", "function": {"name": "new"}}], (LIST, "added new")),
    ([*TOOLS[:2], {"type": "function", "function": {"name": "new"}}], (LIST, "added new, removed run")),
])  # fmt: skip
def test_a_change_of_tools_has_its_kind_and_names(new, found):
    assert change(TOOLS, new) == found


def named(*names):
    return [{"name": name} for name in names]


@pytest.mark.parametrize(("old", "new", "found"), [
    ([{"required": ["a", "b"], "name": "f"}], [{"required": ["b", "a"], "name": "f"}], (KEYS, "f")),
    ([{"enum": [{"b": [1, 2]}], "name": "f"}], [{"enum": [{"b": [2, 1]}], "name": "f"}], (KEYS, "f")),
    ([{"enum": [1, 1], "name": "f"}], [{"enum": [1, 2], "name": "f"}], (ONE, "f")),
    (named("a"), named("a", "a"), (LIST, "added a")), (named("b", "a", "c"), named("c"), (LIST, "removed a, b")),
    (named(), named("a", "b", "c", "d"), (LIST, "added a, b, c, d")),
    (named(), named("a", "b", "c", "d", "e"), (LIST, "added a, b, c, d, ... (5)")),
    (named("a"), named("b"), (LIST, "added b, removed a")), (["x"], ["y"], (ONE, "?")), ([5], [], (LIST, "removed ?")),
    ([{"name": "a", "n": 1}, {"name": "b"}], [{"name": "b"}, {"name": "a", "n": 2}], (ONE, "a")), ([], [], ("", "")),
])  # fmt: skip
def test_changed_lists_names_and_definitions(old, new, found):
    assert change(old, new) == found


@pytest.mark.parametrize(("tool", "name"), [
    ({"function": {"name": "f"}, "name": "g"}, "f"), ({"function": {}, "name": "g"}, "?"), ({"name": "g"}, "g"),
    ({"function": "f", "type": "web"}, "web"), ({"name": "g", "type": "web"}, "g"), ({"name": 5}, "?"), ({}, "?"),
    ("f", "?"), (None, "?"),
])  # fmt: skip
def test_a_tool_has_the_name_of_its_format(tool, name):
    assert name_of(tool) == name
