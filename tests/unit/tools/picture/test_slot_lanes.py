"""Tests of lanes: entries of the prompt cache and requests."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from cachesim.tools.picture.position_scale import BAR, STEP, TOP
from cachesim.tools.picture.scene import CacheContents, Scene, SlotMemory, StepRow
from cachesim.tools.picture.slot_lanes import SHOWN, Columns, Entry, Lanes, bands, headings, lives


def row(number, slot=0, **entries):
    memory = SlotMemory(None, None, None, ())
    return StepRow(number, f"A{number}", "", slot, (), (), memory, CacheContents(**entries), "OK", False, "", "", (),
                   0, 1)  # fmt: skip


def scene(*rows, **more):
    return Scene("t", "", "p", "A", "OK", rows, **more)


def boxes(scene, top=0.0):
    """Return (x, y, width, height) of each lane."""
    drawn = ET.fromstring(f"<g>{''.join(bands(Lanes(scene), scene, top))}</g>")
    return [[float(each.get(name)) for name in ("x", "y", "width", "height")] for each in drawn.iter("rect")]


def test_of_entries_of_one_length_the_oldest_goes():
    columns = Columns()
    for when, tokens in enumerate((50, 70, 50)):
        columns.save(tokens, when)
    assert columns.take(50) == (0, 0) and columns.take(50) == (2, 2) and columns.take(50) is None
    columns.save(50, 9)
    columns.save(50, 8)                                 # reuses the free column, as a new entry
    assert columns.take(50) == (2, 8) and columns.held == {0: (50, 9), 1: (70, 1)}


def test_an_entry_that_goes_is_drawn_from_where_it_came():
    rows = [row(0, saved=[50]), row(1, saved=[50]), row(2, gone=[50], is_consumed=True), row(3, gone=[50])]
    assert lives(rows) == [Entry(0, 50, 0, 2, True), Entry(1, 50, 1, 3, False)]


@pytest.mark.parametrize("number", [1, 2, 7])
def test_lanes_reach_from_the_headings_to_the_last_row(number):
    one = scene(*(row(n) for n in range(number)))
    for top in (0.0, 300.0):
        for _, y, _, high in boxes(one, top):
            last = top + TOP + (number - 1) * STEP
            assert y < top + TOP and last + BAR <= y + high <= last + STEP


def test_lanes_stand_side_by_side_and_a_recording_has_none_for_the_prompt_cache():
    rows = [row(0, 0, saved=[5]), row(1, 2), row(2, 5)]
    some, recorded = boxes(scene(*rows)), boxes(scene(*rows, is_recorded=True))
    assert len(some) == 4 and len(recorded) == 3
    for (x, _, wide, _), (after, *_) in pairwise(some):
        assert x + wide <= after
    assert max(x + wide for x, _, wide, _ in some) <= Lanes(scene(*rows)).left


def test_the_headings_name_each_slot_once():
    def names(*slots):
        return "".join(headings(Lanes(scene(*(row(n, slot) for n, slot in enumerate(slots)))), 0))

    assert all(names(3, 0, 3).count(f">{slot}<") == 1 for slot in (0, 3)) and ">all<" not in names(3, 0)
    assert ">all<" in names(*range(9)) and ">all<" not in names(*range(8))


def test_an_entry_that_has_no_column_is_only_counted():
    rows = [row(0, lengths=range(100, 101 + SHOWN), saved=range(100, 101 + SHOWN)), row(1, gone=[100 + SHOWN])]
    lanes = Lanes(scene(*rows))
    assert lanes.more and lanes.gone_at(1) is None
    assert not Lanes(scene(row(0, saved=range(SHOWN)))).more
    first = Lanes(scene(row(0, saved=[7, 8]), row(1, gone=[8]), row(2, gone=[7])))
    assert (first.gone_at(1), first.gone_at(2)) == (first.entry(1) + 4, first.entry(0) + 4)
