"""Tests of the rule sets that answer a history as wrong as a server did, and of the rule behind it."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest

from cachesim.cli.main import main
from cachesim.tools.conformance.http_check.rules_with_fault import (
    MatchingRuleSet,
    RuleMatcher,
    WrongRequest,
    matching_rule_sets,
)

STALE = "Wash5/A5/B10/B[:1].C5"


def matched(*cached, line=STALE, request=3, slots=True):
    return matching_rule_sets(WrongRequest(line, request, cached), slots, "")


def test_rule_sets_with_the_fault_are_named_with_their_models():
    found = matched(*[None] * 4)
    assert [one.model for one in found] == ["GA", "S", "W32 A", "W8 A", "C W32"]
    assert {one.profile for one in found} == {"llama_cpp@b11549"} and {one.rule for one in found} == {""}
    assert found[0].sentence == "llama_cpp@b11549 gives a wrong answer on GA"


def test_rule_sets_that_reuse_other_numbers_are_left_out():
    assert matched(None, 0, 0, 1) and matched(None, None, None, 4) == []
    window = [matched(None, None, one, line="Wash5/C37/C[:32]>8", request=2) for one in (None, 1)]
    assert [[one.model for one in found] for found in window] == [["GA", "S", "W32 A", "C W32"], ["GA", "S", "C W32"]]


def test_a_request_that_is_right_everywhere_matches_nothing():
    assert matched(*[None] * 4, slots=False) == []
    assert matched(line="Wash5/not a line", request=0) == []


def test_servers_without_slots_are_compared_with_engines_without_slots():
    found = matched(*[None] * 3, line="Wash5/A5>a3/A.a", request=2, slots=False)
    assert found and {one.engine for one in found} == {"mlx_lm"}


@pytest.mark.part(2)
@pytest.mark.parametrize("line, request_number", [("Wash5/A2/A", 2), (STALE, 3)])
def test_the_rule_of_a_fault_is_the_one_that_why_names(capsys, line, request_number):
    [first, *_] = RuleMatcher(True, "").matches(WrongRequest(line, request_number, (None,) * 5))
    words = shlex.split(first.command)
    assert words[:2] == ["cachesim", "why"]
    main([*words[1:], "--json"])
    [why] = json.loads(capsys.readouterr().out)["why"]
    assert first.rule and first.rule == why["decided"]["rule"] and f": {first.rule} decided" in first.sentence


MATCH = MatchingRuleSet("llama_cpp", "llama_cpp@b11549", "GA", True, "cachesim why")


def test_a_match_as_data():
    rule = replace(MATCH, rule="R.1", cure="R.2 of R")
    assert rule.sentence == "llama_cpp@b11549 gives a wrong answer on GA: R.1 decided"
    assert rule.data() == {"profile": "llama_cpp@b11549", "model": "GA", "rule": "R.1", "command": "cachesim why"}
