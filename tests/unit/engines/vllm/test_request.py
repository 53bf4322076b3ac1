"""Requests as the scheduler knows them: tokens, hashes of units, and numbers that follow from them."""

from __future__ import annotations

import pytest

from cachesim.base.keyed_tokens import with_keys
from cachesim.base.media_items import image_items
from cachesim.base.tokens import TokenList
from cachesim.engines.base import Answer
from cachesim.engines.base import Request as ClientRequest
from cachesim.engines.shared.request_queue import ReceivedRequest
from cachesim.engines.vllm.request import (
    EncoderInput,
    Request,
    RequestBlockHasher,
    RequestStatus,
    RequestText,
    encoder_inputs,
)


def hasher(unit=4, lookahead=0, enabled=True):
    """Return a hasher whose hashes are the values that it hashes."""
    return RequestBlockHasher(lambda parent, hashed, lora, salt: (parent, tuple(hashed), lora, salt), unit,
                              num_hash_lookahead_tokens=lookahead, enabled=enabled)  # fmt: skip


def received(prompt, hashes=None, n=3, **fields):
    task = ReceivedRequest(0, ClientRequest(tuple(prompt), n), Answer(0))
    return Request(0, task, TokenList(prompt), hashes or hasher(), **fields)


def test_complete_units_are_hashed_with_what_is_before_them():
    hashes = hasher()
    first = received(range(10), hashes, lora_request="a", cache_salt="s")
    assert first.block_hashes == [0, 1] and first.text.block_hashes is first.block_hashes
    for token in (10, 11, 12):
        first.append_output_token_ids(token)
    assert first.block_hashes == [0, 1, 2] and first.task.answer.tokens == [10, 11, 12]
    assert [*hashes.numbers] == [(-1, (0, 1, 2, 3), "a", "s"), (0, (4, 5, 6, 7), "a", "s"),
                                 (1, (8, 9, 10, 11), "a", "s")]  # fmt: skip


@pytest.mark.parametrize(("lookahead", "tokens", "units"), [(0, 8, 2), (0, 7, 1), (1, 8, 1), (1, 9, 2), (3, 10, 1)])
def test_a_hash_covers_the_tokens_behind_its_unit(lookahead, tokens, units):
    hashes = hasher(lookahead=lookahead)
    assert received(range(tokens), hashes).block_hashes == [*range(units)]
    assert next(iter(hashes.numbers)) == (-1, tuple(range(4 + lookahead)), "", "")


def test_equal_units_have_equal_numbers_and_nothing_is_hashed_without_need():
    hashes = hasher()
    found = [received(prompt, hashes, **more).block_hashes
             for prompt, more in (([1, 1, 1, 1, 2, 2, 2, 2], {}), ([1, 1, 1, 1, 3, 3, 3, 3], {}),
                                  ([2, 2, 2, 2], {}), ([1, 1, 1, 1], {"cache_salt": "x"}))]  # fmt: skip
    assert found == [[0, 1], [0, 2], [3], [4]]
    assert received(range(10), hasher(enabled=False)).block_hashes == []


def test_a_text_is_returned_again_until_a_token_is_added():
    text = RequestText(key=0, block_hashes=[], token_ids=TokenList([1, 2]))
    first = text.full()
    assert first == (1, 2) and text.full() is first
    text.token_ids.append(3)
    assert text.full() == (1, 2, 3)
    assert RequestText(key=5, block_hashes=[], token_ids=TokenList([1, 2])).full() == with_keys((1, 2), ((0, 5),))


def test_images_of_a_prompt_have_their_places():
    image, other = image_items("x", 4, 2), image_items("y", 2, 1)
    first, second, third = encoder_inputs((7, *image, *other, 8, *image))
    assert [one[:3] for one in (first, second, third)] == [(0, 1, 4), (1, 5, 2), (2, 8, 4)]
    assert first.identifier == third.identifier == image[0] and second.identifier == other[0]
    assert EncoderInput(0, 8, 4, 9).end == 12 and encoder_inputs(()) == encoder_inputs((7, 8)) == ()
    assert received((7, *image)).mm_features == (first,)


def test_numbers_of_a_request_follow_from_its_tokens():
    request = received(range(10), priority=2)
    assert (request.num_prompt_tokens, request.max_tokens, request.num_tokens, request.prefill_end) == (10, 3, 10, 10)
    request.append_output_token_ids(20)
    request.append_output_token_ids(21)
    request.spec_token_ids = [5, 6, 7]
    request.num_computed_tokens, request.num_in_flight_tokens = 11, 4
    assert (request.num_tokens, request.num_tokens_with_spec, request.num_output_tokens) == (12, 15, 2)
    assert (request.num_remaining_tokens, request.prefill_end, request.num_processed_tokens) == (1, 11, 7)
    assert (request.order, request.id, request.tokens) == ((2, 0), 0, [*range(10), 20])
    assert received([1], n=0).max_tokens == 1 and not request.skip_reading_prefix_cache
    request.task.request = ClientRequest((1,), cache_prompt=False)
    assert request.skip_reading_prefix_cache


@pytest.mark.parametrize(("status", "runs", "ended"), [
    (RequestStatus.WAITING, False, False), (RequestStatus.WAITING_FOR_REMOTE_KVS, False, False),
    (RequestStatus.RUNNING, True, False), (RequestStatus.PREEMPTED, False, False),
    (RequestStatus.FINISHED_STOPPED, False, True), (RequestStatus.FINISHED_ABORTED, False, True),
    (RequestStatus.FINISHED_ERROR, False, True),
])  # fmt: skip
def test_a_status_is_running_waiting_or_final(status, runs, ended):
    request = received([1], status=status)
    assert (request.is_running, request.is_finished, request.busy) == (runs, ended, not ended)
    request.finish()
    assert request.status == RequestStatus.FINISHED_ERROR
