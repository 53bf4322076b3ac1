"""Tests of searches against another rule set: new and mended findings, and tokens evaluated under both."""

from __future__ import annotations

import json
from unittest.mock import patch

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.judging.fault_kinds import FaultKind
from cachesim.tools.search import run_properties
from cachesim.tools.search.campaign import SPREAD
from cachesim.tools.search.drawn_conversation import draw_conversation
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.run_properties import CampaignCost, compared
from tests.unit.tools.search.test_drawn_conversation import made

pytestmark = pytest.mark.long
BAD, GOOD = "ik_llama@1889-base", "ik_llama@main"
WARM = ("warm-equals-cold",)


def seen(profile, other_profile):
    """Compare a prompt sent twice on a hybrid model: the older rules restore an entry that is a token too long."""
    case = made("ik_llama", {"A": 12}, "A", "A", model="GA")
    return compared(case, profile, other_profile, WARM, {})


def test_a_fault_of_one_is_new_for_it_and_mended_for_the_other():
    here, there = seen(BAD, GOOD), seen(GOOD, BAD)
    assert [one.name for one in here.new] == [*WARM] and here.mended == []
    assert (there.new, there.mended) == ([], here.new)
    assert there.cost == CampaignCost(2, here.cost.theirs, here.cost.mine, 1, 12, 12)
    assert here.cost.mine < here.cost.theirs            # the wrong answer was cheap


def finding(step, rule, kind=FaultKind.ROW, stored="entry"):
    return PropertyFailure(
        "stored-equals-cold", step, kind, {"layer": 0, "position": 1, "stored_tokens": 3}, rule, stored
    )


@pytest.mark.parametrize(("other_finding", "new"), [
    (finding(3, "OTHER"), False),                           # a different deciding rule does not matter
    (finding(2, "R"), False),                               # the other rule set fails earlier: hidden
    (finding(4, "R"), True),                                # the other rule set fails later: new here
    (finding(3, "R", stored="checkpoint"), True),
    (finding(3, "R", FaultKind.STATE), True),
])  # fmt: skip
def test_what_is_the_same_fault_under_another_rule_set(other_finding, new):
    found = {BAD: [finding(3, "R")], GOOD: [other_finding]}
    case = made("ik_llama", {"A": 12}, "A", model="A")
    with patch.object(run_properties, "examined", lambda case, profile, *_, **__: found[profile]):
        assert compared(case, BAD, GOOD, WARM, {}).new == ([found[BAD][0]] if new else [])


def test_an_unset_number_gives_an_empty_comparison():
    class Unset:
        unset = True

    case = made("ik_llama", {"A": 3}, "A", model="A")
    with patch.object(run_properties, "observe_run", lambda *_: Unset()):
        assert compared(case, BAD, GOOD, WARM, {}) == ([], [], CampaignCost())


def test_a_crash_of_the_simulator_under_one_is_a_finding_of_that_one():
    plain = run_properties.observe_run

    def fails(scenario, profile, *rest):
        if profile == BAD:
            raise IndexError("as a test")
        return plain(scenario, profile, *rest)

    with patch.object(run_properties, "observe_run", fails):
        here, there = seen(BAD, GOOD), seen(GOOD, BAD)
    assert [one.name for one in here.new] == ["simulator"] == [one.name for one in there.mended]
    assert here.cost == CampaignCost()


def call(capsys, *argv):
    code = main([*map(str, argv)])
    got = capsys.readouterr()
    return code, got.out, got.err


FUZZ = ("fuzz", "-p", BAD, "--against", GOOD, "--property", "warm-equals-cold", "--model", "GA", "--examples", "6")


def test_the_command_tells_both_and_one_process_or_two_tell_the_same(capsys):
    code, out, _ = call(capsys, *FUZZ, "--json")
    data = json.loads(out)
    assert (code, data["against"]) == (exits.BROKEN, GOOD)
    assert data.keys() >= {"failures", "mended", "cost"}
    assert data["cost"].keys() == set(CampaignCost._fields) and data["cost"]["right"] <= data["cost"]["requests"]
    assert json.loads(call(capsys, *FUZZ, "--json", "-j", "2")[1]) == data
    for one in data["failures"]:
        two = compared(draw_conversation(one["conversation"], "ik_llama", ("GA",)), BAD, GOOD, WARM, {})
        assert one["kind"] in [found.kind for found in two.new] and one["conversation"] < SPREAD
    turned = json.loads(call(capsys, "fuzz", "-p", GOOD, "--against", BAD, *FUZZ[5:], "--json", "--no-shrink")[1])
    assert [(one["kind"], one["times"]) for one in turned["mended"]] == [
        (one["kind"], one["times"]) for one in data["failures"]
    ]
    assert turned["cost"]["mine"] == data["cost"]["theirs"]


def test_the_table_fits_and_says_what_is_mended(capsys):
    _, out, _ = call(capsys, "fuzz", "-p", GOOD, "--against", BAD, *FUZZ[5:], "--no-shrink")
    assert f"failures only under {BAD}" in out and "that both answer correctly" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_campaign_against_another_goes_on_where_it_stopped(capsys, tmp_path):
    whole = json.loads(call(capsys, *FUZZ, "--no-shrink", "--json")[1])
    some = (*FUZZ[:-1], "4", "--no-shrink", "--out", tmp_path)
    call(capsys, *some)
    code, out, _ = call(capsys, *FUZZ, "--no-shrink", "--json", "--out", tmp_path, "--resume")
    assert (code, json.loads(out)) == (exits.BROKEN, whole)
    assert len(list(tmp_path.glob("campaign-*.json"))) == 1


@pytest.mark.parametrize(("profile", "words"), [
    (BAD, "is the rule set of -p"), ("ik_llama@mian", "unknown profile"),
])  # fmt: skip
def test_what_cannot_be_compared_is_exit_2(capsys, profile, words):
    code, out, err = call(capsys, "fuzz", "-p", BAD, "--against", profile)
    assert (code, out) == (exits.BAD_INPUT, "") and words in err


def test_a_rule_set_of_another_engine_runs_with_its_own_options(capsys):
    code, out, _ = call(capsys, *FUZZ[:3], "--against", "vllm", *FUZZ[5:-1], "60", "--no-shrink", "--json")
    data = json.loads(out)
    assert (code, data["against"]) == (exits.BROKEN, "vllm@0.33.0")
    assert data["cost"]["requests"] > data["cost"]["right"] > 0
    case = draw_conversation(data["failures"][0]["conversation"], "ik_llama", ("GA",))
    own, other = case.scenario(BAD), case.scenario("vllm@0.33.0")
    assert (own.engine, other.engine, other.server) == ("ik_llama", "vllm", {})
    assert [step.request.prompt for step in own.steps] == [step.request.prompt for step in other.steps]
