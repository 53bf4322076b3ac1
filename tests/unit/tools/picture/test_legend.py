"""Tests of the legend's layout: each line has as many signs as fit."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from cachesim.tools.picture.legend import LETTER, WIDE, foreign
from cachesim.tools.picture.legend import legend as legend_of
from cachesim.tools.picture.position_scale import PositionScale
from cachesim.tools.picture.scene import CompressedRows, ForeignRead
from cachesim.tools.picture.slot_lanes import Lanes
from cachesim.tools.picture.svg import RunDrawing
from tests.unit.tools.picture.test_scene import HYBRID, seen
from tests.unit.tools.picture.test_svg import EMPTY, part, row, scene


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


SCALE = PositionScale(range(0, 401, 10), 100.0)            # a token is 3 pixels wide


def test_foreign_data_are_hatched_and_a_state_is_at_the_end_of_its_tokens():
    reads = (ForeignRead(10, 20, 0, 30, "rows <of> 0"), ForeignRead(0, 1, 3, 0, "its own"),
             ForeignRead(-1, -1, -1, 0, "x"), ForeignRead(40, 40, 2, 50, "a state"))  # fmt: skip
    drawn = [*foreign(row(3, foreign=reads), SCALE, 400.0, 100.0, set())]
    boxes = [re.search(r'x="([\d.]+)" y="400.0" width="([\d.]+)" height="22"', line).groups()
             for line in drawn if line.startswith("<rect")]  # fmt: skip
    assert boxes == [("130.0", "30.0"), ("100.0", "6.0"), ("100.0", "6.0"), ("214.0", "6.0")]
    assert drawn[0].startswith("<g><title>rows &lt;of&gt; 0</title><rect ")
    arrows = [line for line in drawn if line.startswith("<path")]
    assert [re.search(r'd="M([\d.]+) ([\d.]+)V([\d.]+)L([\d.]+) ([\d.]+)m', line).groups() for line in arrows] == [
        ("133.0", "400.0", "160.0", "190.0", "148.0"), ("232.0", "400.0", "308.0", "250.0", "296.0")]  # fmt: skip
    assert drawn.count("</g>") == 4


def signs_of(*rows):
    """Return the texts of the signs of a run with these requests."""
    run = scene(*rows)
    drawn, _ = legend_of(0.0, run, Lanes(run), SCALE, 9999.0)
    return re.findall(r'<g transform="[^"]*">.*?>([^<>]+)</text></g>', drawn)


STATE, KEEPS = scene().state, scene().keeps


@pytest.mark.parametrize(("more", "number"), [
    ({"is_wrong": True}, 1), ({"batches": [4]}, 1), ({"foreign": [ForeignRead(0, 2, -1, 0, "x")]}, 1),
    ({"foreign": [ForeignRead(0, 2, 1, 0, "x")]}, 1),
    ({"foreign": [ForeignRead(0, 2, 1, 0, "x"), ForeignRead(0, 2, 0, 0, "x")]}, 2),
    ({"memory": EMPTY._replace(rows=(0, 4))}, 1), ({"memory": EMPTY._replace(window=(0, 4))}, 1),
    ({"memory": EMPTY._replace(index_rows=(0, 4))}, 1),
    ({"memory": EMPTY._replace(compressed=[CompressedRows(4, 1)])}, 1),
    ({"memory": EMPTY._replace(state=4)}, 1), ({"memory": EMPTY._replace(checkpoints=[4])}, 1),
])  # fmt: skip
def test_a_sign_is_explained_if_one_request_has_it(more, number):
    """Data of the request itself are not those of another one."""
    plain = signs_of(row(0), row(1))
    found = signs_of(row(0), row(1, **more), row(2))
    assert len({*found} - {*plain}) == number and {*plain} < {*found}


@pytest.mark.parametrize(("at", "is_lost"), [(-1, False), (0, True), (1, False)])
def test_a_loss_at_an_earlier_request_has_an_arrow(at, is_lost):
    found = signs_of(row(0), row(1, part(0, 4), part(4, 6, "again", "why", at)))
    never = signs_of(row(0), row(1, part(0, 4), part(4, 6, "again", "why", -1)))
    assert (len(found) == len(never) + 1) is is_lost
