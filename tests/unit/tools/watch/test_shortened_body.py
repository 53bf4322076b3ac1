"""The first difference of two bodies with images is that of the whole bodies, or is stated as a lower bound."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.base.tokens import common_prefix
from cachesim.tools.watch.shortened_body import FIRST, LONG, FirstDifference, ShortenedBody


def body(*texts):
    return json.dumps({"texts": texts}).encode()


def difference(a, b):
    found = ShortenedBody(a).difference(ShortenedBody(b))
    assert found == ShortenedBody(b).difference(ShortenedBody(a))
    return found


IMAGE = "iVBORw0KGgo" * 1_000
PIECES = st.sampled_from(["a text", "a" * (LONG - 1), "b" * LONG, IMAGE, IMAGE[:-1] + "x", "y" + IMAGE[1:],
                          IMAGE[:FIRST] + "z" + IMAGE[FIRST + 1 :], "words and " * 900])  # fmt: skip


@given(st.lists(PIECES, max_size=5), st.lists(PIECES, max_size=5))
def test_the_first_difference_is_that_of_the_whole_bodies(a, b):
    first, second = body(*a), body(*b)
    exact = common_prefix(first, second)
    found = difference(first, second)
    assert found == FirstDifference(exact, True) or (not found.is_exact and found.byte <= exact)


def test_text_between_images_is_compared_exactly():
    first, second = body(IMAGE, "one", IMAGE, "two", IMAGE), body(IMAGE, "one", IMAGE, "2", IMAGE)
    assert difference(first, second) == (first.index(b"two"), True)


@pytest.mark.parametrize("at", [0, FIRST - 1, FIRST, FIRST + 1, len(IMAGE) - 1])
def test_a_difference_in_an_image_is_exact_within_its_first_bytes(at):
    first, second = body("a", IMAGE), body("a", IMAGE[:at] + "!" + IMAGE[at + 1 :])
    start = first.index(IMAGE.encode())
    assert difference(first, second) == ((start + at, True) if at < FIRST else (start + FIRST, False))


def test_the_place_of_a_difference_in_a_later_image_counts_all_images_before_it():
    images = [IMAGE, "A" * LONG, IMAGE[::-1]]
    for number in (1, 2):
        changed = [*images[:number], images[number][:-1] + "!", *images[number + 1 :]]
        first = body(*images)
        start = first.index(images[number].encode())
        assert difference(first, body(*changed)) == (start + FIRST, False)


@pytest.mark.parametrize("text", ["data:image/png;base64," + IMAGE, "\n".join([IMAGE[:76]] * 200),
                                  IMAGE.replace("R", "/")])  # fmt: skip
def test_an_image_takes_little_memory(text):
    assert ShortenedBody(body(text)).memory < FIRST + 1_000


def test_a_text_stays_whole():
    raw = body("a text of some words " * 1_000, "\N{CJK UNIFIED IDEOGRAPH-4E2D}" * 5_000)
    assert ShortenedBody(raw).memory >= len(raw)
