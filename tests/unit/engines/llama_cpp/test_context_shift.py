"""Shifted positions: context shift, reused chunks at new positions, and memories that cannot be shifted."""

import pytest

from cachesim.engines.rule import Decision
from tests.unit.engines.llama_cpp.talk import Talk, word

A = word("A", 60)


def test_shift_of_a_full_context_by_hand():
    """256 cells, prompt of 250: at 255 tokens n_keep 10 leaves 245, of which 122 are discarded."""
    talk = Talk("A", context_shift=True)
    answer = talk.ask(word("A", 250), 12, n_keep=10)
    assert talk.events(answer, "ctx_shift") == [{"ev": "ctx_shift", "n_keep": 10, "n_left": 245, "n_discard": 122}]
    assert answer.truncated
    assert answer.tokens_cached == 250 + 11 - 122
    assert talk.server.core.slots[0].tokens[:10] == list(word("A", 10))
    assert talk.server.core.slots[0].tokens[10] == word("A", 250)[132]


@pytest.mark.parametrize("kind", ["A", "R", "H"])
@pytest.mark.parametrize("mode", ["provenance", "exact"])
def test_an_answer_with_a_shift_inside_equals_a_cold_run_that_shifts(kind, mode):
    talk = Talk(kind, mode=mode, context_shift=True)
    assert talk.right(talk.ask(word("A", 250), 12, n_keep=10)) is True


@pytest.mark.parametrize("kind", ["A", "R"])
def test_the_request_after_a_shift_differs_from_a_cold_run(kind):
    talk = Talk(kind, context_shift=True)
    talk.ask(word("A", 250), 12, n_keep=10)
    answer = talk.ask(tuple(talk.server.core.slots[0].tokens) + word("B", 3), 1)
    assert answer.cache_n > 100
    assert talk.right(answer) is False


def test_a_full_slot_is_shifted_beside_one_with_room():
    talk = Talk("A", "b11549", context_shift=True, ctx_size=512, parallel=2)
    talk.send(word("a", 10), 40, id_slot=0), talk.send(word("b", 240), 40, id_slot=1)
    talk.work()
    assert [(answer.predicted_n, answer.shifts) for answer in talk.answers] == [(40, []), (40, [(255, 0, 127)])]
    assert talk.held() == [49, 152]


@pytest.mark.parametrize(("build", "n_discard", "shift"), [
    ("b8916", -7, (255, 4, 125)), ("b6740", 250, (255, 4, 250)), ("b6740", 251, None), ("b8450", -1, None),
])  # fmt: skip
def test_a_shift_of_none_or_all_but_one_of_251_tokens_stays_in_the_list(build, n_discard, shift):
    talk = Talk("A", build, "none", context_shift=True)
    answer = talk.ask(word("A", 250), 7, n_keep=4, n_discard=n_discard)
    assert (answer.died, answer.shifts) == (shift is None, [shift] if shift else [])
    assert dict(answer.error_numbers) == ({} if shift else {"n_discard": n_discard, "n_left": 251})


def test_a_build_that_ignores_further_completions_shifts_the_context_of_the_first():
    talk = Talk("A", "b2781", "none", context_shift=True, parallel=2, ctx_size=512)
    answer = talk.ask(word("A", 250), 12, n_cmpl=2)
    assert (answer.status, answer.shifts, answer.children, talk.held()) == (200, [(255, 0, 127)], [], [134, 0])


def test_every_slot_that_is_full_fails_where_contexts_are_not_shifted():
    """Under the rules of b6914 a slot that is about to start its prompt fails if its last conversation fills it."""
    talk = Talk("A", "b6914", ctx_size=512, parallel=2)
    for slot in (0, 1):
        talk.ask(word("a", 250), 9, id_slot=slot)
    assert talk.held() == [255, 255]
    late = [talk.send(word("b", 20), 2, id_slot=slot) for slot in (0, 1)]
    talk.work()
    assert [(answer.status, answer.error) for answer in late] == [(500, "context shift is disabled")] * 2


def test_a_shift_forgets_the_checkpoints():
    talk = Talk("H", context_shift=True)
    talk.ask(word("A", 250), 12)
    assert talk.lengths() == []


def test_two_dimensional_positions_are_never_shifted():
    talk = Talk("qwen35", context_shift=True)
    answer = talk.ask(word("A", 250), 12)
    assert talk.kinds(answer, "ctx_shift") == []
    assert (answer.truncated, answer.stop_type) == (True, "limit")


def test_a_window_cache_smaller_than_its_partner_is_never_shifted():
    assert not Talk("W", ctx_size=512).server.core.memory.can_shift()
    assert Talk("W", ctx_size=512, swa_full=True).server.core.memory.can_shift()


def test_chunks_move_and_are_counted_by_hand():
    """A[:20] stays, A[20:30] is left out, A[30:] moves down by 10."""
    talk = Talk("A", cache_reuse=8)
    talk.ask(A, 1)
    answer = talk.ask(A[:20] + A[30:] + word("B", 4), 1)
    assert talk.events(answer, "reuse_chunk", "reuse_result") == [
        {"ev": "reuse_chunk", "n": 30, "c0": 30, "c1": 60, "p0": 20, "p1": 50},
        {"ev": "reuse_result", "n_past": 50},
    ]
    assert (answer.cache_n, answer.prompt_n) == (50, 4)
    assert talk.right(answer) is False                      # rows were computed at other positions


def test_chunks_below_the_minimum_are_not_reused():
    talk = Talk("A", cache_reuse=31)
    talk.ask(A, 1)
    assert talk.ask(A[:20] + A[30:], 1).cache_n == 20


@pytest.mark.parametrize("unsupported", [True, False])
def test_the_log_reports_a_reuse_that_the_rule_refuses(unsupported):
    talk = Talk("A", rules={"reuse": lambda *_: Decision(None if unsupported else (), {})}, cache_reuse=8)
    talk.ask(A, 1)
    answer = talk.ask(A[:20] + A[30:], 1)
    assert answer.cache_n == 20
    assert talk.kinds(answer, "reuse_unsupported", "reuse_result") == [
        "reuse_unsupported" if unsupported else "reuse_result"]


def test_a_request_sets_its_own_minimum_and_the_log_reports_an_unsupported_reuse():
    talk = Talk("qwen35")
    talk.ask(A, 1)
    answer = talk.ask(A[:20] + A[30:], 1, n_cache_reuse=8)
    assert talk.kinds(answer, "reuse_unsupported", "reuse_result") == ["reuse_unsupported"]


@pytest.mark.parametrize(("build", "kind", "told"), [
    ("b8152", "qwen2vl", ["reuse_result"]), ("b8271", "qwen2vl", ["reuse_unsupported"]), ("b8916", "qwen2vl", []),
    ("b8450", "W", ["reuse_unsupported"]), ("b8916", "W", []), ("b7400", "W", []),
])  # fmt: skip
def test_requests_get_a_switched_off_cache_reuse_where_the_build_gives_it(build, kind, told):
    """As the real b7376 to b8929."""
    talk = Talk(kind, build, ctx_size=512, cache_reuse=8)
    assert talk.kinds(talk.ask(A, 1), "reuse_unsupported", "reuse_result") == told


def test_moving_a_cache_without_layers_ends_the_process():
    """D21: every attention layer has a window; the full-attention cache has no buffer to rotate."""
    talk = Talk("C W8", context_shift=True, swa_full=True)
    answer = talk.ask(word("A", 250), 12)
    assert answer.died
    assert "GGML_ASSERT(buffer)" in answer.error


@pytest.mark.parametrize(("build", "refused"), [("b9518", False), ("b9765", True), ("b11549", True)])
def test_a_negative_number_of_tokens_to_discard_is_refused_since_its_fields_have_limits(build, refused):
    answer = Talk("A", build).ask(word("a", 20), n_discard=-5)
    assert (answer.status == 400, answer.error_kind == "discard-out-of-range") == (refused, refused)
