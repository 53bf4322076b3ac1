"""Items of images: positions with 2-D positions, lengths, and lists that differ where images differ."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.media_items import (
    before_image,
    count_images,
    ends_at_image,
    exchanged,
    image_items,
    is_item,
    item_at,
    length_to,
    longest_image,
    next_image,
    position,
)
from cachesim.base.tokens import common_prefix

CAT, DOG = image_items("cat", 12, 4), image_items("dog", 12, 4)
LIST = (7, 8, *CAT, 9, *DOG, 5)            # images at 2..13 and 15..26


def test_an_image_is_as_many_items_as_it_has_tokens():
    assert len(CAT) == 12 and all(map(is_item, CAT))
    assert item_at(LIST, 2) == (0, 12, 4) and item_at(LIST, 13) == (11, 12, 4)
    assert item_at(LIST, 14) is None and item_at(LIST, 28) is None
    assert count_images(LIST) == 2 and next_image(LIST, 3, 28) == 3 and next_image(LIST, 14, 28) == 15


def test_equal_images_are_equal_and_others_differ_in_their_first_item():
    assert image_items("cat", 12, 4) == CAT
    assert len({image_items(str(number), 12, 4) for number in range(1000)}) == 1000
    assert common_prefix((1, *CAT), (1, *DOG)) == common_prefix((1, *CAT), (1, *image_items("cat", 9, 3))) == 1


def test_the_items_of_an_image_have_a_single_position():
    assert [position(LIST, i) for i in (0, 1, 2, 7, 13, 14, 15, 26, 27, 28)] == [0, 1, 2, 2, 2, 6, 7, 7, 11, 12]


def test_a_length_has_whole_images():
    found = [length_to(LIST, target, is_2d=True) for target in (0, 1, 2, 3, 6, 7, 8, 11, 12, 99)]
    assert found == [1, 1, 2, 14, 14, 15, 27, 27, 28, 28]
    assert [length_to(LIST, target, is_2d=False) for target in (0, 2, 3, 14, 15, 16, 99)] == [1, 2, 14, 14, 15, 27, 28]


def test_an_exchanged_image_is_another_of_equal_size():
    other, third = (tuple(exchanged(item, key << 41) for item in CAT) for key in (1, 2))
    assert [item_at(other, i) for i in range(12)] == [item_at(CAT, i) for i in range(12)]
    assert len({CAT, other, third, tuple(exchanged(item, 1 << 41) for item in DOG)}) == 4


@pytest.mark.parametrize("sizes", [(0, 0), (4, 5), (2**13, 1)])
def test_an_image_of_impossible_size_is_refused(sizes):
    with pytest.raises(BadInput, match="image 'cat': expected 1 to 8191 tokens"):
        image_items("cat", *sizes)


def test_the_ends_and_the_longest_of_the_images_of_a_list():
    tokens = (1, *CAT, 2, *image_items("fox", 20, 4))
    assert (count_images(tokens), longest_image(tokens), longest_image((1, 2**27))) == (2, 20, 0)
    assert [before_image(tokens, at) for at in (0, 1, 2, 12, 13, 14, 20)] == [0, 1, 1, 1, 13, 14, 14]
    assert [ends_at_image(tokens, n) for n in (0, 1, 2, 12, 13, 14, 15, len(tokens))] == [
        False, False, True, True, False, False, True, True]  # fmt: skip
    assert not ends_at_image((), 0) and not ends_at_image((1, 2), 2)


def test_an_item_has_the_digest_of_its_name_and_the_sizes_of_its_image():
    """An item: 2**62, then 23 bits of a digest (FNV-1a, mixed), then items, positions and index, 13 bits each."""
    mask, digest = 2**64 - 1, 0
    for byte in b"cat":
        digest = (digest ^ byte) * 0x100000001B3 & mask
    digest = ((digest ^ digest >> 32) * 0x9E3779B97F4A7C15 & mask) >> 41
    assert tuple(2**62 + digest * 2**39 + 12 * 2**26 + 4 * 2**13 + number for number in range(12)) == CAT
    assert exchanged(CAT[3], 5 << 41) == CAT[3] ^ 5 << 39 and exchanged(CAT[3], (1 << 41) - 1) == CAT[3]


@pytest.mark.parametrize(("n", "inside", "before"), [
    (0, False, 0), (2, False, 2), (3, True, 2), (13, True, 2), (14, False, 14), (16, True, 15), (28, False, 28),
])  # fmt: skip
def test_the_ends_of_images_in_a_list(n, inside, before):
    assert (ends_at_image(LIST, n), before_image(LIST, n)) == (inside, before)


def test_a_list_that_ends_with_an_image_ends_at_it():
    assert ends_at_image(LIST[:14], 14) and ends_at_image(CAT, 12) and not ends_at_image((), 0)
    assert not ends_at_image(LIST[:15], 15) and longest_image((1, *CAT, *image_items("cat", 20, 3))) == 20
    assert longest_image((1, 2)) == 0 and item_at(LIST, -1) is None and next_image(LIST, 0, 2) == 2
    assert [is_item(token) for token in (2**62 - 1, 2**62, 2**63 - 1, 2**63)] == [False, True, True, False]


def test_a_list_may_begin_with_an_image_and_images_may_follow_each_other():
    tokens = (*CAT, *image_items("fox", 5, 2), 7, *DOG)
    assert [position(tokens, at) for at in (0, 11, 12, 16, 17, 18, 29, 30)] == [0, 0, 4, 4, 6, 7, 7, 11]
    assert (next_image(tokens, 0, 30), next_image(tokens, 17, 30), next_image(tokens, 17, 18)) == (0, 18, 18)
    assert [length_to(tokens, target, is_2d=True) for target in (1, 4, 5, 7, 8)] == [12, 12, 17, 18, 30]
    assert (position((), 0), length_to((), 1, is_2d=True), count_images(tokens)) == (0, 0, 3)


def test_an_image_may_have_as_many_positions_as_items_and_the_most_items():
    assert item_at(image_items("x", 8191, 8191), 8190) == (8190, 8191, 8191) and len(image_items("x", 1, 1)) == 1
    for sizes in ((8192, 8191), (3, 0)):
        with pytest.raises(BadInput):
            image_items("x", *sizes)
