"""Rules of CPU offload at the boundaries of their arguments: every value is written out."""

from __future__ import annotations

import pytest

from cachesim.engines.vllm.rules import offload
from cachesim.engines.vllm.rules.offload import DraftStep, LoadReserve

F, T = False, True
STEP = DraftStep(num_spec_decode_tokens=3, blocks_by_group=(2, 5), blocks_of_common_size=4)


@pytest.mark.parametrize(("found", "value"), [
    (offload.offloaded_kinds(), ("full", "rswa", "swa", "chunked", "mamba")),
    (offload.unread_waits(), F), (offload.unread_waits_for_own(), T),
    (offload.end_of_others(10, 4), 10), (offload.end_at_state(10, 4), 8), (offload.end_at_state(8, 4), 8),
    (offload.reserve_for_prompts([]), 0), (offload.reserve_for_prompts([2, 3]), 5),
    (offload.reserve_draft_step(STEP), LoadReserve(ahead=3, each=0, own=7)),
    (offload.reserve_one_step(STEP), LoadReserve(ahead=0, each=4, own=4)),
    (offload.reserve_no_step(STEP), LoadReserve(ahead=0, each=0, own=0)),
    (offload.free_after_steps(3, 2), F), (offload.free_after_steps(3, 3), T),
    (offload.offered(12, 10, T), 10), (offload.offered(9, 10, T), 9), (offload.offered(12, 10, F), 12),
    (offload.offer_again(), T), (offload.offer_once(), F),
    (offload.order_by_request(), "requests"), (offload.order_by_store(), "stores"),
    (offload.order_by_idleness(), "idleness"),
    (offload.keep_offered(0, 9), T), (offload.keep_often_offered(0, 1), T), (offload.keep_often_offered(1, 2), F),
    (offload.keep_often_offered(2, 2), T), (offload.keep_often_offered(0, 0), T),
    (offload.touch_nothing(5, 2), None), (offload.touch_window(5, 0), 0), (offload.touch_window(5, 2), 3),
    (offload.touch_window(2, 2), 0), (offload.touch_window(1, 2), 0),
])  # fmt: skip
def test_the_value_of_a_rule(found, value):
    assert found == value


@pytest.mark.parametrize(("held", "reachable", "with_reachable", "with_last", "without_gap"), [
    ((T, T), (T, T), T, T, T), ((F, T), (F, T), T, T, F), ((F, T), (T, T), F, T, F), ((T, F), (T, F), F, F, F),
    ((T, T), (F, F), F, F, F), ((T, T), (T, F), T, T, T), ((F, F), (F, F), F, F, F),
])  # fmt: skip
def test_chunks_that_are_stored(held, reachable, with_reachable, with_last, without_gap):
    assert offload.chunk_with_reachable(held, reachable) is with_reachable
    assert offload.chunk_with_last(held, reachable) is with_last
    assert offload.chunk_without_gap(held, reachable) is without_gap


@pytest.mark.parametrize(("decision", "value", "because"), [
    (offload.wait_for_chunks(T), F, {"busy": T}), (offload.wait_for_chunks(F), T, {"busy": F}),
    (offload.load_chunks(0, 8), None, {"local": 8}), (offload.load_chunks(4, 8), 4, {"local": 8}),
    (offload.store_chunks(5, 2, 3), 5, {"missing": 5, "evicted": 3}),
    (offload.store_chunks(6, 2, 3), None, {"missing": 6, "evicted": 0}),
    (offload.store_chunks(2, 2, 0), 2, {"missing": 2, "evicted": 0}),
    (offload.store_chunks(1, 2, 0), 1, {"missing": 1, "evicted": 0}),
])  # fmt: skip
def test_decisions_have_their_numbers(decision, value, because):
    assert (decision.value, decision.because) == (value, because)
