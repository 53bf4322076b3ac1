"""Proofs of causes: which numbers prove a cause, and how many tokens were lost."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.log_signatures import (
    LogEvidence,
    RemovedPoint,
    behind_refused,
    behind_restored,
    changed_prompt,
    cleared_prefix,
    held_prompt,
    lost_beginning,
    removed_checkpoint,
    same_prompt,
    when_measured,
    whole_prefix,
)

EDITED = {"lost": (4, 4), "lcp": (120, 120), "n_tokens": (150, 150), "held": (124, 124)}


@pytest.mark.parametrize("kinds, cache_n, lost", [
    ((), (0, 0), None), ((), (116, 116), (4, 4)), (("ckpt_restore",), (0, 0), (4, 4)), (("n_past",), (0, 0), (4, 4)),
    (("batch",), (0, 0), None),
])  # fmt: skip
def test_a_changed_prompt_loses_tokens_only_if_reuse_is_on(kinds, cache_n, lost):
    assert changed_prompt(LogEvidence({}, {**EDITED, "cache_n": cache_n}, (), frozenset(kinds))) == lost


@pytest.mark.parametrize(("more", "lost"), [
    ({"lost": (1, 1)}, (1, 1)), ({"lost": (0, 1)}, None), ({"lcp": (1, 1)}, (4, 4)), ({"lcp": (0, 1)}, None),
    ({"lcp": (9, 123)}, (4, 4)), ({"lcp": (9, 124)}, None), ({"n_tokens": (121, 130)}, (4, 4)),
    ({"n_tokens": (120, 130)}, None), ({"held": (120, 124)}, None), ({"lcp": (120, None)}, None),
])  # fmt: skip
def test_a_changed_prompt_differs_before_the_end_of_the_slot_and_of_itself(more, lost):
    assert changed_prompt(LogEvidence({}, {**EDITED, "cache_n": (9, 9), **more})) == lost


def test_an_identical_prompt_loses_tokens_only_if_reuse_is_on():
    same = {"lcp": (9, 9), "n_tokens": (9, 9)}
    assert same_prompt(LogEvidence({}, {**same, "lost": (1, 1)})) is None
    assert same_prompt(LogEvidence({}, {**same, "lost": (0, 1)})) is None
    assert same_prompt(LogEvidence({}, {**same, "lost": (9, 9)})) is None
    assert same_prompt(LogEvidence({}, {**same, "lost": (9, 9)}, (), frozenset({"full_reprocess"}))) == (9, 9)


def test_the_whole_prefix_is_lost_except_for_reused_tokens():
    assert whole_prefix(LogEvidence({}, {"lcp": (50, 60)})) == (49, 60)
    assert whole_prefix(LogEvidence({}, {"lcp": (50, 60), "cache_n": (1, 1)})) == (48, 59)
    assert whole_prefix(LogEvidence({}, {"lcp": (50, 60), "n_tokens": (61, 61), "cache_n": (1, 1)})) == (49, 59)
    assert whole_prefix(LogEvidence({}, {"lcp": (1, 1), "cache_n": (1, 1)})) is None
    assert whole_prefix(LogEvidence({}, {"lcp": (50, 60), "cache_n": (60, None)})) is None


def test_a_restored_state_ends_where_the_line_or_the_first_batch_shows():
    lcp = {"lcp": (50, 50), "n_tokens": (60, 60)}
    assert behind_restored(LogEvidence({"pos_max": 39, "n_past": 40}, lcp)) == (10, 10)
    assert behind_restored(LogEvidence({"pos_max": 39}, {**lcp, "cache_n": (39, 39)})) == (11, 11)
    assert behind_restored(LogEvidence({"pos_max": 39}, lcp)) == (9, 11)
    assert behind_restored(LogEvidence({"pos_max": 49, "n_past": 50}, lcp)) is None
    assert behind_restored(LogEvidence({}, lcp)) is None and behind_restored(LogEvidence({"n_past": 40}, lcp)) is None
    assert behind_restored(LogEvidence({"pos_max": 0}, lcp)) == (48, 50)


def test_a_measured_proof_needs_the_reported_number_of_reused_tokens():
    proof, line = when_measured(behind_restored), {"pos_max": 39, "n_past": 40}
    assert proof(LogEvidence(line, {"lcp": (50, 50)})) is None
    assert proof(LogEvidence(line, {"lcp": (50, 50), "cache_n": (0, 0)})) is None
    assert proof(LogEvidence(line, {"lcp": (50, 50), "cache_n": (40, 40)})) == (9, 10)


def test_a_prompt_lost_its_beginning_if_it_shares_less_than_a_tenth():
    lengths = {"n_tokens": (150, 150), "held": (400, 400)}
    assert lost_beginning(LogEvidence({}, {**lengths, "lcp": (14, 14)})) == (0, 0)
    assert lost_beginning(LogEvidence({}, {**lengths, "lcp": (15, 15)})) is None
    assert lost_beginning(LogEvidence({}, {"n_tokens": (150, 150), "lcp": (0, 0)})) is None


def test_a_removed_checkpoint_is_read_from_its_positions():
    assert removed_checkpoint({"pos_min": 9, "pos_max": 9, "n_tokens": 10}) == RemovedPoint(9, 9, 10, 10)
    assert removed_checkpoint({"pos_min": 2, "pos_max": 9}) == RemovedPoint(2, 9, 9, 10)
    assert removed_checkpoint({"pos_min": -1, "pos_max": -1, "yes": False}) is None
    assert removed_checkpoint({"pos_min": 9, "pos_max": 9, "yes": True}) is None
    assert removed_checkpoint({"pos_min": 9, "pos_max": 9, "n_tokens": 40}) is None


def test_a_cleared_slot_lost_the_prefix_that_it_held():
    lcp = {"lcp": (50, 60), "cache_n": (1, 1)}
    assert cleared_prefix(LogEvidence({"n_slot": 70}, lcp)) == (48, 59)
    assert cleared_prefix(LogEvidence({"n_slot": 0}, lcp)) is None
    assert cleared_prefix(LogEvidence({}, lcp)) is None
    assert cleared_prefix(LogEvidence({"n_slot": 70}, {"lcp": (0, 60)})) is None


@pytest.mark.parametrize(("line", "lcp", "kinds", "lost"), [
    ({"p0": 40}, (50, 60), (), (49, 60)), ({"p0": 55}, (50, 60), (), (55, 60)),
    ({"p0": 40}, (50, None), (), (49, None)), ({"p0": 0}, (50, 60), (), None),
    ({}, (50, 60), (), None), ({"p0": 1}, (0, 60), (), (1, 60)),
    ({"p0": 40}, (50, 60), ("reuse_chunk",), None),
])  # fmt: skip
def test_a_refused_removal_loses_all_tokens_before_it(line, lcp, kinds, lost):
    assert behind_refused(LogEvidence(line, {"lcp": lcp}, (), frozenset(kinds))) == lost


def test_a_prompt_in_the_slot_loses_what_the_log_proves_unless_chunks_were_moved():
    assert held_prompt(LogEvidence({}, {})) is None
    assert held_prompt(LogEvidence({}, {"lost": (0, 3)})) is None
    assert held_prompt(LogEvidence({}, {"lost": (3, 3)})) == (3, 3)
    for kind in ("reuse_chunk", "reuse_result"):
        assert held_prompt(LogEvidence({}, {"lost": (3, 3)}, (), frozenset({kind}))) is None


@pytest.mark.parametrize(("numbers", "lost"), [
    ({"lcp": (9, 9), "n_tokens": (9, 9), "cache_n": (0, 0)}, (8, 8)),
    ({"lcp": (9, 9), "n_tokens": (12, 12), "cache_n": (0, 0)}, (9, 9)),
    ({"lcp": (9, 9), "n_tokens": (9, 9), "cache_n": (8, 8)}, None),
    ({"lcp": (7, 9), "n_tokens": (9, 12), "cache_n": (2, 2)}, (5, 7)),
])  # fmt: skip
def test_the_last_token_of_a_prompt_is_not_lost(numbers, lost):
    assert whole_prefix(LogEvidence({}, numbers)) == lost


@pytest.mark.parametrize(("lcp", "checks", "prefix"), [
    (None, (), (0, 29)), ((5, 9), (), (5, 9)), (None, ((0, 3, 7), (2, 9, 4)), (7, 29)),
    ((5, None), ((0, 3, 7),), (7, 29)),
    ((9, None), ((0, 3, 7),), (9, 29)), ((5, 9), ((0, 3, 7),), (7, 9)), ((5, 7), ((0, 3, 7),), (7, 7)),
    ((5, 6), ((0, 3, 7),), (5, 6)),
])  # fmt: skip
def test_a_common_prefix_reaches_at_least_to_the_place_before_which_a_checkpoint_must_begin(lcp, checks, prefix):
    numbers = {"n_tokens": (30, 30)} if lcp is None else {"n_tokens": (30, 30), "lcp": lcp}
    assert LogEvidence({}, numbers, checks).prefix == prefix


def test_a_prompt_of_unknown_length_may_be_as_short_as_its_prefix():
    assert LogEvidence({}, {"lcp": (50, 60)}).prefix == (49, 60)
    assert LogEvidence({}, {"lcp": (50, 60), "n_tokens": (51, None)}).prefix == (50, 60)
