"""Tests of the search for advice: better or correct outcomes, marked wrong outcomes, as simulated."""

from __future__ import annotations

import shlex
from functools import cache

import pytest

from cachesim.engines.registry import ENGINES
from cachesim.judging.lower_bound import EvaluationBound
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.advise.memory_meter import UNITS, Sizes
from cachesim.tools.advise.ranking import RankedAdvice, choose, key
from cachesim.tools.advise.search import AdviceSearch, advice_data, case_data, piece_data
from cachesim.tools.advise.setup_changes import (
    CaseArguments,
    ChangeKind,
    Setup,
    SetupChange,
    Trial,
    TrialOutcome,
    affect_same_setting,
    builds,
    flag_changes,
)

B11549 = "llama_cpp@b11549"


@cache
def searched(line, profile=B11549, model="GGGA", **server):
    """Return a completed search and its chosen advice."""
    search = AdviceSearch(Setup(from_line(line, model=model, profiles=(profile,), server=server), profile))
    list(search)
    return search, chosen(search)


def chosen(search, sizes=UNITS):
    """Return the chosen advice of a search."""
    return choose(search.base, search.found, sizes)


def test_the_best_comes_first_and_everything_helps():
    search, advice = searched("S40.A60/B80/S.C50/S.A.D5")
    keys = [(not one.certain, *key(one.tried)) for one in advice.good]
    assert len(keys) == 5 and keys == sorted(keys) and all(key(one.tried) < key(search.base) for one in advice.good)
    assert [one.certain for one in advice.good if one.tried.changes[0].kind is ChangeKind.PROPOSAL] == [False]
    assert all(one.tried.outcome.evaluated >= search.bound.total for one in advice.good)


def test_pairs_are_those_of_the_best_changes_that_can_be_had():
    """A build costs more than a flag and stands last; what is not released and what does not help is left out."""
    search, _ = searched("S60.|a30.|b30.|c30>2/S.|a.|e30.|c>2", "llama_cpp@b9518",
                         ctx_size=1024, batch_size=64, ubatch_size=16, parallel=1, checkpoint_min_step=20)  # fmt: skip
    alone = [one for one in search.found if len(one.changes) == 1]
    pairs = [one.changes for one in search.found if len(one.changes) == 2]
    assert 0 < len(pairs) <= 6 and all(len(one.changes) <= 2 for one in search.found)
    for change in (change for pair in pairs for change in pair):
        (single,) = [one for one in alone if one.changes == (change,)]
        assert change.kind < ChangeKind.PROPOSAL and key(single) < key(search.base)
    assert all(a.kind <= b.kind and not affect_same_setting(a, b) for a, b in pairs)


def test_trials_that_cannot_be_advice_need_no_judgement():
    whole, advice = searched("d2.S80.u5/e2.S.u", model="AA")
    search = AdviceSearch(whole.case, judges_all=False)
    list(search)
    assert advice_data(search, chosen(search), UNITS) == advice_data(whole, advice, UNITS)
    unjudged = [one for one in search.found if len(one.outcome.undecided) == len(one.outcome.each)]
    assert unjudged and all(one.outcome.evaluated >= search.base.outcome.evaluated for one in unjudged)


def test_where_nothing_is_lost_only_the_client_is_asked():
    search, advice = searched("A40/A.B20", model="AA")
    assert all(one.changes[0].kind is ChangeKind.CLIENT for one in search.found)
    assert advice.good == () == advice.traps
    _, advice = searched("d2.S80.u5/e2.S.u", model="AA")
    assert [one.tried.changes[0].client.name for one in advice.good] == ["changing part last"]


def test_other_requests_have_a_bound_of_their_own_and_the_same_requests_that_of_the_case():
    search, _ = searched("d2.S80.u5/e2.S.u", model="AA")
    bounds = {one.changes[0].client.name: one.bound.total for one in search.found}
    assert bounds["changing part last"] < bounds["mark messages"] == search.bound.total
    search, _ = searched("S40.A60/B80/S.C50")
    assert {one.bound for one in search.found if not any(change.client for change in one.changes)} == {search.bound}


def test_a_setting_that_answers_wrongly_is_a_trap():
    search, advice = searched("S40.|u20>t10.a5/S.|u.a.|v10", parallel=1, batch_size=64, ubatch_size=16)
    (trap,) = advice.traps
    assert trap.tried.changes[0].options == {"cache_reuse": 1}
    assert trap.tried.outcome.wrong == (1,) and trap.tried.outcome.evaluated < search.base.outcome.evaluated
    assert not any(one.tried.outcome.wrong for one in advice.good)


def test_what_mends_a_wrong_answer_comes_before_what_saves_tokens():
    search, advice = searched("A5/B10/B[:3].C3", parallel=1)
    assert search.base.outcome.wrong == (2,)
    assert advice.good and not advice.good[0].tried.outcome.wrong


def test_a_build_is_advised_from_which_on_it_is_good():
    _, advice = searched("S60.|a30.|b30.|c30>2/S.|a.|e30.|c>2", "llama_cpp@b9518",
                         ctx_size=1024, batch_size=64, ubatch_size=16, parallel=1, checkpoint_min_step=20)  # fmt: skip
    (build,) = [one for one in advice.good if one.tried.changes[0].kind is ChangeKind.BUILD]
    assert (build.tried.case.profile, build.later) == ("llama_cpp@b9765", True)


@pytest.mark.parametrize("name", list(ENGINES))
def test_builds_are_later_ones_and_proposals_come_last(name):
    engine = ENGINES[name]
    for profile in engine.line[:1]:
        found = list(builds(profile, engine))
        later = [one.profile for one in found if one.kind is ChangeKind.BUILD]
        assert later == list(engine.line[1:])
        assert {one.profile for one in found[len(later) :]} == set(engine.beside)
    for profile, base in engine.beside.items():
        found = [one.profile for one in builds(profile, engine)]
        assert profile not in found and (base not in engine.line or base not in found)


@pytest.mark.parametrize("name", list(ENGINES))
def test_every_option_that_is_tried_is_one_of_the_server(name):
    engine = ENGINES[name]
    line = "S400.A60>r4/B80/S.C50/S.A.r.D5"
    profile = engine.newest or engine.line[-1]
    case = Setup(from_line(line, profiles=(profile,)), profile)
    found = list(flag_changes(case, engine.manual))
    assert found
    for one in found:
        assert all(engine.manual.flag(option) for option in one.options)


def test_memory_is_that_of_the_model():
    search, advice = searched("S40.A60/B80", parallel=1)
    rows, states = Sizes(1 << 20, 0, 0, "rows"), Sizes(0, 0, 1 << 20, "states")
    assert chosen(search, rows._replace(source="")).base.bytes == (100 + 80) << 20     # in the store and in the slot
    assert chosen(search, states._replace(source="")).base.bytes >= 2 << 20
    assert advice_data(search, advice, UNITS)["base"]["mib"] is None
    assert advice_data(search, chosen(search, rows), rows)["base"]["mib"] >= 80        # the slot and the declared size


@pytest.mark.long
def test_a_line_is_shown_by_a_command_with_its_model_its_options_and_the_change():
    search, advice = searched("S40.A60/B80/S.C50/S.A.D5", model="GA", ctx_size=4096)
    commands = {" ".join(shlex.split(one["command"])) for one in advice_data(search, advice, UNITS)["advice"]
                if one["changes"][0]["kind"] == "flag" and len(one["changes"]) == 1}  # fmt: skip
    line = f"cachesim run S40.A60/B80/S.C50/S.A.D5 -p {B11549} --model GA --set ctx_size=4096 --set "
    assert commands and all(command.startswith(line) and "=" in command[len(line) :] for command in commands)


def test_an_interrupted_search_keeps_what_it_found():
    search = AdviceSearch(Setup(from_line("S40.A60/B80/S.C50/S.A.D5", profiles=(B11549,)), B11549))
    for number, _ in enumerate(search):
        if number == 14:
            break
    assert 0 < len(search.found) <= 15
    assert chosen(search).good


def test_each_attempt_is_yielded_as_the_trial_that_it_added():
    search = AdviceSearch(Setup(from_line("A40/B20/A.C5", model="A", profiles=(B11549,)), B11549))
    trials = [one for one in search if one is not None]
    assert [id(one) for one in trials] == [id(one) for one in search.found] and len(trials) > 1


def tried(evaluated, *changes, profile=B11549, wrong=(), corrupt=()):
    case = Setup(from_line("A40/B20", model="A", profiles=(B11549,)), profile)
    outcome = TrialOutcome(evaluated, (evaluated,), wrong, (), (), corrupt)
    return Trial(changes, case, EvaluationBound((40,), 40), outcome)


FLAG = SetupChange(ChangeKind.FLAG, options={"parallel": 2})


@pytest.mark.parametrize(("evaluated", "wrong", "has_texts", "holds"), [
    (60, (), True, True), (40, (), True, True), (39, (), True, False), (60, (1,), True, None), (39, (1,), True, False),
    (60, (), False, False),
])  # fmt: skip
def test_a_bound_is_open_while_answers_are_wrong(evaluated, wrong, has_texts, holds):
    """Another answer may evaluate fewer tokens."""
    base = tried(evaluated, wrong=wrong)
    found = case_data(AdviceSearch(base.case, base=base), has_texts)
    assert found["bound"] == {"total": 40, "each": [40], "holds": holds}
    assert (found["requests"], found["prompt_tokens"], found["base"]["evaluated"]) == (2, 60, evaluated)


def piece_of(trial, alike=(), before=100):
    search = AdviceSearch(trial.case, base=tried(before))
    return piece_data(RankedAdvice(trial, 3 << 20, alike=alike), search, UNITS, CaseArguments("a.toml"))


def test_a_suggestion_as_data():
    newer = SetupChange(ChangeKind.BUILD, profile=B11549)
    found = piece_of(tried(75, FLAG), (tried(75, newer), tried(75, FLAG)))
    assert (found["evaluated"], found["saved"], found["share"], found["bound"]) == (75, 25, 0.25, 40)
    assert (found["alike"], found["mib"], found["later"], found["certain"]) == ([B11549], None, False, True)
    assert found["command"].startswith("cachesim run a.toml -p ") and found["command"].endswith("--set parallel=2")
    assert (piece_of(tried(75, FLAG), before=0)["share"], found["rests_on"], found["since"]) == (0.0, [], [])


@pytest.mark.parametrize(("change", "fields"), [
    (FLAG, {"kind": "flag", "name": "parallel", "options": [{"name": "parallel", "value": 2}], "profile": None,
            "build": None, "date": None, "base": None, "released": True, "text": ""}),
    (SetupChange(ChangeKind.PROPOSAL, profile="llama_cpp@24035-v1", base="llama_cpp@b11063"),
     {"kind": "proposal", "name": "llama_cpp@24035-v1", "options": [], "profile": "llama_cpp@24035-v1", "date": None,
      "base": "llama_cpp@b11063", "released": False}),
    (SetupChange(ChangeKind.BUILD, profile="llama_cpp@b9518"),
     {"kind": "build", "name": "llama_cpp@b9518", "profile": "llama_cpp@b9518", "base": None, "released": True}),
])  # fmt: skip
def test_a_change_as_data(change, fields):
    (found,) = piece_of(tried(75, change, profile=change.profile or B11549))["changes"]
    assert {name: found[name] for name in fields} == fields
    assert bool(found["build"]) is bool(change.profile)