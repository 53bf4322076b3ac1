"""Tests of conversation keys, with the numbers of sections 4.3 and 5 of the specification."""

from __future__ import annotations

from cachesim.engines.mlx_lm.rules import keys as rules

P = tuple(range(22))
BARE = P[:19]
ENDS = [11, 19]


def test_the_whole_prompt_is_asked_for_and_what_is_held_is_stored():
    assert rules.key_prompt(P, BARE, ENDS).value == rules.ConversationKey(P, "held", ())


def test_the_proposals_leave_out_suffix_and_answer():
    """5.1: the key of [S, u(3)] has 19 tokens, boundaries [11]. #929 adds the end of the key, without effect."""
    assert rules.key_bare(P, BARE, ENDS).value == rules.ConversationKey(BARE, "asked", (11,))
    assert rules.key_bare_all(P, BARE, ENDS).value == rules.ConversationKey(BARE, "asked", (11, 19))


def test_a_text_has_no_suffix_and_no_boundaries():
    assert rules.key_bare(P, P, []).value == rules.key_bare_all(P, P, []).value == rules.ConversationKey(P, "asked", ())


def test_the_two_generators():
    assert (rules.batch_whole().value, rules.batch_segments().value) == ("whole", "segments")


def test_a_draft_model_or_a_seed_keeps_a_request_out_of_the_batch():
    said = {(drafts, seed): rules.is_batchable(drafts, seed).value for drafts in (0, 1) for seed in (0, 1)}
    assert said == {(0, 0): True, (0, 1): False, (1, 0): False, (1, 1): False}


def test_a_new_request_has_the_limit_of_its_generator():
    assert [fn(limit).value for fn in (rules.new_limited, rules.new_unlimited) for limit in (0, 7)] == [0, 7, 0, 0]
