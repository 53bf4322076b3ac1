"""Cells of a pool: which blocks are drawn, what a cell says, and where it stands."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from cachesim.engines.inspection import BlockCell
from cachesim.tools.picture.block_cells import SHOWN, WIDE, cell_signs, draw_blocks, says, used

USED = BlockCell(1, 0, 16, 0, 2, -1, 1)
CACHED = BlockCell(2, 1, 32, 0, 0, 4, 2)
EMPTY = BlockCell(3, -1, 0, 1, 0, 0)
FRESH = BlockCell(4, -1, 0, -1, 0, 1)


def drawn(after, wide=900.0):
    body, height = draw_blocks(after, 100.0, 50.0, wide)
    return ET.fromstring(body or "<g/>"), height


def test_blocks_that_no_request_took_are_not_drawn():
    assert used([USED, CACHED, EMPTY, FRESH]) == [USED, CACHED, EMPTY]
    assert draw_blocks({0: [FRESH]}, 0, 0, 900) == ("", 0.0)


@pytest.mark.parametrize(("cell", "text"), [
    (USED, "block 1: key of 16 tokens, group 0; taken by request 0; used by 2 requests"),
    (CACHED, "block 2: key of 32 tokens, group 1 and 1 more key; taken by request 0; free, number 5 to be taken"),
    (EMPTY, "block 3: no key; taken by request 1; free, number 1 to be taken"),
])  # fmt: skip
def test_a_cell_says_key_owner_users_and_place(cell, text):
    assert says(cell) == text


def test_the_kind_of_a_cell_shows_whether_it_is_used_and_can_be_found():
    body, _ = drawn({0: [USED, CACHED, EMPTY]})
    assert [box.get("class") for box in body.iter("rect")] == ["cell used", "cell cached", "cell empty"]
    signs = [(shown, svg) for shown, _, _, svg in cell_signs({0: [USED, CACHED]})]
    assert [shown for shown, _ in signs] == [True, True, False]
    assert "cell used" in signs[0][1] and "cell cached" in signs[1][1] and "cell empty" in signs[2][1]


def test_cells_stay_within_the_drawing_and_below_each_other():
    many = [BlockCell(number, 0, 4, 0, 0, number) for number in range(1, SHOWN + 4)]
    body, height = drawn({0: many, 3: many}, 500.0)
    boxes = [(float(box.get("x")), float(box.get("y"))) for box in body.iter("rect")]
    assert len(boxes) == 2 * SHOWN == len(set(boxes))
    assert min(x for x, _ in boxes) == 100 and max(x for x, _ in boxes) + WIDE <= 500
    assert max(y for _, y in boxes) < 50 + height
    assert [text.text for text in body.iter("text")].count("3 more blocks") == 2
    body, _ = drawn({0: many[: SHOWN + 1], 1: many[:SHOWN]}, 500.0)
    assert [text.text for text in body.iter("text") if "more" in (text.text or "")] == ["1 more block"]


def test_letters_name_the_groups():
    body, _ = drawn({0: [USED, CACHED]})
    texts = [text.text for text in body.iter("text")]
    assert texts.count("a") == 1 and texts.count("b") == 1


def test_each_request_has_a_line_at_least_and_as_many_as_its_blocks_need():
    many = [BlockCell(number, 0, 4, 0, 0, number) for number in range(4)]
    body, height = drawn({0: [FRESH], 5: many, 7: [USED]}, 100.0 + 2 * WIDE)
    heads = [(text.text or "", text.get("x"), text.get("y")) for text in body.iter("text") if text.get("x") == "12"]
    assert heads == [("blocks of the pool after each request", "12", "64"), ("#0", "12", "98"), ("", "12", "112"),
                     ("#5", "12", "144"), ("", "12", "158"), ("#7", "12", "236"), ("", "12", "250")]  # fmt: skip
    boxes = [(box.get("x"), box.get("y")) for box in body.iter("rect")]
    second = str(100 + WIDE)
    assert boxes == [("100", "124"), (second, "124"), ("100", "170"), (second, "170"), ("100", "216")]
    assert height == 28 + 46 + 2 * 46 + 46 + 8


def test_a_cell_has_its_key_owner_users_and_place():
    body, _ = drawn({0: [USED, CACHED, EMPTY]})
    cells = [[text.text for text in group.iter("text")] for group in body.iter("g") if group.find("title") is not None]
    assert cells == [["a", "16", "#0", "x2"], ["b", "32", "#0", "5."], ["-", "#1", "1."]]
    body, _ = drawn({0: [BlockCell(1, 27, 16, 0, 2, -1, 1)]})
    assert "b" in [text.text for text in body.iter("text")]
