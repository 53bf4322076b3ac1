"""Timelines: runs beside each other or behind tabs, names of regions, and the request that is selected first."""

from __future__ import annotations

import re

import pytest

from cachesim.tools.picture import timeline as module
from cachesim.tools.picture.page_assets import asset
from cachesim.tools.picture.script_data import packed
from cachesim.tools.picture.svg import draw
from cachesim.tools.picture.timeline import DrawingFrame, region, script, style, timeline
from tests.unit.tools.picture.test_svg import part, row, scene

ONE, OTHER = scene(row(0), row(1)), scene(row(0), row(1, verdict="WRONG", is_wrong=True), profile="llama_cpp@b2")


def sections(text):
    return re.findall(r'<section class="run" (data-run="[^"]*" data-first="\d+" data-mark="[^"]*")>', text)


def test_every_run_has_its_name_its_mark_and_the_first_request():
    text = timeline([ONE, OTHER], name="x-")
    assert sections(text) == ['data-run="llama_cpp@b1" data-first="1" data-mark="x-"',
                              'data-run="llama_cpp@b2" data-first="1" data-mark="x-p1-"']  # fmt: skip
    assert 'id="x-r0"' in text and 'id="x-p1-r1"' in text and text.count('class="first"') == 2
    assert text.count('class="cs signs"') == 1 and "data-tabs" not in text and ", x" in text
    assert packed('{"forms":[],"runs":[]}') in text
    assert "<style>" not in text and 'viewBox="0 46 ' in text, "the page has style and title"


def test_tabs_have_names_and_no_first_difference():
    text = timeline([ONE, OTHER], tabs=["now", "then"], signs=False)
    assert [one.split(" ")[0] for one in sections(text)] == ['data-run="now"', 'data-run="then"']
    assert " data-tabs" in text and 'class="first"' not in text and "cs signs" not in text
    assert timeline([ONE, ONE], differs=0).count('class="first"') == 2
    assert timeline([ONE, OTHER], differs=-1).count('class="first"') == 0


def test_html_stands_around_each_drawing():
    text = timeline([ONE, OTHER], around=[DrawingFrame("<a/>", "<b/>"), DrawingFrame("<c/>")])
    order = [text.index(word) for word in ("<a/>", 'class="pair"', "<b/>", "<c/>")]
    assert order == sorted(order) and text.count("<b/></div></section>") == 1
    with pytest.raises(ValueError, match="shorter"):
        timeline([ONE, OTHER], around=[DrawingFrame()])


@pytest.mark.parametrize(("rows", "first"), [
    ([row(2), row(3), row(4, part(0, 5, "again")), row(5, is_wrong=True)], 5),
    ([row(2), row(3), row(4, part(0, 5, "again")), row(5, part(0, 5, "again"))], 4), ([row(2), row(3)], 2), ([], 0),
])  # fmt: skip
def test_a_wrong_request_is_selected_first_then_one_with_a_loss(rows, first):
    text = timeline([scene(), scene(*rows)])
    assert sections(text)[0].split(" ")[1] == f'data-first="{first}"'


def test_a_part_that_scrolls_has_a_name():
    assert region("picture", 0, ONE) == ' tabindex="0" role="region" aria-label="picture, run 1: llama_cpp@b1"'
    assert 'aria-label="picture x, run 1: llama_cpp@b1"' in timeline([ONE], name="x-")
    assert 'aria-label="picture, run 1: llama_cpp@b1"' in timeline([ONE])


def test_style_and_script_are_those_of_the_files():
    assert style().endswith(asset(module.__file__, "engine_bars.css"))
    assert script().startswith(asset(module.__file__, "run.js"))


def test_the_legend_explains_the_narrow_drawing_of_a_timeline():
    """Alone, tokens are 4 pixels wide, so that ranges of 40 are shortened; beside another run they are 2."""
    run = scene(row(0, *(part(40 * n, 40 * n + 40) for n in range(5))))
    assert "shortened range" in draw([run]) and "shortened range" not in timeline([run])
