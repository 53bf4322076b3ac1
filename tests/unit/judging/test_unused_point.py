"""A stored object that a request did not use, in a sentence."""

from __future__ import annotations

import pytest

from cachesim.engines.point_kinds import CONVERSATION, RUNNING
from cachesim.judging.unused_point import UnusedPoint

POINT = {"kind": CONVERSATION, "slot": -1, "tokens": 68, "shared": 45, "usable": 0, "obstacle": ""}


@pytest.mark.parametrize("fields, text", [
    ({}, f"still stored: {CONVERSATION} of 68 tokens, 45 shared with this prompt; not usable"),
    ({"obstacle": "too long"},
     f"still stored: {CONVERSATION} of 68 tokens, 45 shared with this prompt; not usable (too long)"),
    ({"usable": 40, "slot": 2},
     f"still stored: {CONVERSATION} in slot 2 of 68 tokens, 45 shared with this prompt; "
     "usable after 40 tokens, but not used"),
    ({"kind": RUNNING, "slot": 0, "tokens": 1},
     "still stored: slot 0 with 1 token, 45 shared with this prompt; not usable"),
])  # fmt: skip
def test_the_object_and_the_obstacle_are_named(fields, text):
    assert UnusedPoint(**{**POINT, **fields}).text == text
