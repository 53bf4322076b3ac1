"""A stored object that a request did not use, in a sentence."""

from __future__ import annotations

import pytest

from cachesim.engines.point_kinds import CONVERSATION, RUNNING
from cachesim.judging import unused_point
from cachesim.judging.restore_point_index import KnownPoint
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


def inspector(prompt, reused):
    made = object.__new__(unused_point._Inspector)
    made.prompt, made.reused = tuple(range(prompt)), reused
    made._obstacle = lambda key, tokens, most: f"{key[0]} of {len(tokens)} up to {most}"
    return made


@pytest.mark.parametrize(("prompt", "reused", "shared", "ends", "usable", "obstacle"), [
    (20, 0, 9, [(4, 4), (8, 8)], 8, "entry of 12 up to 9"), (20, 0, 9, [(8, 8), (4, 4)], 8, "entry of 12 up to 9"),
    (20, 8, 9, [(8, 8)], 0, "entry of 12 up to 9"), (20, 7, 9, [(8, 8)], 8, "entry of 12 up to 9"),
    (20, 0, 9, [(1, 12)], 9, ""), (9, 0, 9, [(1, 12)], 8, ""), (20, 0, 9, [(10, 12)], 0, "entry of 12 up to 9"),
    (20, 0, 9, [(9, 9), (4, 4)], 9, ""), (20, 0, 9, [], 0, "entry of 12 up to 9"),
])  # fmt: skip
def test_the_longest_usable_length_within_the_shared_tokens_counts(prompt, reused, shared, ends, usable, obstacle):
    """The last token of a prompt is always evaluated; a length that the request reused anyway is not useful."""
    known = [KnownPoint(0, (), "entry", None, lo, hi, 1, 0) for lo, hi in ends]
    found = inspector(prompt, reused)._described(("entry", -1, 0), tuple(range(12)), shared, known)
    assert found == UnusedPoint("entry", -1, 12, shared, usable, obstacle)
