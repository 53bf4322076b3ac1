"""Nodes of a radix tree below a run: their lines, what a box says, and its signs."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from cachesim.engines.inspection import TreeCell
from cachesim.tools.picture.position_scale import PositionScale
from cachesim.tools.picture.tree_cells import SHOWN, draw_trees, lines, says, tree_signs

TOP = TreeCell(3, 0, 0, 9, ["rows", "window"], ["state"], 1)
LEFT = TreeCell(1, 3, 9, 40, ["rows", "window", "state"], [], 2)
RIGHT = TreeCell(2, 3, 9, 60, ["rows"], ["window", "state"], 0)
OTHER = TreeCell(4, 0, 0, 30, ["rows", "window"], ["state"], 0)
TREE = [TOP, OTHER, LEFT, RIGHT]


def drawn(after):
    body, height = draw_trees(after, PositionScale([9, 40, 60], 100.0), 50.0)
    return ET.fromstring(body or "<g/>"), height


def test_a_tree_without_nodes_is_not_drawn():
    assert draw_trees({0: []}, PositionScale([9]), 0.0) == ("", 0.0)


def test_each_leaf_has_a_line_and_a_node_stands_in_that_of_its_first_child():
    assert lines(TREE) == [(0, TOP), (0, LEFT), (1, RIGHT), (2, OTHER)]


@pytest.mark.parametrize(("cell", "text"), [
    (TOP, "node 3: tokens 0 to 8; has rows, window; tombstone of its state; locked by 1 request"),
    (LEFT, "node 1: tokens 9 to 39; has rows, window, state; locked by 2 requests"),
    (RIGHT, "node 2: tokens 9 to 59; has rows; tombstone of its window and state; not locked"),
])  # fmt: skip
def test_a_box_says_tokens_parts_and_locks(cell, text):
    assert says(cell) == text


def test_boxes_lie_below_their_tokens_and_show_locks_windows_and_states():
    body, height = drawn({0: TREE})
    boxes, scale = list(body.iter("rect")), PositionScale([9, 40, 60], 100.0)
    assert [box.get("class") for box in boxes] == ["cell used", "cell used", "cell empty", "cell cached"]
    assert [float(box.get("x")) for box in boxes] == [scale.px(cell.start) + 1 for cell in (TOP, LEFT, RIGHT, OTHER)]
    assert len({box.get("y") for box in boxes}) == 3 and max(float(box.get("y")) for box in boxes) < 50 + height
    assert len(list(body.iter("circle"))) == 1
    kinds = [path.get("class") for path in body.iter("path")]
    assert kinds.count("win") == 3 and kinds.count("thin") == 1
    assert {"9 x1", "31 x2", "51"} <= {text.text for text in body.iter("text")}


def test_many_branches_are_counted():
    many = [TreeCell(number, 0, 0, 9, ["rows"], [], 0) for number in range(1, SHOWN + 4)]
    body, _ = drawn({0: many})
    assert len(list(body.iter("rect"))) == SHOWN
    assert "3 more branches" in {text.text for text in body.iter("text")}
    for beyond, said in ((0, []), (1, ["1 more branch"])):
        body, _ = drawn({0: many[: SHOWN + beyond]})
        assert [text.text for text in body.iter("text") if "more" in text.text] == said


def test_the_legend_names_the_signs_that_occur():
    assert [shown for shown, *_ in tree_signs({0: TREE})] == [True] * 5
    assert [shown for shown, *_ in tree_signs({0: [OTHER]})] == [False, True, False, True, False]


def test_trees_of_several_requests_stand_below_each_other():
    scale = PositionScale([9, 40, 60], 100.0)
    alone, both = draw_trees({0: TREE}, scale, 0.0)[1], draw_trees({0: TREE, 3: [OTHER]}, scale, 0.0)[1]
    body = ET.fromstring(draw_trees({0: TREE, 3: [OTHER]}, scale, 0.0)[0])
    assert both > alone and {"#0", "#3"} <= {one.text for one in body.iter("text")}


def test_a_request_without_nodes_has_a_line_of_its_own():
    body, height = draw_trees({0: [], 3: [OTHER]}, PositionScale([30], 100.0), 50.0)
    drawn = ET.fromstring(body)
    assert [(text.text, text.get("y")) for text in drawn.iter("text") if text.get("x") == "12"][1:] == [
        ("#0", "93"), ("#3", "127")]  # fmt: skip
    assert [box.get("y") for box in drawn.iter("rect")] == ["112"] and height == 28 + 2 * 34 + 4


def test_a_further_child_hangs_on_the_end_of_its_parent():
    body, _ = draw_trees({0: TREE}, PositionScale([9, 40, 60], 100.0), 50.0)
    (line,) = (path for path in ET.fromstring(body).iter("path") if path.get("class") == "thin")
    end = PositionScale([9, 40, 60], 100.0).px(9)
    assert line.get("d") == f"M{end:g} 98V114"
