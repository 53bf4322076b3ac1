"""Keys that `conform` is given, and prompts with images."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance import conform
from cachesim.tools.conformance.client_history import parse_history
from tests.conformance.naive import NaiveCache


def test_a_history_has_images_if_any_prompt_has_one():
    assert not parse_history("A2/A.B3").has_images


@pytest.mark.parametrize("keys", ["a", [("a",)], [("a", 1, 2)], [(1, 1)], [("a", "1")], [("a", -1)], [5], None])
def test_keys_are_texts_or_pairs_of_a_text_and_a_first_token(keys):
    with pytest.raises(BadInput, match="keys"):
        conform(NaiveCache, keys=keys)


@pytest.mark.parametrize(("keys", "sent"), [
    (["a", ""], {("a", 0), ("", 0)}), ([("a", 3), ("", 3)], {("a", 3), ("", 0)}),
])  # fmt: skip
def test_requests_are_sent_under_the_given_keys(keys, sent):
    seen = set()

    class Keyed(NaiveCache):
        def complete(self, prompt, n_predict=1, key="", key_start=0):
            seen.add((key, key_start))
            return super().complete(prompt, n_predict)

    conform(Keyed, keys=keys, max_examples=1, only=["same"], check=False)
    assert seen == sent | {("", 0)}
