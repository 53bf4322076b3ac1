"""Rules about images: those of b11549, of older builds, and proposed ones, at the borders of an image."""

from __future__ import annotations

import pytest

from cachesim.base.media_items import image_items
from cachesim.engines.llama_cpp.rules import media as rules
from cachesim.engines.llama_cpp.rules import media_repairs as repairs

CAT, PAIR, DOG = image_items("cat", 4, 4), image_items("pair", 2, 2), image_items("dog", 4, 4)
TEXT = tuple(range(6))
INSIDE = TEXT + CAT + TEXT                       # the image: tokens 6 .. 9
AT_END = TEXT + CAT


@pytest.mark.parametrize(("prompt", "n_past", "start"), [
    (INSIDE, 5, 5), (INSIDE, 6, 6), (INSIDE, 7, 6), (INSIDE, 9, 6), (INSIDE, 10, 10), (INSIDE, 16, 16),
    (AT_END, 10, 6), (AT_END, 9, 6), (AT_END, 6, 6), (TEXT, 6, 6), ((*AT_END, 9), 11, 11), ((*AT_END, 9), 10, 10),
])  # fmt: skip
def test_reuse_goes_back_to_the_start_of_an_image(prompt, n_past, start):
    assert repairs.back_to_start(prompt, n_past).value == start
    assert rules.stays_inside(prompt, n_past).value == n_past


@pytest.mark.parametrize(("prompt", "refused"), [
    (TEXT, False), (INSIDE, False), (AT_END, True), (CAT, True), ((*AT_END, 9), False),
    (TEXT + image_items("dot", 1, 1), True),
])  # fmt: skip
def test_a_prompt_that_ends_with_an_image_is_refused(prompt, refused):
    assert repairs.last_is_no_image(prompt).value == ("the prompt must not end with an image" if refused else "")
    assert rules.last_may_be_image(prompt).value == ""


@pytest.mark.parametrize(("n_tokens", "n_batch", "n_ubatch", "refused"), [
    (16, 64, 16, False), (17, 64, 16, True), (90, 16, 16, False), (90, 17, 16, True),
])  # fmt: skip
def test_an_image_that_exceeds_a_micro_batch_is_refused(n_tokens, n_batch, n_ubatch, refused):
    text = f"an image of {n_tokens} tokens is larger than the physical batch size (16)" if refused else ""
    assert repairs.size_in_micro_batch(n_tokens, n_batch, n_ubatch).value == text
    assert rules.any_size(n_tokens, n_batch, n_ubatch).value == ""


@pytest.mark.parametrize(("least", "refused"), [(0, False), (-1, True), (5, False)])
def test_a_token_that_the_model_does_not_have_is_refused(least, refused):
    found = repairs.valid_before_slot(least)
    assert (found.value, found.because) == ("Prompt contains invalid tokens" if refused else "", {"least": least})


@pytest.mark.parametrize(("do", "pos_min", "reason"), [(True, 0, True), (True, -1, False), (False, 0, False),
                                                       (True, 5, True)])  # fmt: skip
def test_an_image_is_a_reason_for_a_checkpoint(do, pos_min, reason):
    assert repairs.image_is_reason(do, pos_min).value is reason and rules.no_reason(do, pos_min).value is False


@pytest.mark.parametrize(("due", "images"), [(True, 0), (True, 2), (False, 1)])
def test_a_checkpoint_after_an_image_is_created_if_it_is_due(due, images):
    assert repairs.kept_after_image(due, images).value is due
    assert rules.none_after_image(due, images).value is (due and images == 0)


def test_an_image_has_its_own_adapters_and_a_second_attempt():
    assert repairs.own_adapters([1.0], [2.0]).value == (2.0,) and rules.adapters_of_image([1.0], [2.0]).value == (1.0,)
    assert repairs.tried_after_purge(1).value is True and rules.tried_once(1).value is False


@pytest.mark.parametrize(("index", "position"), [(5, 5), (6, 6), (8, 6), (10, 10), (12, 12)])
def test_all_items_of_an_image_have_the_position_of_its_start(index, position):
    """An image of 4 by 1: the text after it continues max(nx, ny) positions later."""
    assert rules.position_of(INSIDE, index).value == position
