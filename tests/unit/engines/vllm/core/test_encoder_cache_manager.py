"""Images share the places of the encoder's outputs."""

from __future__ import annotations

from types import SimpleNamespace

from cachesim.base.media_items import image_items
from cachesim.engines.vllm.core.encoder_cache_manager import EncoderCacheManager
from cachesim.engines.vllm.profiles import V0_33_0
from cachesim.engines.vllm.request import EncoderInput, encoder_inputs

FIRST, SECOND = SimpleNamespace(request_id=1), SimpleNamespace(request_id=2)
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
    assert not cache.can_allocate(C, 8, 0)
    cache.free(FIRST)
    assert cache.check_and_update_cache(SECOND, A) and not cache.check_and_update_cache(SECOND, C)
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
