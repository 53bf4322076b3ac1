"""Scale of a drawing, and its texts."""

from __future__ import annotations

import pytest

from cachesim.tools.picture.position_scale import LABEL, LEAST, MOST, PositionScale, cut, inner, label, text


def test_a_text_is_escaped_and_has_classes_only_if_given():
    assert text(1.25, 30.0, "a<b & c") == '<text x="1.25" y="30">a&lt;b &amp; c</text>'
    assert text(1, 2, "", "dim mid") == '<text x="1" y="2" class="dim mid"></text>'


@pytest.mark.parametrize(("words", "most", "shortened"), [
    ("0123456789", 10, "0123456789"), ("0123456789", 9, "012…56789"), ("0123456789", 4, "0…89"), ("", 3, ""),
])  # fmt: skip
def test_a_prompt_is_shortened_in_the_middle(words, most, shortened):
    assert inner(words, most) == shortened and len(shortened) <= most


@pytest.mark.parametrize(("words", "most", "shortened"), [("abcd", 4, "abcd"), ("abcde", 4, "abc…"), ("ab", 1, "…")])
def test_a_text_is_cut_at_its_end(words, most, shortened):
    assert cut(words, most) == shortened


def test_a_label_has_one_line_if_it_fits():
    fits = "A" * (LABEL - 4)
    assert label(12, fits) == [f"#12 {fits}"]
    assert label(12, f"{fits}B") == ["#12", f"{fits}B"]
    assert label(1, "A" * 9 + "B" * 10) == ["#1", "AAAAAA…AAB" [:7] + "A" + "B" * 10]


def test_positions_between_boundaries_are_proportional_and_others_at_the_edges():
    scale = PositionScale([100, 10, 10], 50)
    assert (scale.at, scale.x, scale.width, scale.broken) == ([0, 10, 100], [0, 40, 40 + MOST], 190, [(10, 100)])
    assert [scale.px(position) for position in (-3, 0, 5, 10, 55, 100, 999)] == [50, 50, 70, 90, 165, 240, 240]
    assert [scale.of(position) for position in (-3, 1, 55)] == [0, 4, 115]
    assert scale.of(13) == 45 and scale.of(11) == 41.7


def test_a_scale_of_no_tokens_has_no_width():
    scale = PositionScale([0], 7)
    assert (scale.width, scale.broken, scale.px(5)) == (0, [], 7)


@pytest.mark.parametrize(("intervals", "wide", "width", "broken"), [
    (10, 1200, 120, False), (11, 1200, 90, False), (11, 700, 60, False), (11, 330, 30, False), (11, 329, 16, False),
    (11, 1, 16, False),
])  # fmt: skip
def test_a_token_is_as_wide_as_the_whole_drawing_allows(intervals, wide, width, broken):
    scale = PositionScale(range(0, 30 * intervals + 1, 30), 0, wide)
    assert scale.width == width * intervals and bool(scale.broken) is broken


def test_an_interval_is_broken_if_it_is_shortened():
    assert PositionScale([1]).width == 16
    assert PositionScale([37]).broken == [] and PositionScale([38]).broken == [(0, 38)]
    every = PositionScale(range(0, 601, 50), 0, 1200)                # 12 intervals of 50 tokens at 2 pixels
    assert (every.width, every.broken) == (1200, [])


def test_a_scale_without_room_has_the_smallest_width_of_a_token():
    """Each interval has the least width, or half a pixel for a token."""
    scale = PositionScale(range(0, 4_001, 20))
    assert scale.width == 200 * LEAST and PositionScale([*range(0, 4_001, 20), 4_040]).of(4_040) == 200 * LEAST + 20
