"""Tests of what a log shows about its server, and of the advice that it allows."""

import json

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.engines.registry import engine_of
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.advise.case_facts import ASSUMED, GIVEN, LEAST, PRINTED, CaseFacts
from cachesim.tools.advise.client_changes import client_changes
from cachesim.tools.advise.setup_changes import ChangeKind, Setup, SetupChange
from tests.shared import ROOT

PROFILE = "llama_cpp@b9765"
MANUAL = engine_of(PROFILE).manual
DEFAULT = MANUAL.flag("ubatch_size").default


def case(**server):
    return Setup(from_line("S40.A60/B80", profiles=(PROFILE,), server=server), PROFILE)


def flag(value):
    return SetupChange(ChangeKind.FLAG, options={"ubatch_size": value})


def build(number):
    return SetupChange(ChangeKind.BUILD, profile=f"llama_cpp@b{number}")


@pytest.mark.parametrize(("source", "value", "allowed"), [
    (ASSUMED, DEFAULT, False), (ASSUMED, 256, True), (PRINTED, DEFAULT, True), (GIVEN, DEFAULT, True),
    (LEAST, 256, False),
])
def test_the_default_is_no_cure_of_a_value_that_was_assumed(source, value, allowed):
    facts = CaseFacts(sources={"ubatch_size": source})
    assert facts.allows(flag(value), case(ubatch_size=64)) is allowed


@pytest.mark.parametrize(("source", "clauses"), [
    (PRINTED, ()), (GIVEN, ()), (ASSUMED, ("-ub 64 was set",)), ("", ("the server has the default -ub 64",)),
])
def test_a_change_of_a_value_that_no_line_prints_has_a_condition(source, clauses):
    facts = CaseFacts(sources={"ubatch_size": source} if source else {})
    assert facts.conditions(flag(256), case(ubatch_size=64)) == clauses
    assert facts.assumed_options(case(ubatch_size=64)) == (clauses if source == ASSUMED else ())


@pytest.mark.parametrize(("low", "high", "given", "allowed", "conditions"), [
    (11549, 11549, False, False, 0), (11549, None, True, False, 0), (9713, 9713, False, True, 0),
    (9713, None, False, True, 1), (None, None, False, True, 1), (None, None, True, True, 0),
    (None, 9800, False, True, 0), (None, 11548, False, True, 0), (None, 11549, False, True, 1),
])
def test_a_build_is_advised_to_an_older_server_only(low, high, given, allowed, conditions):
    facts = CaseFacts(low=low, high=high, is_build_given=given)
    assert facts.allows(build(11549), case()) is allowed
    if allowed:
        assert len(facts.conditions(build(11549), case())) == conditions


def test_a_client_change_names_the_texts_that_it_assumes():
    changes = {one.name: SetupChange(ChangeKind.CLIENT, client=one) for one in client_changes(MANUAL)}
    assumed = {name for name, one in changes.items() if CaseFacts().conditions(one, case())}
    assert {"keep the answer", "warm up", "changing part last", "cache_prompt"} <= assumed
    assert "one after another" not in assumed              # lines show which requests ran together
    assert CaseFacts(texts="x").conditions(changes["keep the answer"], case()) == ("x",)

def test_a_log_that_the_simulation_contradicts_has_no_advice(tmp_path, capsys):
    text = (ROOT / "tests/unit/tools/server_logs/excerpt.log").read_text("utf-8")
    log = tmp_path / "b.log"
    log.write_text(text.replace("against 1499", "against 1400"), "utf-8")
    words = ["advise", str(log), "-q", "--limit", "sought=20000"]
    assert main([*words, "--json"]) == exits.UNDECIDED
    (data,) = json.loads(capsys.readouterr().out)["advise"]
    assert data["log"]["is_refuted"] and data["log"]["contradicted"]
    assert (data["advice"], data["not_released"]) == ([], [])
    assert main(words) == exits.UNDECIDED
    out = " ".join(capsys.readouterr().out.split())
    assert f"No advice: the simulation contradicts numbers of the log (line {data['log']['contradicted'][0]}" in out
