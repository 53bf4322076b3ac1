"""Images share the places of the encoder's outputs."""

from __future__ import annotations

import pytest

from cachesim.base.errors import Crash
from cachesim.base.media_items import image_items
from cachesim.engines.vllm.core.encoder_cache_manager import EncoderCacheManager
from cachesim.engines.vllm.profiles import V0_33_0
from cachesim.engines.vllm.request import EncoderInput, encoder_inputs
from tests.unit.engines.vllm.requests import make_request

FIRST, SECOND = make_request(1), make_request(2)
A, B, C = (EncoderInput(number, offset=0, length=4, identifier=number) for number in range(3))


def test_images_are_found_in_a_prompt():
    image = image_items("x", 4, 4)
    found = encoder_inputs([1, 2, *image, 3, *image])
    assert [(one.number, one.offset, one.length, one.end) for one in found] == [(0, 2, 4, 6), (1, 7, 4, 11)]
    assert len({one.identifier for one in found}) == 1 and encoder_inputs([1, 2]) == ()


def test_an_image_that_no_request_uses_makes_room_for_another_one():
    cache = EncoderCacheManager(8, V0_33_0, 0)
    for image in (A, B):
        assert cache.can_allocate(image, 8, 0)
        cache.allocate(FIRST, image)
    assert cache.can_allocate(C, 8, 0) is False
    cache.free(FIRST)
    assert cache.check_and_update_cache(SECOND, A) is True and cache.check_and_update_cache(SECOND, C) is False
    assert cache.can_allocate(C, 8, 0) and set(cache.cached) == {A.identifier}
    assert not cache.can_allocate(C, 3, 0), "the step has no room"


def test_an_image_that_a_request_has_twice_stays_until_the_second_one():
    cache = EncoderCacheManager(4, V0_33_0, 0)
    again = A._replace(number=7, offset=9)
    cache.allocate(FIRST, A)
    cache.check_and_update_cache(FIRST, again)
    cache.free_encoder_input(FIRST, A)
    assert not cache.freeable
    cache.free_encoder_input(FIRST, again)
    assert cache.freeable == {A.identifier: 4} and cache.inputs(FIRST) == []


D = EncoderInput(3, offset=20, length=4, identifier=3)
SAME = EncoderInput(4, offset=30, length=4, identifier=3)


def asked(*images, computed=0, placeholders=0):
    return make_request(1, images=images, num_computed_tokens=computed, num_output_placeholders=placeholders)


@pytest.mark.parametrize(("images", "start", "tokens", "budget", "size", "ahead", "plan"), [
    ((D,), 0, 20, 9, 9, 0, (20, 9, [], [])), ((D,), 0, 21, 9, 9, 0, (21, 5, [3], [])),
    ((D,), 0, 20, 9, 9, 1, (20, 5, [3], [])), ((D,), 23, 4, 9, 9, 0, (4, 5, [3], [])),
    ((D,), 24, 4, 9, 9, 0, (4, 9, [], [])), ((D,), 0, 0, 9, 9, 9, (0, 9, [], [])),
    ((D, SAME), 0, 40, 9, 9, 0, (40, 5, [3], [4])),
    ((D, B._replace(offset=30)), 0, 40, 8, 8, 0, (40, 0, [3, 1], [])),
    ((D, B._replace(offset=30)), 0, 40, 7, 8, 0, (30, 3, [3], [])),          # the step has no room
    ((D, B._replace(offset=30)), 0, 40, 8, 7, 0, (30, 4, [3], [])),          # nor has the cache
    ((D,), 0, 40, 3, 8, 0, (20, 3, [], [])), ((D,), 12, 20, 3, 8, 0, (8, 3, [], [])),
])  # fmt: skip
def test_a_chunk_ends_before_an_image_that_cannot_be_encoded(images, start, tokens, budget, size, ahead, plan):
    found = EncoderCacheManager(size, V0_33_0, ahead).try_schedule(asked(*images), start, tokens, budget)
    numbers = [[image.number for image in part] for part in (found.inputs, found.duplicates)]
    assert (found.num_new_tokens, found.budget, *numbers) == plan


def test_a_step_that_encodes_an_image_that_a_request_has_twice_keeps_both():
    cache, request = EncoderCacheManager(8, V0_33_0, 0), asked(D, SAME)
    cache.allocate_inputs(request, cache.try_schedule(request, 0, 40, 8))
    assert cache.inputs(request) == [D, SAME] and cache.num_free_slots == 4


@pytest.mark.parametrize(("computed", "placeholders", "left"), [(23, 0, [3]), (24, 0, []), (25, 2, [3]), (25, 1, [])])
def test_an_image_is_used_until_its_rows_are_computed(computed, placeholders, left):
    cache, request = EncoderCacheManager(8, V0_33_0, 0), asked(D, computed=computed, placeholders=placeholders)
    cache.allocate_inputs(request, cache.try_schedule(request, 0, 40, 8))
    cache.free_computed_inputs(request)
    assert [image.number for image in cache.inputs(request)] == left
    assert (cache.num_free_slots, cache.num_freeable_slots) == (4, 4 if left else 8)


def test_images_make_room_in_the_order_in_which_they_became_free():
    cache = EncoderCacheManager(12, V0_33_0, 0)
    for image in (A, B, C):
        cache.allocate(FIRST, image)
    for image in (B, A):
        cache.free_encoder_input(FIRST, image)
    assert (cache.num_free_slots, cache.num_freeable_slots, [*cache.freeable]) == (0, 8, [1, 0])
    assert cache.can_allocate(D, 4, 0) and [*cache.cached] == [0, 2] and cache.num_free_slots == 4
    assert cache.can_allocate(D, 4, 4) and [*cache.cached] == [2] and cache.num_free_slots == 8
    assert not cache.can_allocate(D, 4, 5) and not cache.can_allocate(D, 3, 0)


def test_an_image_that_is_used_again_cannot_make_room():
    cache = EncoderCacheManager(9, V0_33_0, 0)
    cache.allocate(FIRST, A)
    cache.free(FIRST)
    assert (cache.num_free_slots, cache.num_freeable_slots, cache.freeable) == (5, 9, {A.identifier: 4})
    assert cache.check_and_update_cache(SECOND, A)
    assert (cache.num_free_slots, cache.num_freeable_slots, cache.freeable) == (5, 5, {})
    assert cache.check_and_update_cache(FIRST, A), "a second user changes no places"
    assert (cache.num_free_slots, cache.num_freeable_slots, cache.freeable) == (5, 5, {})
    assert cache.can_allocate(B, 9, 1) and not cache.can_allocate(B, 9, 2)
    cache.free(SECOND)
    assert (cache.num_freeable_slots, cache.freeable) == (5, {})
    cache.free(FIRST)
    assert (cache.num_freeable_slots, cache.freeable) == (9, {A.identifier: 4})


@pytest.mark.parametrize(("damage", "told"), [
    (lambda cache: cache.cached[0].add(9), "are listed, of which requests use"),
    (lambda cache: cache.cached[1].add(9), "are listed, of which requests use"),
    (lambda cache: cache.cached.pop(1), "are listed, of which requests use"),
    (lambda cache: cache.freeable.pop(1), "are listed, of which requests use"),
    (lambda cache: setattr(cache, "num_free_slots", 3), "1 places for images are free, counted are 3, and 5 with"),
    (lambda cache: setattr(cache, "num_freeable_slots", 6), "1 places for images are free, counted are 1, and 6 with"),
])  # fmt: skip
def test_places_that_do_not_agree_with_their_images_are_noticed(damage, told):
    cache = EncoderCacheManager(9, V0_33_0, 0)
    for image in (A, B):
        cache.allocate(FIRST, image)
    cache.free_encoder_input(FIRST, B)
    cache.check()
    damage(cache)
    with pytest.raises(Crash, match=told):
        cache.check()


def test_a_request_without_images_gives_none_back():
    cache = EncoderCacheManager(8, V0_33_0, 0)
    cache.allocate(FIRST, A)
    for _ in range(2):
        assert cache.inputs(SECOND) == []
        cache.free_encoder_input(SECOND, A)
        cache.free_encoder_input(FIRST, B)
        cache.free(SECOND)
        assert (cache.inputs(FIRST), cache.num_free_slots, cache.num_freeable_slots) == ([A], 4, 4)
    cache.free(FIRST)
    cache.free(FIRST)
    assert (cache.inputs(FIRST), cache.num_free_slots, cache.num_freeable_slots) == ([], 4, 8)


@pytest.mark.parametrize(("kept", "computed", "left"), [(0, 24, []), (2, 24, [3]), (2, 25, [3]), (2, 26, [])])
def test_an_image_is_used_for_as_many_further_tokens_as_a_rule_says(kept, computed, left):
    cache = EncoderCacheManager(8, V0_33_0.changed({"keep_image": lambda ahead: kept}), 0)
    request = asked(D, computed=computed)
    cache.allocate_inputs(request, cache.try_schedule(request, 0, 40, 8))
    cache.free_computed_inputs(request)
    assert [image.number for image in cache.inputs(request)] == left


def test_images_before_and_after_a_chunk_are_passed_over():
    cache = EncoderCacheManager(40, V0_33_0, 0)
    images = [EncoderInput(number, offset=10 * number, length=4, identifier=number) for number in range(4)]
    plan = cache.try_schedule(asked(*images), 8, 16, 40)
    assert [image.number for image in plan.inputs] == [1, 2] and plan.num_new_tokens == 16
    plan = cache.try_schedule(asked(*images[::-1]), 8, 16, 40)
    assert [image.number for image in plan.inputs] == [2, 1]


def test_a_later_image_of_the_list_can_be_in_the_cache_already():
    cache = EncoderCacheManager(8, V0_33_0, 0)
    cache.allocate(SECOND, D)
    plan = cache.try_schedule(asked(B._replace(offset=10), D), 0, 40, 8)
    assert ([image.number for image in plan.inputs], plan.budget, cache.cached[D.identifier]) == ([1], 4, {1, 2})


@pytest.mark.parametrize("start", [20, 22])
def test_a_chunk_without_tokens_encodes_no_image(start):
    for ahead in (0, 2):
        plan = EncoderCacheManager(8, V0_33_0, ahead).try_schedule(asked(D), start, 0, 8)
        assert (plan.num_new_tokens, plan.budget, plan.inputs) == (0, 8, [])
