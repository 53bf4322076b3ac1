"""Parts of a message as a template receives them."""

from __future__ import annotations

import pytest

from cachesim.tools.request_bodies.message_content import arguments


@pytest.mark.parametrize("value, found", [
    ('{"a": [1, null]}', {"a": [1, None]}), ("3", 3), ({"a": 1}, {"a": 1}), (None, None), ("{broken", "{broken"),
    ("", ""), ("[" * 100_000, "[" * 100_000), ("1" * (1 << 20), "1" * (1 << 20)),
], ids=lambda value: str(value)[:12])  # fmt: skip
def test_arguments_are_parsed_if_they_are_json(value, found):
    assert arguments(value) == found
