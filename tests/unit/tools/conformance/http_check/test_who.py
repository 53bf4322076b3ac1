"""Tests of the rule sets that answer a history as wrong as a server did."""

from __future__ import annotations

from cachesim.tools.conformance.http_check.known_faults import matching_rule_sets

STALE = "Wash5/A5/B10/B[:1].C5"


def test_rule_sets_with_the_fault_are_named_with_the_rule():
    said = matching_rule_sets(STALE, 3, [None] * 4)
    assert said and all(one.startswith("llama_cpp@") for one in said)
    assert all(" gives a wrong answer on " in one and ": LC-" in one for one in said)


def test_rule_sets_that_reuse_other_numbers_are_left_out():
    assert matching_rule_sets(STALE, 3, [None, None, None, 1]) == matching_rule_sets(STALE, 3, [None, 0, 0, 1]) != []
    assert matching_rule_sets(STALE, 3, [None, None, None, 4]) == []


def test_a_request_that_is_right_everywhere_matches_nothing():
    assert matching_rule_sets(STALE, 1, [None] * 4) == []
    assert matching_rule_sets(STALE, 3, [None] * 4, slots=False) == []
    assert matching_rule_sets("Wash5/not a line", 0, []) == []


def test_servers_without_slots_are_compared_with_engines_without_slots():
    said = matching_rule_sets("Wash5/A5>a3/A.a", 2, [None] * 3, slots=False)
    assert said and all(one.startswith("mlx_lm@") and "ML-LRU-EXACT" in one for one in said)
