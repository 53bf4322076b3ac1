"""Tests of the selection of advice: worthwhile changes, their order, and traps."""

from __future__ import annotations

import pytest

from cachesim.engines.registry import engine_of
from cachesim.judging.lower_bound import EvaluationBound
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.advise import ranking
from cachesim.tools.advise.case_facts import ASSUMED, LEAST, PRINTED, CaseFacts
from cachesim.tools.advise.memory_meter import UNITS
from cachesim.tools.advise.ranking import SHOWN, TRAPS, choose, choose_best, helps, is_trap, matters
from cachesim.tools.advise.setup_changes import CaseArguments, ChangeKind, Setup, SetupChange, Trial, TrialOutcome

PROFILE = "llama_cpp@b11549"
CASE = Setup(from_line("S40.A60/B80", profiles=(PROFILE,)), PROFILE)
BOUND = 400


def flag(name, value=1):
    return SetupChange(ChangeKind.FLAG, options={name: value})


def build(name, kind=ChangeKind.BUILD):
    return SetupChange(kind, profile=name, base="llama_cpp@b10587" if kind is ChangeKind.PROPOSAL else "")


UNSEEN = Setup(load(corpus_files()["vllm-chunk-ends-before-an-image"]), "vllm@0.33.0-repaired")
"""Its numbers depend on an outcome that was never seen on a real server."""


def trial(evaluated, *changes, wrong=(), failed=(), undecided=(), corrupt=(), line="", is_seen=True):
    profile = next((one.profile for one in changes if one.profile), PROFILE)
    outcome = TrialOutcome(evaluated, (evaluated,), wrong, undecided, failed, corrupt)
    scenario = from_line(line, profiles=(PROFILE,)) if line else CASE.scenario
    case = Setup(scenario, profile) if is_seen else UNSEEN
    return Trial(changes, case, EvaluationBound((BOUND,), BOUND), outcome)


BASE = trial(1000)


def chosen(*found, base=BASE):
    """Choose among these trials."""
    return choose(base, list(found), UNITS)


def advised(advice):
    return [one.tried.outcome.evaluated for one in advice.good]


@pytest.mark.parametrize(("evaluated", "worth"), [(990, True), (991, False), (1000, False)])
def test_a_line_is_worth_a_hundredth_of_the_evaluated_tokens(evaluated, worth):
    assert matters(trial(evaluated, flag("parallel")), BASE) is worth


@pytest.mark.parametrize(("outcome", "base", "better"), [
    ({"evaluated": 999}, {}, True), ({"evaluated": 1000}, {}, False),
    ({"evaluated": 2000}, {"wrong": (1,)}, True), ({"evaluated": 2000}, {"failed": (1,)}, True),
    ({"evaluated": 10, "wrong": (1,)}, {}, False), ({"evaluated": 10, "wrong": (1,)}, {"wrong": (1,)}, False),
    ({"evaluated": 2000, "wrong": (1,)}, {"wrong": (1, 2)}, True),
    ({"evaluated": 10, "undecided": (1,)}, {}, False), ({"evaluated": 10, "failed": (1,)}, {"failed": (1,)}, True),
])  # fmt: skip
def test_right_answers_count_more_than_tokens(outcome, base, better):
    outcome = {"evaluated": 1000, **outcome}
    one, before = trial(outcome.pop("evaluated"), flag("parallel"), **outcome), trial(1000, **base)
    assert helps(one, before) is better
    if better and before.outcome != BASE.outcome:
        assert matters(one, before)


def test_a_trap_evaluates_less_and_answers_wrongly():
    assert is_trap(trial(999, flag("x"), wrong=(0,)), BASE)
    assert not is_trap(trial(1000, flag("x"), wrong=(0,)), BASE) and not is_trap(trial(1, flag("x")), BASE)
    assert not is_trap(trial(1, flag("x"), wrong=(0,), failed=(1,)), BASE)
    found = [trial(100 * n, flag(f"x{n}"), wrong=(0,)) for n in (5, 3, 4, 9)]
    advice = chosen(*found, trial(300, flag("x5"), wrong=(0,)), trial(999, flag("y"), wrong=(0,)))
    assert [one.tried.outcome.evaluated for one in advice.traps] == [300, 300] and len(advice.traps) == TRAPS
    assert advice.good == ()


def test_the_best_come_first_and_of_equals_the_one_that_needs_less_memory():
    sized = (("a", 600, "S40.A90"), ("b", 500, ""), ("c", 600, "S40"))
    advice = chosen(*(trial(evaluated, flag(name), line=line) for name, evaluated, line in sized))
    assert [next(iter(one.tried.changes[0].options)) for one in advice.good] == ["b", "c", "a"]
    assert advice.good[1].bytes < advice.good[2].bytes
    two = SetupChange(ChangeKind.FLAG, options={"a": 1, "b": 1})
    assert chosen(trial(600, flag("c"), line="S40.A90"), trial(600, two, line="S40")).good[0].tried.changes == (two,)
    many = chosen(*(trial(500 + n, flag(f"x{n}")) for n in range(9)))
    assert advised(many) == [500 + n for n in range(SHOWN)]


NAMED = CaseArguments("case.toml")


@pytest.mark.parametrize(("sure", "order"), [
    ((506, 507), [506, 500, 501, 502, 503]), ((500, 507), [500, 501, 502, 503, 504]), ((), [500, 501, 502, 503, 504]),
])  # fmt: skip
def test_suggestions_are_examined_until_one_is_certain_and_that_one_comes_first(sure, order):
    found = [trial(n, flag(f"x{n}"), is_seen=n in sure) for n in range(500, 508)]
    good = choose(BASE, found, UNITS, NAMED).good
    assert [one.tried.outcome.evaluated for one in good] == order
    assert [one.certain for one in good] == [bool(sure), False, False, False, False]
    assert choose_best(BASE, found, UNITS, NAMED, None) == good[0]


def test_of_equal_suggestions_the_first_is_the_best():
    found = [trial(500, flag(name), is_seen=False) for name in "ab"]
    assert choose_best(BASE, found, UNITS, NAMED, None).tried is found[0]


@pytest.mark.parametrize(("evaluated", "shown"), [(500, False), (499, True)])
def test_an_uncertain_suggestion_must_save_more_than_a_certain_one_of_its_family(evaluated, shown):
    both = SetupChange(ChangeKind.FLAG, options={"parallel": 8, "ubatch_size": 64})
    good = choose(BASE, [trial(500, SLOTS), trial(evaluated, both)], UNITS, facts=FACTS).good
    assert [one.certain for one in good] == [True, False][: 1 + shown]


def test_other_values_of_an_option_that_do_the_same_are_named_beside_it():
    few, more, worse = trial(500, flag("x", 2)), trial(500, flag("x", 3)), trial(600, flag("x", 4))
    (one,) = chosen(few, more, worse).good
    assert (one.tried, one.alike) == (few, (more,))


def test_corrupt_memory_comes_behind_a_change_that_leaves_none():
    advice = chosen(trial(500, flag("a"), corrupt=(1,)), trial(500, flag("b")))
    assert [bool(one.tried.outcome.corrupt) for one in advice.good] == [False, True]


@pytest.mark.parametrize(("single", "pair", "worth"), [(600, 590, True), (600, 591, False), (400, 500, False)])
def test_a_pair_must_do_clearly_more_than_each_of_its_changes(single, pair, worth):
    a, b = flag("a"), flag("b")
    advice = chosen(trial(single, a), trial(900, b), trial(pair, a, b))
    assert any(len(one.tried.changes) == 2 for one in advice.good) is worth


def test_a_pair_that_mends_what_each_change_leaves_wrong_is_worth_a_line():
    a, b, base = flag("a"), flag("b"), trial(1000, wrong=(1, 2))
    halves = trial(900, a, wrong=(1,)), trial(900, b, wrong=(2,))
    assert any(len(one.tried.changes) == 2 for one in chosen(*halves, trial(950, a, b), base=base).good)
    mended = trial(900, a), trial(900, b, wrong=(2,))
    assert all(len(one.tried.changes) == 1 for one in chosen(*mended, trial(880, a, b), base=base).good)


def test_the_best_suggestion_is_the_first_of_all():
    found = [trial(evaluated, flag(f"a{evaluated}")) for evaluated in (700, 500, 600)]
    one = choose_best(BASE, found, UNITS, facts=None, asked=None)
    assert one.tried is found[1] and choose(BASE, found, UNITS).good[0] == one


def test_without_a_suggestion_none_is_the_best():
    assert choose_best(BASE, [trial(999, flag("a"))], UNITS, facts=None, asked=None) is None


def test_of_builds_the_first_of_those_that_stay_as_good_is_named():
    line = list(engine_of(PROFILE).line)[-4:]
    found = [trial(n, build(name)) for name, n in zip(line, (700, 600, 500, 500), strict=True)]
    (one,) = choose(BASE, found, UNITS).good
    assert (one.tried.case.profile, one.later) == (line[2], True)


def test_a_build_that_was_better_than_the_newest_is_named_too():
    line = list(engine_of(PROFILE).line)[-4:]
    advice = chosen(*(trial(n, build(name)) for name, n in zip(line, (700, 450, 450, 500), strict=True)))
    assert [(one.tried.case.profile, one.later) for one in advice.good] == [(line[1], True), (line[2], False)]
    lost = chosen(*(trial(n, build(name)) for name, n in zip(line, (700, 450, 600, 1000), strict=True)))
    assert [(one.tried.case.profile, one.later) for one in lost.good] == [(line[1], False)]


@pytest.mark.parametrize(("released", "proposed"), [(500, []), (501, [500])])
def test_a_proposal_that_a_released_build_equals_is_not_shown(released, proposed):
    newest = engine_of(PROFILE).line[-1]
    advice = chosen(trial(released, build(newest)), trial(500, build("llama_cpp@24035-v3", ChangeKind.PROPOSAL)))
    assert advised(advice) == [released, *proposed]


FACTS = CaseFacts({"parallel": PRINTED, "cache_ram": LEAST})
"""A log that prints the number of slots, and shows the least limit of the prompt cache."""
SLOTS, STORE, UBATCH = flag("parallel", 4), flag("cache_ram", 0), flag("ubatch_size", 64)


def test_the_conditions_of_all_changes_and_of_the_case_are_named_once():
    facts = CaseFacts({"batch_size": ASSUMED})
    both = ranking.conditions(trial(500, UBATCH, flag("batch_size", 64)), BASE, facts)
    assert len(both) == 2 and "-ub" in both[0] and "-b " in both[1]
    assert ranking.conditions(trial(500, UBATCH), BASE, None) == ()
    assert ranking.conditions(trial(500, SLOTS), BASE, FACTS) == ()


def test_a_saving_can_be_had_if_it_is_released_and_rests_on_nothing():
    proposed = trial(500, build("llama_cpp@24035-v3", ChangeKind.PROPOSAL))
    assert ranking.can_be_had(trial(500, UBATCH), BASE, None) and not ranking.can_be_had(proposed, BASE, None)
    assert not ranking.can_be_had(trial(500, UBATCH), BASE, FACTS)
    assert ranking.can_be_had(trial(500, SLOTS), BASE, FACTS)


def test_a_log_narrows_the_suggestions_and_puts_certain_ones_first():
    """It must allow all changes of a pair."""
    found = [trial(500, UBATCH), trial(600, SLOTS), trial(400, STORE), trial(300, SLOTS, STORE)]
    good = choose(BASE, found, UNITS, facts=FACTS).good
    assert [(one.tried.outcome.evaluated, one.certain, bool(one.rests_on)) for one in good] == [
        (600, True, False), (500, False, True)]  # fmt: skip
    best = choose_best(BASE, found, UNITS, CaseArguments(), FACTS)
    assert best.tried.outcome.evaluated == 600


@pytest.mark.parametrize(("singles", "pair", "worth"), [
    ([900, 800], 790, True), ([900, 800], 791, False), ([], 990, True), ([], 991, False),
])  # fmt: skip
def test_a_pair_saves_a_hundredth_more_than_its_better_change(singles, pair, worth):
    changes = flag("a"), flag("b")
    alone = [trial(evaluated, change) for evaluated, change in zip(singles, changes, strict=False)]
    good = chosen(*alone, trial(pair, *changes)).good
    assert any(len(one.tried.changes) == 2 for one in good) is worth
