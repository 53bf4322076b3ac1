"""Tests of the segment generator's ticks: order of feeding, admission, start of generation."""

from __future__ import annotations

import pytest

from cachesim.engines.inspection import ExceededLimit
from tests.unit.engines.mlx_lm.serving import burst, chat, server, sound, system, text, user


def ticks(srv, n):
    """Return, after each of n ticks, the tokens held and returned of every row."""
    out = []
    for _ in range(n):
        srv.iterate()
        out.append([(len(row.tokens), row.n_gen) for row in srv.core.slots])
    return out


def test_one_text_is_fed_but_for_one_token_then_answers():
    srv = server()
    srv.submit(text(1, 2, 3, 4, n=2))
    assert ticks(srv, 4) == [[(3, 0)], [(4, 0)], [(5, 1)], [(6, 2)]]


def test_a_piece_never_crosses_the_end_of_a_segment():
    """14 tokens of system, 7 of user, in steps of 5."""
    srv = server(prefill_step_size=5)
    srv.submit(chat(system(), user(3)))
    assert [row[0][0] for row in ticks(srv, 7)] == [5, 10, 14, 19, 21, 22, 23]


def test_shorter_rows_do_not_wait():
    srv = server()
    srv.submit(text(1, 2, 3, n=1))
    srv.submit(chat(system(), user(3), n=1))
    assert ticks(srv, 4) == [[(2, 0), (14, 0)], [(3, 0), (21, 0)], [(4, 1), (22, 0)], [(4, 1), (23, 1)]]


def test_the_prompt_batch_takes_as_many_as_it_has_room_for():
    srv = server(prompt_concurrency=2)
    for first in (10, 20, 30):
        srv.submit(text(first, first + 1, first + 2, n=2))
    assert ticks(srv, 3) == [
        [(2, 0), (2, 0), (0, 0)],
        [(3, 0), (3, 0), (0, 0)],            # two have left the prompt batch only after others were let in
        [(4, 1), (4, 1), (2, 0)],
    ]


def test_rows_that_are_ready_at_once_may_be_more_than_there_is_room_for():
    """Room for three rows: two generate; the third is fed in two ticks, the fourth in one. Both start in the next
    tick."""
    srv = server(prompt_concurrency=2, decode_concurrency=3, prefill_step_size=2)
    for prompt in ((10, 11), (20, 21), range(30, 35), (40, 41, 42)):
        srv.submit(text(*prompt, n=9))
    states = ticks(srv, 6)
    assert states[2][2:] == [(2, 0), (0, 0)] and states[3][2:] == [(4, 0), (2, 0)]
    assert [n_gen for _, n_gen in states[5]] == [4, 4, 1, 1]
    assert srv.inspection.exceeded_limits() == [ExceededLimit("rows decoded", 4, 3)]


def test_room_is_counted_without_the_rows_that_are_being_fed():
    """Room for three rows in all: two generate, a third is admitted. A fourth is admitted while the third is fed, and
    then halts."""
    srv = server(prompt_concurrency=2, decode_concurrency=3)
    for first in (10, 20, 30, 40):
        srv.submit(text(first, first + 1, n=9))
    states = ticks(srv, 5)
    assert states[1] == [(2, 0), (2, 0), (0, 0), (0, 0)]
    assert states[2] == [(3, 1), (3, 1), (1, 0), (0, 0)]
    assert states[3] == [(4, 2), (4, 2), (2, 0), (1, 0)]
    assert states[4] == [(5, 3), (5, 3), (3, 1), (1, 0)]


def test_a_full_generation_batch_feeds_no_prompts():
    srv = server(prompt_concurrency=1, decode_concurrency=1)
    srv.submit(text(1, 2, n=3))
    srv.iterate()
    srv.iterate()
    srv.submit(text(11, 12, 13, n=1))
    assert ticks(srv, 4) == [[(3, 1), (0, 0)], [(4, 2), (0, 0)], [(5, 3), (2, 0)], [(5, 3), (3, 0)]]


@pytest.mark.parametrize("model", ["GGGA", "W8 A", "HH"])
def test_rows_that_come_and_go_answer_as_if_alone(model):
    together, alone = server(model=model, mode="exact"), server(model=model, mode="exact")
    texts = [text(*range(10 * k + 1, 10 * k + 2 + 3 * k), n=7 - k, first=100 * k) for k in range(1, 6)]
    answers = [together.submit(texts[0])]
    for request in texts[1:]:
        together.iterate()
        answers.append(together.submit(request))
    while together.working:
        together.iterate()
    for request, answer in zip(texts, answers, strict=True):
        (own,) = burst(alone, request)
        assert [said.digest for said in own.outputs] == [said.digest for said in answer.outputs]
        assert all((a.logits == b.logits).all() for a, b in zip(own.outputs, answer.outputs, strict=True))
    assert sound(together)


def test_a_row_that_leaves_while_it_is_fed_takes_nothing_with_it():
    """A prompt of 9 tokens in steps of 2: the client disconnects after 4 tokens."""
    srv = server(prefill_step_size=2)
    gone, complete = burst(srv, text(*range(1, 10), cancel_at=3), text(*range(21, 28)))
    assert gone.cancelled and gone.tokens == [] and gone.tokens_cached == 4
    assert len(complete.tokens) == 3 and sound(srv)


def test_caches_of_a_row_belong_to_its_batch_once_it_is_admitted():
    srv = server(prompt_concurrency=1)
    for first in (1, 101):
        srv.submit(text(*range(first, first + 5), n=2))
    srv.iterate()
    first, second = srv.core.slots
    assert first.caches == [] and len(second.caches) == len(srv.core.kind.spec.layers)
    assert srv.core.generator.waiting == [second] and srv.core.generator.held()[0] is second.caches
