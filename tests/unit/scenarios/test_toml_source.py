"""Scenario files as text: bounds before they are parsed."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.limits import NESTING
from cachesim.scenarios.toml_source import _depth, _parts, read_toml


@pytest.mark.parametrize("dotted, parts", [
    ("a", ("a",)), ("a.b", ("a", "b")), ('a."b.c".d', ("a", "b.c", "d")), ("'x y' . z", ("x y", "z")),
])  # fmt: skip
def test_a_dotted_key_has_parts_and_quotes_protect_them(dotted, parts):
    assert _parts(dotted) == parts


@pytest.mark.parametrize("value, depth", [
    (1, 0), ([], 0), ({}, 0), ([1], 1), ([1, [2]], 2), ({"a": {"b": [3]}}, 3), ([[], {"a": {}}], 2),
])  # fmt: skip
def test_values_have_the_depth_of_the_tables_and_lists_around_them(value, depth):
    assert _depth(value) == depth


def test_a_key_with_too_many_parts_is_refused_with_its_line(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text("x = 1\n" + "a." * (NESTING.now + 1) + "b = 2\n")
    with pytest.raises(BadInput) as bad:
        read_toml(file)
    assert (bad.value.file, bad.value.line) == (str(file), 2)
    file.write_text("a.b.c = 2\n")
    assert read_toml(file)[0] == {"a": {"b": {"c": 2}}}


def test_values_that_are_nested_too_deep_are_refused(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text(f"x = {'[' * (NESTING.now - 1)}{']' * (NESTING.now - 1)}\n")
    assert _depth(read_toml(file)[0]) == NESTING.now - 1
    file.write_text(f"x = {'[' * NESTING.now}1{']' * NESTING.now}\n")
    with pytest.raises(BadInput, match="nested"):
        read_toml(file)
