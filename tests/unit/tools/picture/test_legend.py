"""Tests of the legend's layout: each line has as many signs as fit."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from cachesim.tools.picture.legend import LETTER, WIDE
from cachesim.tools.picture.legend import legend as legend_of
from cachesim.tools.picture.svg import RunDrawing
from tests.unit.tools.picture.test_scene import HYBRID, seen


@pytest.fixture(scope="module")
def drawn():
    return RunDrawing(seen(HYBRID, "llama_cpp@b10587"))


def signs(drawn, wide, y=0.0):
    """Return (x, y, right end) of each sign, and the total height."""
    text, height = legend_of(y, drawn.scene, drawn.lanes, drawn.scale, wide)
    found = re.findall(r'<g transform="translate\(([\d.]+) ([\d.]+)\)">.*?>([^<>]+)</text></g>', text)
    return [(float(x), float(at), float(x) + WIDE + 6 + LETTER * len(says)) for x, at, says in found], height


def test_signs_stand_in_one_line_where_it_is_wide_enough(drawn):
    found, height = signs(drawn, 9999.0, 40.0)
    assert len(found) > 5 and {y for _, y, _ in found} == {40.0} and height == 28
    assert all(end < after[0] for (_, _, end), after in pairwise(found))


@pytest.mark.parametrize("wide", [300.0, 600.0])
def test_a_line_is_full_before_the_next_begins_and_no_sign_goes_beyond_it(drawn, wide):
    found, height = signs(drawn, wide)
    assert all(end <= wide for *_, end in found)
    for (_, y, end), (x, below, after) in pairwise(found):
        assert (y == below and end < x) or (below == y + 20 and x == 12 and end + after - x > wide - 40)
    assert height == found[-1][1] + 28


def test_a_sign_that_is_wider_than_a_line_has_one_of_its_own(drawn):
    found, _ = signs(drawn, 50.0)
    assert [(x, y) for x, y, _ in found] == [(12.0, 20.0 * n) for n in range(len(found))]
