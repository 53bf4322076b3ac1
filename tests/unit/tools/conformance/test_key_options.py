"""Keys that `conform` is given, and prompts with images."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.protocol import RequestKey
from cachesim.tools.conformance.suite import _read_keys


@pytest.mark.parametrize("keys, read", [
    (["a", ""], (RequestKey("a", 0), RequestKey("", 0))),
    ([("a", 3), ("", 3)], (RequestKey("a", 3), RequestKey("", 0))),
    ((), ()),
])  # fmt: skip
def test_a_key_has_a_name_and_a_first_token(keys, read):
    assert _read_keys(keys) == read


@pytest.mark.parametrize("keys", ["a", [("a",)], [("a", 1, 2)], [(1, 1)], [("a", "1")], [("a", -1)], [5], None])
def test_other_keys_are_refused(keys):
    with pytest.raises(BadInput, match="keys: expected a list of texts"):
        _read_keys(keys)


def test_a_history_has_images_if_any_prompt_has_one():
    assert not parse_history("A2/A.B3").has_images
