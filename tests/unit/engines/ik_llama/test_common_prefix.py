"""Common prefix of lists with images: texts are compared from image to image."""

from __future__ import annotations

import pytest

from cachesim.base.media_items import image_items
from cachesim.engines.ik_llama.rules.common_prefix import TextsBetweenImages, common, without_reasoning

CAT, DOG = image_items("cat", 4, 4), image_items("dog", 4, 4)
PIECES = TextsBetweenImages({1: "a", 2: "b", 3: "ab", 4: "c", 5: " ", 6: "abc", 7: "d"}.__getitem__)


@pytest.mark.parametrize(("cache", "prompt", "found"), [
    ((3, *CAT, 1), (1, 2, *CAT, 1, 4), (6, 7)),                               # "ab" in one token and in two
    ((3, *CAT, 3, *DOG, 4), (1, 2, *CAT, 1, 2, *DOG, 4, 4), (11, 13)),        # an image after each of two texts
    ((3, *CAT, 3, *DOG, 4), (1, 2, *CAT, 1, 2, *CAT, 4, 4), (6, 8)),          # another image after the second text
    ((3, *CAT, 4), (1, 2, *DOG, 4), (1, 2)),
    ((3, 4, *CAT), (1, 2, *CAT), (1, 2)),                                     # the text before the image is longer
    ((3, *CAT, 4, 7), (1, 2, *CAT, 4, 4), (6, 7)),
    ((3, *CAT, 6, *DOG), (1, 2, *CAT, 3, 4, 4, *DOG), (6, 8)),
    ((3, 1, 7), (1, 2, 1, 4), (2, 3)), ((3, 1, 1, 1), (1, 2, *CAT), (1, 2)),
    ((3, 6), (1, 2, 1, 2), (1, 2)),         # without an image the longer list counts as far as the other is long
])  # fmt: skip
def test_an_image_is_common_if_it_is_equal_and_so_is_the_whole_text_before_it(cache, prompt, found):
    assert common(cache, prompt, PIECES, strict=False) == found


def test_a_strict_comparison_does_not_pass_over_blanks_between_images():
    cache, prompt = (5, 1, *CAT, 4), (1, *CAT, 4, 4)
    assert common(cache, prompt, PIECES, strict=False) == (7, 6)
    assert common(cache, prompt, PIECES, strict=True) == (0, 0)


def test_equal_tokens_need_no_text():
    assert common((1, 2), (1, 2, 99), PIECES, strict=True) == common((1, 2, 99), (1, 2), PIECES, strict=True) == (2, 2)


@pytest.mark.parametrize(("ours", "theirs", "strict", "agreed"), [
    ("abc", "abc", True, (3, 3)), ("abc", "abd", True, (2, 2)), ("a bc", "ab c", False, (4, 4)),
    ("a bc", "abc", True, (1, 1)), ("  ab", "ab", False, (4, 2)), ("ab", "  ab", False, (2, 4)),
    ("a\nb", "a b", False, (3, 3)),
    ("", "ab", False, (0, 0)),
])  # fmt: skip
def test_texts_agree_up_to_the_first_letter_that_differs(ours, theirs, strict, agreed):
    """A loose comparison passes over blanks that the other text lacks."""
    assert common(tuple(map(ord, ours)), tuple(map(ord, theirs)), chr, strict=strict) == agreed


@pytest.mark.parametrize(("cache", "prompt", "found"), [
    ((1, 2, 5), (3,), (2, 1)), ((3,), (1, 2, 5), (1, 2)), ((1, 5, 2), (3, 4), (3, 1)), ((1, 2, 5, 7), (3, 4), (3, 1)),
    ((3, 5, 5, 4), (1, 2, 4), (4, 3)),
])  # fmt: skip
def test_blanks_after_the_end_of_the_other_text_are_not_common(cache, prompt, found):
    assert common(cache, prompt, PIECES.pieces, strict=False) == found


@pytest.mark.parametrize(("tokens", "left"), [
    ((8, 1, 2, 8, 3), [1, 2, 3]), ((1, 8, 2), [1, 2]), ((8, 8), [8]), ((8,), []), ((1, 2), [1, 2]),
])  # fmt: skip
def test_a_mark_may_end_where_it_begins(tokens, left):
    """Both marks are the same token: each is a span of its own, unless it begins where a span ends."""
    assert list(without_reasoning(tokens, (8, 8), {1: "a", 2: "b", 3: "c", 8: "<m>"}.__getitem__)) == left


@pytest.mark.parametrize(("ours", "theirs", "strict", "found"), [
    ("ab", "ac", False, (0, 0)),         # the first tokens differ before either ends
    ("a b", "ab", False, (1, 1)),        # as they do here, but for a blank
    ("a b", "ab", True, (0, 0)),
    ("ab", "abc", False, (0, 0)),        # the text of a token begins with that of another
    ("", "ab", False, (0, 0)),
])  # fmt: skip
def test_first_tokens_are_compared_as_text(ours, theirs, strict, found):
    assert common((1, 9), (2, 8), {1: ours, 2: theirs, 8: "x", 9: "y"}.__getitem__, strict=strict) == found
