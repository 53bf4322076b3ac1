"""Tests of charts: well-formed, with every number, with escaped text."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest

from tests.workloads.charts import COLOURS, Bar, Dot, bars, dots


def texts(drawing):
    return [one.text for one in ElementTree.fromstring(drawing).iter() if one.text]


def test_a_bar_has_a_part_for_every_cause():
    said = texts(bars("t", "s", [Bar("<one>", {"least": 4.0, "evicted": 2.5}), Bar("two", {"least": 4.0})], 4.0, "b"))
    assert {"<one>: evicted 2.50 %", "6.50 %", "4.00 %", "evicted", "b"} <= set(said)


def test_a_dot_says_where_it_is():
    said = texts(dots("t", "s", [Dot("default", "latest", 100.0, 7.5), Dot("x", "ik", 0.0, 5.0)], 4.0, "bound"))
    assert {"latest, default: 100 MiB, 7.50 % evaluated", "latest", "ik", "bound"} <= set(said)


def test_there_is_a_colour_for_every_number():
    drawing = bars("t", "s", [Bar("one", {"least": 4.0})], 4.0, "b")
    assert [f"--c{n}:" in drawing for n in range(COLOURS + 1)] == [True] * COLOURS + [False]


BARS = bars("t", "s", [Bar(f"row {n}", {"least": 4.0, "evicted": n}) for n in range(20)], 4.0, "b")
DOTS = dots("t", "s", [Dot(f"{n}", "latest", 50.0 * n, 9.0 * n) for n in range(11)], 4.0, "b")


@pytest.mark.parametrize("drawing", [BARS, DOTS], ids=["bars", "dots"])
def test_nothing_lies_outside_the_drawing(drawing):
    root = ElementTree.fromstring(drawing)
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


def test_dots_stand_right_of_those_with_less_memory_and_above_those_with_fewer_tokens():
    places = [(float(one.get("cx")), -float(one.get("cy"))) for one in ElementTree.fromstring(DOTS).iter()
              if one.get("r")]  # fmt: skip
    assert places == sorted(places) and len({x for x, _ in places}) == len({y for _, y in places}) == 11
    steps = [b[0] - a[0] for a, b in pairwise(places)]
    assert steps == pytest.approx([steps[0]] * 10, abs=0.2)
