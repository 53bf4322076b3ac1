"""Tests of lanes: entries of the prompt cache and requests."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from cachesim.tools.picture.position_scale import BAR, STEP, TOP
from cachesim.tools.picture.scene import CacheContents, Scene, SlotMemory, StepRow
from cachesim.tools.picture.slot_lanes import SHOWN, Columns, Entry, Lanes, bands, block, headings, lives, stored


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


def drawn(elements):
    return ET.fromstring(f"<g>{''.join(elements)}</g>")


def test_entries_are_boxes_from_the_request_that_saved_them_to_the_one_that_removed_them():
    rows = row(0, saved=[50, 70]), row(1, gone=[50], is_consumed=True), row(2, gone=[70]), row(3, saved=[9])
    one = scene(*rows)
    lanes = Lanes(one)
    groups = [group for group in drawn(stored(lanes, one, 100.0)) if group.tag == "g"]
    assert [group.find("title").text for group in groups] == [
        "prompt cache entry of 9 tokens, saved during request 3",
        "prompt cache entry of 50 tokens, saved during request 0, removed on load during request 1",
        "prompt cache entry of 70 tokens, saved during request 0, removed during request 2"]  # fmt: skip
    first = 100 + TOP + 7
    at = [[(box.get("class"), float(box.get("x")), float(box.get("y"))) for box in group.iter("rect")]
          for group in groups]  # fmt: skip
    assert at == [[("full", lanes.entry(0), first + 3 * STEP)],
                  [("full", lanes.entry(0), first), ("gone box", lanes.entry(0), first + STEP)],
                  [("full", lanes.entry(1), first), ("gone box", lanes.entry(1), first + 2 * STEP)]]  # fmt: skip
    paths = [[(path.get("class"), path.get("d")) for path in group.iter("path")] for group in groups]
    x, y = lanes.entry(0), first + STEP
    assert paths[1] == [("life", f"M{x + 4:g} {first:g}V{y:g}"),
                        ("gone", f"M{x:g} {y + 4:g}H{lanes.slot(0) + 15:g}m4 -3l-4 3l4 3")]  # fmt: skip
    assert paths[0] == [("life", f"M{x + 4:g} {first + 3 * STEP:g}V{first + 3 * STEP + 8:g}")]
    assert len(paths[2]) == 1


@pytest.mark.parametrize(("number", "label"), [(SHOWN, []), (SHOWN + 1, ["+1"]), (SHOWN + 12, ["+12"])])
def test_entries_without_a_column_are_counted_at_the_end_of_their_row(number, label):
    one = scene(row(0), row(1, lengths=range(100, 100 + number), saved=range(100, 100 + number)))
    lanes = Lanes(one)
    found = drawn(stored(lanes, one, 100.0))
    assert [each.text for each in found.iter("text")] == label
    for each in found.iter("text"):
        assert (float(each.get("x")), float(each.get("y"))) == (lanes.cache + lanes.width - 3, 100 + TOP + STEP + 15)
    assert len([each for each in found.iter("g") if each is not found]) == min(number, SHOWN)


def test_a_request_is_a_box_with_its_number_in_the_lane_of_its_slot():
    one = scene(row(0, 0), row(7, 3))
    lanes = Lanes(one)
    box = drawn(block(lanes, one.rows[1], 50.0))
    assert (box.find("rect").get("class"), float(box.find("rect").get("x"))) == ("block", lanes.slot(3) - 13)
    assert (box.find("text").text, float(box.find("text").get("y"))) == ("7", 65.0)
    assert drawn(block(lanes, row(0)._replace(is_wrong=True), 0)).find("rect").get("class") == "block red"
    assert list(block(lanes, row(0, -1), 0)) == []


def test_requests_of_a_slot_are_joined_by_a_line():
    one = scene(row(0, 0), row(1, 2), row(2, 0), row(3, -1))
    lanes = Lanes(one)
    paths = [path.get("d") for path in drawn(bands(lanes, one, 0.0)).iter("path")]
    middle = TOP + BAR / 2
    assert paths == [f"M{lanes.slot(0):g} {middle:g}V{middle + 2 * STEP:g}"]


def test_a_server_without_slots_has_a_lane_without_names():
    one = scene(row(0, -1), row(1, -1), has_pool=True)
    lanes = Lanes(one)
    assert (lanes.count, lanes.shared, lanes.stores, lanes.heading, lanes.width) == (1, True, False, "", 0)
    assert [each.text for each in drawn(headings(lanes, 0.0)).iter("text") if each.text] == []
    other = drawn(headings(Lanes(scene(row(0, 4))), 0.0))
    assert [each.text for each in other.iter("text") if each.text] == ["slot", "4", "prompt", "cache"]


def test_a_request_without_a_slot_has_no_lane():
    lanes = Lanes(scene(row(0, slot=-1), row(1, slot=2), row(2, slot=0)))
    assert (lanes.slots, lanes.count) == ([0, 2], 2) and lanes.slot(-1) == lanes.slot(0) < lanes.slot(2)
    assert (Lanes(scene(row(0, slot=-1))).slots, Lanes(scene(row(0, slot=-1))).count) == ([], 1)
