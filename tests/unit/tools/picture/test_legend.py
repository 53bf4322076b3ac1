"""Tests of the legend's layout: each line has as many signs as fit."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from cachesim.tools.picture.legend import LETTER, NAME, WIDE, _signs, _source, foreign, memory
from cachesim.tools.picture.legend import legend as legend_of
from cachesim.tools.picture.position_scale import PositionScale, text
from cachesim.tools.picture.scene import CompressedRows, ForeignRead, SlotMemory
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


def test_an_arrow_leads_to_the_first_position_of_the_data_that_was_read():
    named = set()
    line = _source(ForeignRead(10, 20, 2, 40, ""), SCALE, 133.0, 500.0, 300.0, named)
    assert line == ('<path class="wrong" d="M133.0 500.0V312.0L220.0 300.0m-4 6l4 -6l4 6"/>'
                    + text(226, 308, "request 2, position 40", "bad halo"))  # fmt: skip
    assert named == {(2, 40)}
    bare = _source(ForeignRead(10, 20, 2, 41, ""), SCALE, 133.0, 500.0, 300.0, named)
    assert bare == '<path class="wrong" d="M133.0 500.0V312.0L223.0 300.0m-4 6l4 -6l4 6"/>' and named == {(2, 40)}
    unknown = _source(ForeignRead(10, 20, 1, -1, ""), SCALE, 133.0, 500.0, 300.0, named)
    assert "L100.0 300.0m" in unknown and named == {(2, 40), (1, 0)}


@pytest.mark.parametrize(("request_number", "theirs", "has_label"), [
    (2, 40 + int(NAME / 3), False), (2, 41 + int(NAME / 3), True), (1, 40, True), (2, -5, True)])  # fmt: skip
def test_a_source_has_a_label_unless_one_of_its_request_is_near(request_number, theirs, has_label):
    named = {(2, 40)} if theirs >= 0 else {(2, 140)}
    line = _source(ForeignRead(10, 20, request_number, theirs, ""), SCALE, 133.0, 500.0, 300.0, named)
    assert (f"request {request_number}, position {theirs}" in line) is has_label
    assert ((request_number, max(0, theirs)) in named) is (has_label or theirs == 40)


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
    return [sign.says for sign in _signs(run, Lanes(run), SCALE)]


STATE, KEEPS = scene().state, scene().keeps


@pytest.mark.parametrize(("more", "says"), [
    ({"is_wrong": True}, ["wrong answer"]), ({"batches": [4]}, ["a micro-batch begins"]),
    ({"foreign": [ForeignRead(0, 2, -1, 0, "x")]}, ["wrong rows or state read"]),
    ({"foreign": [ForeignRead(0, 2, 1, 0, "x")]}, ["wrong rows or state read"]),
    ({"foreign": [ForeignRead(0, 2, 1, 0, "x"), ForeignRead(0, 2, 0, 0, "x")]},
     ["wrong rows or state read", "request it belongs to"]),
    ({"memory": EMPTY._replace(rows=(0, 4))}, ["attention rows"]),
    ({"memory": EMPTY._replace(window=(0, 4))}, ["rows of the window"]),
    ({"memory": EMPTY._replace(index_rows=(0, 4))}, ["index rows"]),
    ({"memory": EMPTY._replace(compressed=[CompressedRows(4, 1)])}, ["compressed rows"]),
    ({"memory": EMPTY._replace(state=4)}, [STATE]), ({"memory": EMPTY._replace(checkpoints=[4])}, [KEEPS]),
])  # fmt: skip
def test_a_sign_is_explained_if_one_request_has_it(more, says):
    plain = signs_of(row(0), row(1))
    found = signs_of(row(0), row(1, **more), row(2))
    assert [text for text in found if text not in plain] == says and {*plain} < {*found}


@pytest.mark.parametrize(("at", "is_lost"), [(-1, False), (0, True), (1, False)])
def test_a_loss_at_an_earlier_request_has_an_arrow(at, is_lost):
    found = signs_of(row(0), row(1, part(0, 4), part(4, 6, "again", "why", at)))
    assert ("request where it was lost" in found) is is_lost


def test_the_memory_of_a_slot_is_drawn_below_its_tokens():
    """A cell of attention has 8 pixels or more, and a gap of 1; a compressed row a gap of 2."""
    held = SlotMemory((0, 10), (4, 10), 10, (4,), (), (0, 10), (CompressedRows(4, 2),))
    lines = [*memory(held, SCALE, 50.0, scene(strips=2))]
    packed = "2 compressed rows of 4 tokens each: a row is hidden or shown by its number, and cannot be computed again"
    assert lines == [
        '<path class="rows" d="M100 53.5H130" stroke-dasharray="9.00 1"><title>attention rows: any of them can be '
        'removed</title></path>',
        '<path class="win" d="M112 58H130" stroke-dasharray="8.00 1"><title>window: rows 4 to 9; earlier rows are gone'
        '</title></path>',
        '<path class="idx" d="M100 62.5H130" stroke-dasharray="2 2"><title>index rows 0 to 9: by them a token chooses '
        'the rows that it reads</title></path>',
        f'<path class="packed" d="M100 62.5H124" stroke-dasharray="10.00 2"><title>{packed} from itself</title></path>',
        '<circle class="dot" cx="130" cy="72" r="4"><title>recurrent state after 10 tokens: cannot be rolled back'
        '</title></circle>',
        '<g class="mark"><path d="M108 85h8l-4 -8z"><title>checkpoint of 4 tokens</title></path></g>']
    assert [*memory(EMPTY, SCALE, 50.0, scene())] == []
