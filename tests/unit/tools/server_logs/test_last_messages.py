"""Last messages of bodies in a log, lengths of answers, and names of words."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace

import pytest

from cachesim.tools.server_logs.log_causes import _said
from cachesim.tools.server_logs.reconstruct import _answer_length
from cachesim.tools.server_logs.slot_contents import word_names


@pytest.mark.parametrize("body, said", [
    ({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, [("assistant", "b")]),
    ({"messages": [{"content": "b"}]}, [("message", "b")]),
    ({"messages": [{"role": "user", "content": [{"text": "a"}, {"image": 1}, "x", {"text": 2}, {"text": "b"}]}]},
     [("user", "a b")]),
    ({"messages": [{"role": "user", "content": ""}]}, []), ({"messages": ["x"], "prompt": "p"}, [("prompt", "p")]),
    ({"messages": [], "prompt": "p"}, [("prompt", "p")]), ({"prompt": ""}, []), ({"prompt": [1]}, []), ("text", []),
])  # fmt: skip
def test_the_last_message_of_a_body_or_its_prompt(body, said):
    assert [*_said(body)] == said


@pytest.mark.parametrize("fields, length", [
    ({"predicted_n": 7}, 7), ({}, 5), ({"end": None}, 1), ({"truncated": True}, 1), ({"is_cancelled": True}, 1),
    ({"shifts": 1}, 1), ({"end": 50}, 1),
])  # fmt: skip
def test_an_answer_has_the_printed_length_or_what_the_slot_held_after_the_prompt(fields, length):
    logged = {"predicted_n": None, "end": 104, "truncated": False, "is_cancelled": False, "shifts": 0, **fields}
    assert _answer_length(SimpleNamespace(**logged), 100) == length


def test_words_are_named_by_letters():
    assert [*islice(word_names(), 28)][::9] == ["A", "J", "S", "AB"]
