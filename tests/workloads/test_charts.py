"""Tests of charts: well-formed, with every number, with escaped text."""

from xml.etree import ElementTree

import pytest

from tests.workloads.charts import COLOURS, Bar, bars


def texts(drawing):
    return [one.text for one in ElementTree.fromstring(drawing).iter() if one.text]


def test_a_bar_has_a_part_for_every_cause():
    said = texts(bars("t", "s", [Bar("<one>", {"least": 4.0, "evicted": 2.5}), Bar("two", {"least": 4.0})], 4.0, "b"))
    assert {"<one>: evicted 2.50 %", "6.50 %", "4.00 %", "evicted", "b"} <= set(said)


def test_there_is_a_colour_for_every_number():
    drawing = bars("t", "s", [Bar("one", {"least": 4.0})], 4.0, "b")
    assert [f"--c{n}:" in drawing for n in range(COLOURS + 1)] == [True] * COLOURS + [False]


BARS = bars("t", "s", [Bar(f"row {n}", {"least": 4.0, "evicted": n}) for n in range(20)], 4.0, "b")


def test_nothing_lies_outside_the_drawing():
    root = ElementTree.fromstring(BARS)
    wide, high = (float(root.get(name)) for name in ("width", "height"))
    assert root.get("viewBox") == f"0 0 {wide:.0f} {high:.0f}"
    for one in root.iter():
        x, y = (float(one.get(name) or one.get(f"c{name}") or 0) for name in "xy")
        right, bottom = x + float(one.get("width") or 0), y + float(one.get("height") or 0)
        assert 0 <= x <= right <= wide and 0 <= y <= bottom <= high, one.attrib


def test_bars_are_as_long_as_their_numbers_and_stand_end_to_end():
    boxes = [one for one in ElementTree.fromstring(BARS).iter() if one.get("stroke") == "var(--paper)"]
    edges = [(float(one.get("x")), float(one.get("width"))) for one in boxes]
    for n, (least, evicted) in enumerate(zip(edges[::2], edges[1::2], strict=True)):
        assert least == edges[0] and evicted[0] == pytest.approx(sum(least), abs=0.2)
        assert evicted[1] == pytest.approx(least[1] * n / 4, abs=1)
    assert len({one.get("y") for one in boxes}) == 20
