"""Parameters that differ between two requests, and whether they matter to the cache."""

from __future__ import annotations

import pytest

from cachesim.tools.request_bodies.body import SHOWN, changed


@pytest.mark.parametrize("name, matters", [
    ("temperature", "no"), ("cache_prompt", "yes"), ("id_slot", "yes"), ("reasoning_effort", "perhaps"),
])  # fmt: skip
def test_a_field_that_differs_is_named_with_both_values(name, matters):
    [one] = changed({name: 1, "top_p": 0.5}, {name: "a", "top_p": 0.5})
    assert one == {"name": name, "value_before": "1", "value_after": '"a"', "matters": matters}


def test_a_missing_field_differs():
    assert changed({"a": 1}, {"b": True}) == [
        {"name": "a", "value_before": "1", "value_after": "", "matters": "unknown"},
        {"name": "b", "value_before": "", "value_after": "true", "matters": "unknown"}]  # fmt: skip


def test_bookkeeping_fields_are_ignored():
    assert changed({"user": "a", "stream": True, "metadata": {}}, {"user": "b", "stream": False}) == []


def test_long_names_and_values_are_truncated():
    [one] = changed({"n" * 99: "v" * (SHOWN - 2)}, {"n" * 99: "v" * (SHOWN - 1)})
    assert one["name"] == "n" * SHOWN and one["value_before"] == f'"{"v" * (SHOWN - 2)}"'
    assert one["value_after"] == f'"{"v" * (SHOWN - 4)}...' and len(one["value_after"]) == SHOWN
    assert [value["value_after"] for value in changed({}, {"a": [1], "b": {"c": 1}})] == ["list", "dict"]
