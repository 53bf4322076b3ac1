"""Tests of requests that are served alone: chunks without checkpoints, and drafts whose key exceeds the caches by a
token."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Draft
from cachesim.engines.mlx_lm.model_layout import rows_of
from cachesim.events import MicroBatch
from tests.unit.engines.mlx_lm.serving import burst, inserted, keys, offsets, server, sound, text

P = tuple(range(1, 7))


def drafting(model="AAAA", profile="0.32.2", **flags):
    return server(profile, model, draft_model="A", **flags)


def behind(srv, length):
    """Return the tokens that the draft model's cache counts in the entry of a key of this length."""
    entry = next(entry for (_, key), entry in srv.core.cache.lru.entries().items() if len(key) == length)
    return int(rows_of(entry.layers[-1]).offset)


def test_5_10_alone_there_is_one_entry_at_the_end():
    srv = server()
    burst(srv, text(*P, seed=True))
    assert inserted(srv) == [(9, "assistant")] and sound(srv)
    (again,) = burst(srv, text(*P, seed=True, first=2000))
    assert again.cache_n == 0


def test_in_a_batch_the_second_request_finds_five():
    srv = server()
    burst(srv, text(*P))
    (again,) = burst(srv, text(*P, first=2000))
    assert again.cache_n == 5


@pytest.mark.parametrize("model", ["GGGA", "W8 A", "HH"])
def test_chunks_change_nothing(model):
    whole, chunks = server(model=model, mode="exact"), server(model=model, mode="exact", prefill_step_size=2)
    a, b = (burst(srv, text(*range(1, 12), n=4, seed=True))[0] for srv in (whole, chunks))
    assert [said.digest for said in a.outputs] == [said.digest for said in b.outputs]


def test_a_client_that_hangs_up_leaves_prompt_and_answer_so_far():
    srv = server()
    (answer,) = burst(srv, text(*P, n=9, seed=True, cancel_at=7))
    assert answer.cancelled and answer.tokens == [1000, 1001]
    assert keys(srv) == {"assistant": [8]} and sound(srv)


def test_7_4_the_last_token_is_missing_unless_it_was_a_draft():
    """Key 9, offset 8. The draft model's cache is also at 8: a token was drafted and not accepted."""
    srv = drafting()
    (answer,) = burst(srv, text(*P, n=3))
    assert (answer.draft_n, answer.draft_n_accepted) == (3 + 2 + 1, 0)
    assert offsets(srv) == {9: 8} and behind(srv, 9) == 8


def test_with_all_drafts_accepted_the_key_is_held():
    """Three tokens, three drafts, all accepted: 6 + 3 in the target, a token less in the draft model."""
    srv = drafting()
    (answer,) = burst(srv, text(*P, n=3, draft_else=3))
    assert (answer.draft_n, answer.draft_n_accepted) == (3, 3)
    assert offsets(srv) == {9: 9} and behind(srv, 9) == 8


def test_a_round_that_ends_with_the_targets_own_token():
    """Five tokens: three accepted drafts and a fourth token, then a rejected draft and the fifth token."""
    srv = drafting()
    (answer,) = burst(srv, text(*P, n=5, draft_else=3, drafts=(Draft(10, 1, 0),)))
    assert (answer.draft_n, answer.draft_n_accepted) == (4, 3)
    assert offsets(srv) == {11: 10}


def test_the_follow_up_goes_on_at_the_wrong_position():
    srv, cold = drafting(), drafting()
    burst(srv, text(*P, n=3))
    longer = text(*P, 1000, 1001, 1002, 50, 51, n=1)
    (warm,), (fresh,) = burst(srv, longer), burst(cold, longer)
    assert (warm.cache_n, fresh.cache_n) == (9, 0)
    assert warm.outputs[0].digest != fresh.outputs[0].digest


def test_7_5_a_ring_that_has_wrapped_is_not_rewound():
    """6 prompt tokens and 20 answered tokens without a correct draft: 18 rounds of 3 drafts, a round of 2, a round of
    1. The first round ends at 5 + 4 = 9, after the window of 8: all drafted tokens stay, 5 + 18 * 4 + 3 + 2 tokens
    under a key of 26."""
    srv = drafting("W8 W8")
    (answer,) = burst(srv, text(*P, n=20))
    assert answer.draft_n == 18 * 3 + 2 + 1
    assert offsets(srv) == {26: 82}


@pytest.mark.parametrize("profile, error", [("0.32.2", 404), ("m1072", 200)])
def test_caches_that_cannot_be_trimmed(profile, error):
    """Since #1109 such requests are refused; before, the states kept the drafted tokens."""
    srv = drafting("GGGA", profile)
    (answer,) = burst(srv, text(*P, n=3))
    assert answer.status == error and not srv.dead
    assert keys(srv) == ({} if error == 404 else {"assistant": [9]})


def test_once_the_first_round_began_with_what_is_no_full_step():
    """12 tokens in steps of 5: 10 in two steps, 2 with the first drafts."""
    srv = drafting(profile="m1072", prefill_step_size=5)
    (answer,) = burst(srv, text(*range(1, 13), n=3, draft_else=3))
    assert offsets(srv) == {15: 15} and answer.draft_n_accepted == 3


def test_a_client_that_hangs_up_in_the_middle_of_a_round():
    """Two of three drafts were returned; the third is removed with its row: 6 + 2."""
    srv = drafting()
    (answer,) = burst(srv, text(*P, n=9, draft_else=3, cancel_at=7))
    assert answer.cancelled and answer.tokens == [1000, 1001] and offsets(srv) == {8: 8}


@pytest.mark.parametrize(("accepted", "total"), [(1, 4), (2, 6), (3, 6)])
def test_accepted_drafts_are_the_tokens_that_the_target_samples(accepted, total):
    srv, plain = drafting(), server(model="AAAA")
    (drafted,), (alone,) = (burst(one, text(*P, n=8, draft_else=accepted)) for one in (srv, plain))
    assert drafted.tokens == alone.tokens == [*range(1000, 1008)] and drafted.draft_n_accepted == total
    assert [said.digest for said in drafted.outputs] == [said.digest for said in alone.outputs[:8]]


def passes(srv):
    """Return the passes of both models: first position and tokens."""
    found = {"target": [], "draft": []}
    for event in srv.log.events:
        if isinstance(event, MicroBatch):
            ((row, pos, n),) = event.runs
            assert row == 0
            found[event.model].append((pos, n))
    return found["target"], found["draft"]


@pytest.mark.parametrize(("flags", "request_", "target", "draft"), [
    # no draft is right: each round begins a token later, with as many drafts as tokens are left
    ({}, text(*P, n=3), [(0, 5), (5, 4), (6, 3), (7, 2)], [(0, 5), (5, 1), (6, 1), (7, 1), (6, 1), (7, 1), (7, 1)]),
    ({}, text(*P, n=5, draft_else=1), [(0, 5), (5, 4), (7, 4), (9, 2)],
     [(0, 5), (5, 1), (6, 1), (7, 1), (7, 1), (8, 1), (9, 1), (9, 1)]),
    # all drafts are right: the draft model has not evaluated the last of them
    ({}, text(*P, n=6, draft_else=9), [(0, 5), (5, 4), (9, 3)], [(0, 5), (5, 1), (6, 1), (7, 1), (8, 2), (10, 1)]),
    ({"prefill_step_size": 2}, text(*P, n=1), [(0, 2), (2, 2), (4, 1), (5, 2)], [(0, 2), (2, 2), (4, 1), (5, 1)]),
    ({}, text(*P, n=6, drafts=(Draft(6, 3, 2), Draft(9, 3, 0))), [(0, 5), (5, 4), (8, 4), (9, 3), (10, 2)],
     [(0, 5), (5, 1), (6, 1), (7, 1), (8, 1), (9, 1), (10, 1), (9, 1), (10, 1), (10, 1)]),
    ({"num_draft_tokens": 1}, text(*P, n=3, draft_else=1), [(0, 5), (5, 2), (7, 2)], [(0, 5), (5, 1), (6, 2)]),
])  # fmt: skip
def test_both_models_evaluate_these_tokens(flags, request_, target, draft):
    srv = drafting(**flags)
    (answer,) = burst(srv, request_)
    assert passes(srv) == (target, draft) and len(answer.tokens) == request_.n_predict


@pytest.mark.parametrize(("size", "fed"), [(2, [(0, 2), (2, 2), (4, 1), (5, 1)]), (5, [(0, 5), (5, 1)]),
                                           (4, [(0, 4), (4, 1), (5, 1)])])  # fmt: skip
def test_a_prompt_is_fed_in_chunks_but_for_its_last_token(size, fed):
    srv = server(prefill_step_size=size)
    (answer,) = burst(srv, text(*P, n=2, seed=True))
    assert passes(srv)[0] == [*fed, (6, 1), (7, 1)] and answer.tokens == [1000, 1001]
    assert [output.pos for output in answer.outputs] == [5, 6, 7]


@pytest.mark.parametrize(("cancel_at", "tokens"), [(5, [1000]), (6, [1000]), (7, [1000, 1001])])
def test_a_client_that_left_is_noticed_after_a_returned_token(cancel_at, tokens):
    (answer,) = burst(server(), text(*P, n=9, seed=True, cancel_at=cancel_at))
    assert answer.tokens == tokens and answer.cancelled
