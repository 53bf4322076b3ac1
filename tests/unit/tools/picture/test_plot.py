"""Plots: numbers have places in proportion, words are there whole, nothing lies outside or on another label."""

from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachesim.tools.picture.plot import (
    NARROW,
    WIDE,
    GridPlot,
    LegendEntry,
    PlotLine,
    PlotMark,
    PlotPart,
    PlotPoint,
    PlotRow,
    PlotSeries,
    PlotTile,
    PointPlot,
    RowPlot,
    TileRow,
    draw_plots,
)
from cachesim.tools.picture.plot_axis import Axis

DIGIT = 7.3
SHARE, GIB = Axis("evaluated [%]", is_log=True), Axis("memory [GiB]", is_log=True, doubles=True)
BARS = RowPlot(
    "14 GiB: fits into <16> GiB", ["a model & its flags"], Axis("memory [GiB]"),
    [PlotRow("rows", "2 GiB", [PlotPart("0", 2.0, "rows: 2 GiB")]),
     PlotRow("states", "6 GiB, host", [PlotPart("2", 6.0, "states: 6 GiB")], start=2.0),
     PlotRow("tokens", "8 of 9", [PlotPart("kept", 3.0, "kept"), PlotPart("again", 5.0, "again")], is_bad=True)],
    [PlotLine(16.0, "given: 16 GiB")], [LegendEntry("0", "device"), LegendEntry("again", "evaluated again")],
)  # fmt: skip
MARKS = RowPlot("A to B", [], Axis("tokens", is_log=True), [PlotRow("one", "10 to 1,000", marks=[PlotMark("before", 10),
                PlotMark("0", 1000)]), PlotRow("two", "", marks=[PlotMark("bad", 100)])])  # fmt: skip
POINTS = PointPlot(
    "the best: 6 %", [], GIB, SHARE,
    [PlotSeries("tried", "faint", [PlotPoint(x, 10 + x, f"setting {x}") for x in range(1, 9)]),
     PlotSeries("frontier", "2", [PlotPoint(1, 40, "f"), PlotPoint(4, 20, "f")], "step"),
     PlotSeries("shown", "0", [PlotPoint(4, 20, "one", "1: 20 %"), PlotPoint(4.1, 20, "two", "2: 20 %")], "line")],
    [PlotLine(8.0, "memory: 8 GiB")], [PlotLine(6.15, "any server: 6.15 %", is_limit=False)], [9.0], "do not fit",
)  # fmt: skip
GRID = GridPlot("WRONG: 1 fault", ["60 requests"], [
    TileRow("same", "10 histories, 1 failed", [PlotTile("bad", "append", "1 of 3"), PlotTile("good", "branch", "3")]),
    TileRow("drawn", "no history: the time was over before it began", []),
], [LegendEntry("bad", "fails")])  # fmt: skip
PLOTS = {"bars": BARS, "marks": MARKS, "points": POINTS, "grid": GRID}


def tree(plot, width=WIDE):
    return ElementTree.fromstring(draw_plots([plot], width))


def elements(root, name):
    return [one for one in root.iter() if one.tag.endswith(f"}}{name}")]


def words(root):
    """The texts of a drawing, and its tooltips."""
    return [one.text for one in root.iter() if one.text and not one.tag.endswith("}style")]


def boxes(root):
    """Left, right, and baseline of each text."""
    for one in elements(root, "text"):
        wide = len(one.text) * (9.1 if one.get("class") == "big" else DIGIT)
        anchor = {"end": 1.0, "mid": 0.5, "letter": 0.5}
        share = next((anchor[kind] for kind in (one.get("class") or "").split() if kind in anchor), 0.0)
        left = float(one.get("x")) - share * wide
        yield left, left + wide, float(one.get("y"))


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)
def test_no_text_lies_outside_the_drawing_or_on_another(plot, width):
    root = tree(plot, width)
    high = float(root.get("height"))
    assert (root.get("width"), root.get("viewBox")) == (str(width), f"0 0 {width} {high:.0f}")
    places = list(boxes(root))
    assert all(left >= -1 and right <= width + DIGIT and 10 <= y <= high for left, right, y in places)
    for (left, right, y), (other, end, below) in combinations(places, 2):
        assert abs(y - below) >= 11 or right <= other + 1 or end <= left + 1


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_every_word_is_there_whole(width):
    for plot in PLOTS.values():
        shown = " ".join(words(tree(plot, width)))
        assert all(word in shown for word in plot.title.split())
        assert all(word in shown for one in plot.about for word in one.split())
    shown = words(tree(BARS, width))
    assert {"given: 16 GiB", "evaluated again", "K", "!"} <= {*shown}
    assert all(any(row.says in one for one in shown) and any(row.name in one for one in shown) for row in BARS.rows)
    assert {"1: 20 %", "2: 20 %", "setting 8", "any server: 6.15 %", "do not fit"} <= {*words(tree(POINTS, width))}
    assert {"✗ append", "✓ branch", "append: 1 of 3"} <= {*words(tree(GRID, width))}


def test_bars_and_marks_stand_in_proportion_to_their_numbers():
    parts = [one for one in elements(tree(BARS), "rect") if len(one) and one.get("height") == "18"]
    left, wide = ([float(one.get(name)) for one in parts] for name in ("x", "width"))
    assert [one / wide[0] for one in wide] == pytest.approx([1, 3, 1.5, 2.5], abs=0.01)
    assert left[1] == pytest.approx(left[0] + wide[0], abs=0.2) and left[0] == left[2]
    ends = [float(one.get("cx")) for one in elements(tree(MARKS), "circle") if len(one)]
    assert len(ends) == 2 and ends[0] < ends[1]


def test_a_part_of_any_size_is_wider_than_its_edges():
    few = PlotRow("few", "", [PlotPart("0", 0.001, "few")])
    *_, part = (one for one in elements(tree(BARS._replace(rows=[*BARS.rows, few])), "rect") if len(one))
    assert float(part.get("width")) >= 3


def test_a_line_passes_behind_the_words_above_bars():
    drawn = [(one.tag.rpartition("}")[2], one.get("class") or "") for one in tree(BARS, NARROW)]
    named = [place for place, (tag, kind) in enumerate(drawn) if tag == "text" and kind in ("halo", "bad halo")]
    assert len(named) >= len(BARS.rows) and drawn.index(("path", "limit")) < min(named)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0.1, 100), st.floats(1, 100)), min_size=1, max_size=30))
def test_labels_of_points_never_cover_each_other(places):
    points = [PlotPoint(x, y, "s", f"{number}: {y:.1f} %") for number, (x, y) in enumerate(places)]
    root = tree(POINTS._replace(series=[PlotSeries("", "0", points)]), NARROW)
    labels = [one for one in elements(root, "text") if "halo" in (one.get("class") or "")]
    spots = [(float(one.get("x")), float(one.get("y")), DIGIT * len(one.text)) for one in labels]
    for (x, y, wide), (other, below, long) in combinations(spots, 2):
        assert abs(y - below) >= 14.9 or x + wide <= other + 0.1 or other + long <= x + 0.1
