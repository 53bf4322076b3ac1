"""Tests of the rule sets that answer a history as wrong as a server did, and of the rule behind it."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES
from cachesim.judging import deciding_rule as deciding
from cachesim.tools.conformance.http_check import matching_rules
from cachesim.tools.conformance.http_check.matching_rules import (
    MatchingRuleSet,
    RuleMatcher,
    WrongRequest,
    _sent_line,
    _with_rule,
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
    models = [[one.model for one in matched(*cached)] for cached in ((None, None, None, 1), (None, 0, 0, 1))]
    assert models[0] == models[1] != []
    assert matched(None, None, None, 4) == []


def test_a_request_that_is_right_everywhere_matches_nothing():
    assert matched(*[None] * 4, request=1) == []
    assert matched(*[None] * 4, slots=False) == []
    assert matched(line="Wash5/not a line", request=0) == []


def test_servers_without_slots_are_compared_with_engines_without_slots():
    found = matched(*[None] * 3, line="Wash5/A5>a3/A.a", request=2, slots=False)
    assert found and {one.engine for one in found} == {"mlx_lm"}


@pytest.mark.part(4)
@pytest.mark.parametrize("line, request_number", [
    (STALE, 3), ("Wash5/S8.A4>3/S.B5>3/S.C600>3/S.C[:2].D2>3", 4), ("Wash5/C37/C[:32]>8", 2),
])  # fmt: skip
def test_the_rule_of_a_fault_is_the_one_that_why_names(capsys, line, request_number):
    [first, *_] = RuleMatcher(True, "").matches(WrongRequest(line, request_number, (None,) * 5))
    words = shlex.split(first.command)
    assert words[:2] == ["cachesim", "why"]
    main([*words[1:], "--json"])
    [why] = json.loads(capsys.readouterr().out)["why"]
    assert first.rule and first.rule == why["decided"]["rule"] and f": {first.rule} decided" in first.sentence


def test_a_rule_is_looked_up_once(monkeypatch):
    calls = []
    monkeypatch.setattr("cachesim.tools.conformance.http_check.matching_rules._with_rule",
                        lambda match, *_: calls.append(match) or match)  # fmt: skip
    matcher, wrong = RuleMatcher(True, ""), WrongRequest(STALE, 3, (None,) * 4)
    assert matcher.matches(wrong) is matcher.matches(wrong) and len(calls) == 1


DECIDED = SimpleNamespace(rule="R.1", variant_of="R", cures=(), together=())
MATCH = MatchingRuleSet("llama_cpp", "llama_cpp@b11549", "GA", True, "cachesim why")


@pytest.mark.parametrize(("found", "rule", "cure"), [
    (None, "", ""), (DECIDED, "", ""),
    ({"cures": (SimpleNamespace(variant="R.2"), SimpleNamespace(variant="R.3"))}, "R.1", "R.2 of R"),
    ({"together": (SimpleNamespace(old="R.1", new="R.2"), SimpleNamespace(old="S.1", new="S.2"))}, "R.1 and S.1",
     "R.2 and S.2"),
])  # fmt: skip
def test_the_rule_and_its_cure_are_those_that_decided(monkeypatch, found, rule, cure):
    asked = []
    found = SimpleNamespace(**{**vars(DECIDED), **found}) if isinstance(found, dict) else found
    monkeypatch.setattr(deciding, "deciding_rule", lambda run, request: asked.append((run.profile, request)) or found)
    said = _with_rule(MATCH, WrongRequest(STALE, 3), "")
    assert (said.rule, said.cure, asked) == (rule, cure, [("llama_cpp@b11549", 3)])
    assert replace(said, rule="", cure="") == MATCH


def test_only_the_first_of_a_few_models_gets_its_rule(monkeypatch):
    sets = [replace(MATCH, model=f"M{number}") for number in range(6)]
    seen = []
    monkeypatch.setattr(matching_rules, "matching_rule_sets", lambda wrong, slots, scales: seen.append(
        (wrong, slots, scales)) or sets)  # fmt: skip
    monkeypatch.setattr(matching_rules, "_with_rule", lambda match, wrong, scales: replace(match, rule=scales))
    found = RuleMatcher(False, "1,0.5").matches(WrongRequest(STALE, 3))
    assert [(one.model, one.rule) for one in found] == [("M0", "1,0.5"), ("M1", ""), ("M2", ""), ("M3", "")]
    assert seen == [(WrongRequest(STALE, 3), False, "1,0.5")]


@pytest.mark.parametrize(("line", "sent"), [
    ("A5>2/B[:1].C3", "A5>2@0/B[:1].C3@0"), ("A5{lora=0:1}/A{lora=off}", "A5@0{lora=0:1}/A@0{lora=off}"),
    ("A5{together}/A{lora=0:1 together}", "A5{together}/A{lora=0:1 together}"),
])  # fmt: skip
def test_requests_of_a_server_with_slots_are_run_in_slot_0(line, sent):
    engines = [SimpleNamespace(manual=SimpleNamespace(slots=slots)) for slots in (True, False)]
    assert [_sent_line(engine, WrongRequest(line, 0)) for engine in engines] == [sent, line]


def test_a_match_as_data():
    rule = replace(MATCH, rule="R.1", cure="R.2 of R")
    assert rule.sentence == "llama_cpp@b11549 gives a wrong answer on GA: R.1 decided"
    assert rule.data() == {"profile": "llama_cpp@b11549", "model": "GA", "rule": "R.1", "command": "cachesim why"}


def test_a_model_that_cannot_run_the_history_is_passed_over(monkeypatch):
    run = matching_rules._run

    def refused(engine, profile, model, wrong, scales):
        if model == "GA":
            raise BadInput("too many tokens")
        return run(engine, profile, model, wrong, scales)

    monkeypatch.setattr(matching_rules, "_run", refused)
    assert [one.model for one in matched(*[None] * 4)] == ["S", "W32 A", "W8 A", "C W32"]


def test_a_history_is_run_as_a_scenario_of_the_engine():
    engine = ENGINES["mlx_lm"]
    profile = engine.newest or engine.line[-1]
    run = matching_rules._run(engine, profile, "GA", WrongRequest("A5>a3/A.a", 1), "")
    assert (run.scenario.engine, run.scenario.profiles, run.scenario.model) == ("mlx_lm", (profile,), "GA")


def test_an_engine_without_a_main_branch_is_passed_over(monkeypatch):
    engine = SimpleNamespace(newest="", line=(), manual=SimpleNamespace(slots=True))
    monkeypatch.setattr("cachesim.engines.registry.ENGINES", {"x": engine})
    assert matching_rule_sets(WrongRequest("A5/A", 1), slots=True, scales="") == []


@pytest.mark.parametrize(("alike", "best"), [
    ({"llama_cpp": 1, "ik_llama": 2}, ["ik_llama"] * 2), ({"llama_cpp": 2, "ik_llama": 1}, ["llama_cpp"] * 2),
    ({"ik_llama": 1}, ["ik_llama"]), ({}, []), ({"mlx_lm": 3, "llama_cpp": 1}, ["llama_cpp"]),
])  # fmt: skip
def test_the_rule_sets_are_those_of_the_engine_that_matches_most(monkeypatch, alike, best):
    """mlx-lm has no slots. Most rule sets that reuse other numbers are those of llama.cpp."""
    monkeypatch.setattr(matching_rules, "_of", lambda engine, wrong, scales: [
        *[SimpleNamespace(engine=engine.name, alike=True)] * alike.get(engine.name, 0),
        *[SimpleNamespace(engine=engine.name, alike=False)] * (9 if engine.name == "llama_cpp" else 1)])  # fmt: skip
    found = matching_rule_sets(WrongRequest("A5/A", 1), slots=True, scales="")
    assert [(one.engine, one.alike) for one in found] == [(name, True) for name in best]


@pytest.mark.parametrize(("flag", "scales", "flags"), [
    ("scales", "1,0.5", {"scales": "1,0.5"}), ("scales", "", {}), ("", "1,0.5", {}), ("", "", {}),
])  # fmt: skip
def test_the_scales_of_adapters_are_an_option_of_engines_that_have_it(flag, scales, flags):
    assert matching_rules._flags(SimpleNamespace(manual=SimpleNamespace(adapter_scales=flag)), scales) == flags


def test_an_engine_without_a_newest_rule_set_is_run_under_the_last_of_its_line(monkeypatch):
    engine, profiles = SimpleNamespace(newest="", line=("x@1", "x@2"), manual=SimpleNamespace(slots=True)), []
    monkeypatch.setattr("cachesim.engines.registry.ENGINES", {"x": engine})
    monkeypatch.setattr(matching_rules, "_run", lambda engine, profile, *words: profiles.append(profile) or (
        SimpleNamespace(broken=[], requests=[])))  # fmt: skip
    assert matching_rule_sets(WrongRequest("A5/A", 1), slots=True, scales="") == [] and {*profiles} == {"x@2"}
