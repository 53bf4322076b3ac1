"""Scenario files as text: bounds before they are parsed."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.limits import NESTING
from cachesim.scenarios.toml_source import read_toml


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
    read_toml(file)
    file.write_text(f"x = {'[' * NESTING.now}1{']' * NESTING.now}\n")
    with pytest.raises(BadInput, match="nested"):
        read_toml(file)
