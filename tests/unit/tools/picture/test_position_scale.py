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
    (11, 1, 15, False),
])  # fmt: skip
def test_a_token_is_as_wide_as_the_whole_drawing_allows(intervals, wide, width, broken):
    scale = PositionScale(range(0, 30 * intervals + 1, 30), 0, wide)
    assert scale.width == width * intervals and bool(scale.broken) is broken


def test_an_interval_is_broken_if_it_is_shortened():
    assert PositionScale([1]).width == 16
    assert PositionScale([37]).broken == [] and PositionScale([38]).broken == [(0, 38)]
    every = PositionScale(range(0, 601, 50), 0, 1200)                # 12 intervals of 50 tokens at 2 pixels
    assert (every.width, every.broken) == (1200, [])


def test_a_scale_without_room_folds_long_intervals_and_narrows_short_ones():
    """The most and the least pixels of an interval: 48 and 16, then 36 and 12, then 24 and 8."""
    long = range(0, 12_001, 1_000)
    assert [PositionScale(long, 0, wide).width for wide in (600, 500, 400)] == [12 * 48, 12 * 36, 12 * 24]
    assert PositionScale(long, 0, 500).broken == [(at, at + 1_000) for at in long[:-1]]
    short = range(0, 1_001, 4)
    assert [PositionScale(short, 0, wide).width for wide in (4_000, 3_999, 0)] == [250 * LEAST, 250 * 12, 250 * 8]


def test_boundaries_that_matter_less_are_left_out_only_where_there_is_no_room():
    scale = PositionScale([0, 400], 0, 1_600, minor=range(0, 401, 4))
    assert len(scale.at) == 101
    scale = PositionScale([0, 400], 0, 500, minor=range(0, 401, 4))
    assert (scale.at, scale.width, scale.of(100)) == ([0, 400], MOST, 37.5)
