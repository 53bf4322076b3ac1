"""Start of a prompt: the checkpoints that are examined, and what a request says that reuses nothing."""

from __future__ import annotations

import pytest

from tests.unit.engines.llama_cpp.talk import Talk, word

P, R = word("p", 40), word("r", 10)


def checked(n):
    return {"ev": "ckpt_check", "pos_min": n - 1, "pos_max": n - 1, "thold": 25}


def test_checkpoints_are_examined_from_the_newest_to_the_one_that_is_restored():
    talk = Talk("H", mode="none", checkpoint_min_step=0, ctx_checkpoints=5, batch_size=16)
    talk.ask(P, user_starts=(10, 20, 30))
    assert talk.lengths() == [10, 20, 30, 36]
    answer = talk.ask(P[:25] + R)
    assert talk.events(answer, "ckpt_check") == [checked(36), checked(30), checked(20)]
    assert (answer.reused, answer.deciding) == ({"checkpoint": 20}, "LC-CKPT-PICK.PK3")


def test_every_checkpoint_is_examined_if_none_can_be_restored():
    talk = Talk("H", mode="none", checkpoint_min_step=0, ctx_checkpoints=5, batch_size=16)
    talk.ask(P, user_starts=(30,))
    answer = talk.ask(P[:25] + R)
    assert talk.events(answer, "ckpt_check") == [checked(36), checked(30)]
    assert (answer.reused, answer.deciding, answer.prompt_n) == ({"slot": 0}, "LC-CKPT-RESET", 35)


def test_a_prompt_that_must_fit_into_a_micro_batch_reuses_nothing_or_fails():
    talk = Talk("A", "b11549", "none", batch_size=16, ubatch_size=16)
    talk.ask(P[:16])
    fits = talk.ask(P[:16], kind="embedding")
    assert (fits.cache_n, fits.prompt_n, fits.deciding) == (0, 16, talk.server.core.rules.task_whole.rule)
    fails = talk.ask(P[:17], kind="embedding")
    assert (fails.status, fails.error_kind, dict(fails.error_numbers)) == (
        500, "longer-than-a-micro-batch", {"tokens": 17, "most": 16})  # fmt: skip
    assert fails.error == "input (17 tokens) is too large to process. increase the physical batch size " \
        "(current batch size: 16)"


def test_a_prompt_as_long_as_the_context_is_refused_with_both_numbers():
    talk = Talk("A", "b11549", "none")
    refused = talk.ask(word("a", 256))
    assert (refused.status, dict(refused.error_numbers)) == (400, {"tokens": 256, "room": 256})


@pytest.mark.parametrize(("n_keep", "kept"), [(None, 0), (0, 0), (4, 4)])
def test_a_shortened_prompt_keeps_no_token_at_its_start_unless_it_is_asked_to(n_keep, kept):
    """Blocks of half the rest of the context, 128 or 126 tokens, are lost."""
    long = word("long", 300)
    answer = Talk("A", "b6160", "none", context_shift=True).ask(long, 2, n_keep=n_keep)
    lost = (256 - kept) // 2
    assert answer.prompt == (*long[:kept], *long[kept + lost :]) and answer.truncated


def test_the_list_of_a_slot_is_as_long_after_a_moved_block_as_before():
    """A block of 20 tokens is moved from 20 to 10."""
    talk = Talk("A", mode="none", cache_reuse=8)
    talk.ask(P)
    assert talk.ask((*P[:10], *P[20:], *R)).reused == {"slot": 30}
    held = [event.because["held"] for event in talk.log.events if event.ev == "decided"
            and event.rule.startswith("LC-CKPT-NEED")]  # fmt: skip
    assert held == [0, 40]
    assert talk.server.sequences.held(0).tolist() == [*range(40)]


def test_a_block_of_a_single_token_is_moved_if_that_is_enough():
    for least, reused in ((1, 11), (2, 10), (0, 10)):
        talk = Talk("A", mode="none", cache_reuse=least)
        talk.ask(P)
        assert talk.ask((*P[:10], P[20], *R)).reused == {"slot": reused}
