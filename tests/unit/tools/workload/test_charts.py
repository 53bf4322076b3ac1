"""Charts are well-formed, say every number, and escape what they are given."""

from xml.etree import ElementTree

from cachesim.tools.workload.charts import COLOURS, Bar, Dot, bars, dots


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
