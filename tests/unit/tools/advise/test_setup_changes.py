"""Tests of the changes that are tried, and of clashes between them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import engine_of
from cachesim.judging.lower_bound import EvaluationBound
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.advise.client_changes import ClientChange, own_slots
from cachesim.tools.advise.setup_changes import (
    CaseArguments,
    ChangeKind,
    Setup,
    SetupChange,
    Trial,
    TrialOutcome,
    affect_same_setting,
    arguments_of,
    builds,
    case_arguments,
    changes_of_client,
    command_words,
    flag_changes,
    has_command_line,
    loses,
    run_trial,
    single_changes,
)

PROFILE = "llama_cpp@b11549"
MANUAL = engine_of(PROFILE).manual


def slots(**server):
    """Return the options that give each conversation its own slot."""
    case = Setup(from_line("S40.A60/B80", profiles=(PROFILE,), server=server), PROFILE)
    return [one.options for one in changes_of_client(case, MANUAL) if one.client and one.client.name == "id_slot"]


def test_where_there_is_one_slot_more_slots_are_asked_for():
    assert slots(parallel=1) and all(MANUAL.slot_count(options) > 1 for options in slots(parallel=1))


def test_where_there_are_slots_they_are_shared_out_as_they_are():
    assert slots(parallel=2) == [{}]


@pytest.mark.parametrize(("a", "b", "same"), [
    ({"options": {"parallel": 2}}, {"options": {"parallel": 4}}, True),
    ({"options": {"parallel": 2}}, {"options": {"cache_ram": 0}}, False),
    ({"options": {"parallel": 2, "kv_unified": True}}, {"options": {"cache_ram": 0, "kv_unified": True}}, True),
    ({"profile": "a"}, {"profile": "b"}, True), ({"client": own_slots(2)}, {"client": own_slots(3)}, True),
    ({"kind": ChangeKind.BUILD, "profile": "a"}, {"kind": ChangeKind.PROPOSAL, "profile": "b"}, True),
    ({"profile": "a"}, {"options": {"parallel": 2}}, False),
])  # fmt: skip
def test_two_changes_of_one_thing_clash(a, b, same):
    one, other = (SetupChange(**{"kind": ChangeKind.FLAG, **words}) for words in (a, b))
    assert affect_same_setting(one, other) is affect_same_setting(other, one) is same


def test_without_a_list_of_the_engine_the_values_of_its_flags_are_tried():
    case = Setup(from_line("S40.A60/B80", profiles=(PROFILE,), server={}), PROFILE)
    now, flags = MANUAL.defaults, [flag for flag in MANUAL.flags if flag.tries]
    tried = [one.options for one in flag_changes(case, replace(MANUAL, tries=None))]
    assert tried == [{flag.name: value} for flag in flags for value in flag.tries if value != now[flag.name]]
    assert len(tried) > 3
    assert list(flag_changes(case, replace(MANUAL, tries=lambda now, load: iter(())))) == []


CASE = Setup(from_line("S40.A60/B80>3/S.A", model="GA", profiles=(PROFILE,), server={"parallel": 2}), PROFILE)
KNOWN = load(corpus_files()["llama-24143-entry-removed-hybrid"])
PINNED = SetupChange(ChangeKind.CLIENT, options={"parallel": 3}, client=own_slots(3))


def client(change):
    return SetupChange(ChangeKind.CLIENT, client=ClientChange("x", "do x", change))


def test_options_are_added_to_those_of_the_case():
    known = Setup(replace(KNOWN, server={"parallel": 2, "cache_ram": 7}, lives=("expected of a restart",)), PROFILE)
    found = SetupChange(ChangeKind.FLAG, options={"cache_ram": 0}).of(known)
    assert found == Setup(replace(known.scenario, server={"parallel": 2, "cache_ram": 0}, expect={}, lives=()), PROFILE)
    assert known.scenario.expect and found.scenario.steps == known.scenario.steps


def test_a_build_runs_the_same_case():
    found = SetupChange(ChangeKind.BUILD, profile="llama_cpp@b10587").of(CASE)
    assert found == Setup(CASE.scenario, "llama_cpp@b10587")


def test_a_client_sends_other_requests():
    found = client(lambda line: line._replace(steps=line.steps[:1])).of(CASE)
    assert (repr(found.scenario), found.scenario.server, found.profile) == ("S40.A60", {"parallel": 2}, PROFILE)
    assert [step.request for step in found.scenario.steps] == [CASE.scenario.steps[0].request]
    pinned = PINNED.of(CASE).scenario
    assert pinned.server == {"parallel": 3} and [step.request.id_slot for step in pinned.steps] == [0, 1, 0]


def test_a_client_change_without_effect_is_none():
    assert client(lambda line: None).of(CASE) is None
    spelled = load(corpus_files()["ik-same-text-other-tokens"])
    assert client(lambda line: line).of(Setup(spelled, spelled.profiles[0])) is None


@pytest.mark.parametrize(("change", "family"), [
    (SetupChange(ChangeKind.FLAG, options={"parallel": 2, "cache_ram": 0}), ("parallel",)), (PINNED, ("parallel",)),
    (SetupChange(ChangeKind.CLIENT, client=own_slots(2)), ("id_slot",)),
    (SetupChange(ChangeKind.BUILD, profile="x"), ("BUILD",)), (SetupChange(ChangeKind.PROPOSAL, profile="x"),
    ("PROPOSAL",)),
])  # fmt: skip
def test_alternatives_have_a_common_key(change, family):
    assert change.family == family


def test_changes_are_tried_in_the_order_of_their_cost():
    case = Setup(CASE.scenario, "llama_cpp@b10587")
    kinds = [one.kind for one in single_changes(case, engine_of(PROFILE))]
    assert kinds == sorted(kinds) and {*kinds} == {*ChangeKind}


def test_later_builds_come_first_then_proposals_of_the_newest_base():
    """Of the proposals on a rule set, that of the newest pull request comes first."""
    engine = engine_of(PROFILE)
    found = [*builds(engine.line[0], engine)]
    assert [one.profile for one in found if one.kind is ChangeKind.BUILD] == [*engine.line[1:]]
    proposals = found[len(engine.line) - 1 :]
    assert {one.profile: one.base for one in proposals} == engine.beside and len(proposals) > 1
    bases = [engine.line.index(one.base) for one in proposals if one.base in engine.line]
    assert bases == sorted(bases, reverse=True)


def test_a_build_between_two_rule_sets_is_followed_by_the_later_one():
    found = [one.profile for one in builds("llama_cpp@b9070", engine_of(PROFILE)) if one.kind is ChangeKind.BUILD]
    line = list(engine_of(PROFILE).line)
    assert found == line[line.index("llama_cpp@b9063") + 1 :]


def trial(*changes, evaluated=5, wrong=(), case=CASE, total=5):
    return Trial(changes, case, EvaluationBound((total,), total), TrialOutcome(evaluated, (evaluated,), wrong, (), (),
    ()))


def test_a_trial_loses_by_wrong_answers_or_needless_work():
    assert [loses(trial(**given)) for given in ({}, {"evaluated": 6}, {"wrong": (0,)}, {"evaluated": 4})] == [
        False, True, True, False]  # fmt: skip


def test_the_costliest_kind_counts_most():
    flag = SetupChange(ChangeKind.FLAG, options={"a": 1, "b": 2})
    assert [trial(*changes).dearness for changes in ((), (flag,), (flag, PINNED))] == [(0, 0, 0), (1, 1, 2), (2, 2, 3)]


def test_an_outcome_has_the_numbers_of_its_requests():
    """A wrong answer, one that stayed undecided, and a process that ended."""
    found = run_trial(Setup(load(corpus_files()["llama-one-token-checkpoint-hybrid"]), PROFILE)).outcome
    assert found.wrong == (2, 3) and (found.undecided, found.failed) == ((), ())
    assert len(found.each) == 4 and found.evaluated == sum(found.each)


def test_a_trial_is_a_judged_run():
    found = run_trial(CASE)
    assert found.bound.total <= found.outcome.evaluated == sum(found.outcome.each) and len(found.outcome.each) == 3
    bound = EvaluationBound((1,), 1)
    assert run_trial(CASE, (PINNED,), bound) == replace(found, changes=(PINNED,), bound=bound)


LIMITS = (("work", 9), ("orders", 2))
LIMIT_WORDS = ["--limit", "work=9", "--limit", "orders=2"]


@pytest.mark.parametrize(("made", "asked", "words"), [
    (trial(), CaseArguments(), ["S40.A60/B80>3/S.A", "-p", PROFILE, "--model", "GA", "--set", "parallel=2"]),
    (trial(), CaseArguments(limits=LIMITS),
     ["S40.A60/B80>3/S.A", "-p", PROFILE, "--model", "GA", "--set", "parallel=2", *LIMIT_WORDS]),
    (trial(SetupChange(ChangeKind.FLAG, options={"cache_ram": 0})),
     CaseArguments("my-case", "A", {"parallel": 1, "cache_ram": 5}, LIMITS),
     ["my-case", "-p", PROFILE, "--model", "A", "--set", "parallel=1", "--set", "cache_ram=0", *LIMIT_WORDS]),
    (trial(), CaseArguments("my-case"), ["my-case", "-p", PROFILE]),
    (trial(PINNED, case=PINNED.of(CASE)), CaseArguments("my-case", "A"),
     ["S40.A60@0/B80>3@1/S.A@0", "-p", PROFILE, "--model", "GA", "--set", "parallel=3"]),
])  # fmt: skip
def test_a_trial_has_the_words_of_a_command(made, asked, words):
    assert command_words(made, asked) == words and has_command_line(made, asked)


def test_words_that_are_spelled_out_have_no_line():
    spelled = load(corpus_files()["ik-same-text-other-tokens"])
    made = trial(case=Setup(spelled, spelled.profiles[0]))
    with pytest.raises(BadInput, match="spelled out in pieces"):
        command_words(made, CaseArguments())
    assert not has_command_line(made, CaseArguments()) and has_command_line(made, CaseArguments("x"))
    assert arguments_of(spelled) == CaseArguments(spelled.file)
    assert arguments_of(replace(spelled, file="")) == CaseArguments(spelled.id)


def test_a_case_without_a_name_is_its_line():
    assert arguments_of(CASE.scenario) == CaseArguments()
    assert case_arguments(CaseArguments(model="A", server={"n": True}, limits=LIMITS), "a line") == [
        "a line", "--model", "A", "--set", "n=true", *LIMIT_WORDS]  # fmt: skip
    assert case_arguments(CaseArguments("named"), "a line") == ["named"]