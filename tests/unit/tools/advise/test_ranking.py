"""Tests of the selection of advice: worthwhile changes, their order, and traps."""

from __future__ import annotations

import pytest

from cachesim.engines.registry import engine_of
from cachesim.judging.lower_bound import EvaluationBound
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.advise import ranking
from cachesim.tools.advise.memory_meter import UNITS
from cachesim.tools.advise.ranking import SHOWN, TRAPS, RankedAdvice, choose, choose_best, helps, is_trap, matters
from cachesim.tools.advise.setup_changes import CaseArguments, ChangeKind, Setup, SetupChange, Trial, TrialOutcome

PROFILE = "llama_cpp@b11549"
CASE = Setup(from_line("S40.A60/B80", profiles=(PROFILE,)), PROFILE)
LEAST = 400


def flag(name, value=1):
    return SetupChange(ChangeKind.FLAG, options={name: value})


def build(name, kind=ChangeKind.BUILD):
    return SetupChange(kind, profile=name, base="llama_cpp@b10587" if kind is ChangeKind.PROPOSAL else "")


def trial(evaluated, *changes, wrong=(), failed=(), undecided=(), corrupt=()):
    profile = next((one.profile for one in changes if one.profile), PROFILE)
    outcome = TrialOutcome(evaluated, (evaluated,), wrong, undecided, failed, corrupt)
    return Trial(changes, Setup(CASE.scenario, profile), EvaluationBound((LEAST,), LEAST), outcome)


BASE = trial(1000)


@pytest.fixture
def chosen(monkeypatch):
    """Choose among these trials; memory is 1 byte except for those named."""

    def of(*found, base=BASE, **sizes):
        names = {id(one.case): sizes[name] for one in found for name in one.changes[0].options if name in sizes}
        monkeypatch.setattr(ranking, "peak_bytes", lambda case, _: names.get(id(case), 1))
        monkeypatch.setattr(ranking, "since", lambda *_: [])
        return choose(base, list(found), UNITS)

    return of


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


def test_a_trap_evaluates_less_and_answers_wrongly(chosen):
    assert is_trap(trial(999, flag("x"), wrong=(0,)), BASE)
    assert not is_trap(trial(1000, flag("x"), wrong=(0,)), BASE) and not is_trap(trial(1, flag("x")), BASE)
    assert not is_trap(trial(1, flag("x"), wrong=(0,), failed=(1,)), BASE)
    found = [trial(100 * n, flag(f"x{n}"), wrong=(0,)) for n in (5, 3, 4, 9)]
    advice = chosen(*found, trial(300, flag("x5"), wrong=(0,)), trial(999, flag("y"), wrong=(0,)))
    assert [one.tried.outcome.evaluated for one in advice.traps] == [300, 300] and len(advice.traps) == TRAPS
    assert advice.good == ()


def test_the_best_come_first_and_of_equals_the_one_that_needs_less_memory(chosen):
    found = [trial(n, flag(name)) for name, n in (("a", 600), ("b", 500), ("c", 600))]
    advice = chosen(*found, a=9, c=5)
    assert [next(iter(one.tried.changes[0].options)) for one in advice.good] == ["b", "c", "a"]
    assert [one.bytes for one in advice.good] == [1, 5, 9]
    many = chosen(*(trial(500 + n, flag(f"x{n}")) for n in range(9)))
    assert advised(many) == [500 + n for n in range(SHOWN)]


def test_other_values_of_an_option_that_do_the_same_are_named_beside_it(chosen):
    few, more, worse = trial(500, flag("x", 2)), trial(500, flag("x", 3)), trial(600, flag("x", 4))
    (one,) = chosen(few, more, worse).good
    assert (one.tried, one.alike) == (few, (more,))


def test_corrupt_memory_comes_behind_a_change_that_leaves_none(chosen):
    advice = chosen(trial(500, flag("a"), corrupt=(1,)), trial(500, flag("b")))
    assert [bool(one.tried.outcome.corrupt) for one in advice.good] == [False, True]


@pytest.mark.parametrize(("single", "pair", "worth"), [(600, 590, True), (600, 591, False), (400, 500, False)])
def test_a_pair_must_do_clearly_more_than_each_of_its_changes(chosen, single, pair, worth):
    a, b = flag("a"), flag("b")
    advice = chosen(trial(single, a), trial(900, b), trial(pair, a, b))
    assert any(len(one.tried.changes) == 2 for one in advice.good) is worth


def test_a_pair_that_mends_what_each_change_leaves_wrong_is_worth_a_line(chosen):
    a, b, base = flag("a"), flag("b"), trial(1000, wrong=(1, 2))
    halves = trial(900, a, wrong=(1,)), trial(900, b, wrong=(2,))
    assert any(len(one.tried.changes) == 2 for one in chosen(*halves, trial(950, a, b), base=base).good)
    mended = trial(900, a), trial(900, b, wrong=(2,))
    assert all(len(one.tried.changes) == 1 for one in chosen(*mended, trial(880, a, b), base=base).good)


@pytest.mark.parametrize(("unsure", "best", "examined"), [
    ((), 500, [500]), ((500,), 600, [500, 600]), ((500, 600), 700, [500, 600, 700]),
    ((500, 600, 700), 500, [500, 600, 700]),
])  # fmt: skip
def test_the_best_suggestion_is_the_first_of_all(monkeypatch, unsure, best, examined):
    """What a saving depends on puts it after the certain ones; the others need not be examined."""
    found = [trial(evaluated, flag(f"a{evaluated}")) for evaluated in (700, 500, 600)]
    asked = []

    def examine(piece):
        asked.append(piece.tried.outcome.evaluated)
        return piece._replace(certain=asked[-1] not in unsure)

    monkeypatch.setattr(ranking, "peak_bytes", lambda *_: 1)
    monkeypatch.setattr(ranking, "_with_dependences", examine)
    one = choose_best(BASE, found, UNITS, facts=None, asked=None)
    assert (one.tried.outcome.evaluated, asked) == (best, examined)
    assert choose(BASE, found, UNITS).good[0] == one


def test_without_a_suggestion_none_is_the_best():
    assert choose_best(BASE, [trial(999, flag("a"))], UNITS, facts=None, asked=None) is None


def test_of_builds_the_first_of_those_that_stay_as_good_is_named():
    line = list(engine_of(PROFILE).line)[-4:]
    found = [trial(n, build(name)) for name, n in zip(line, (700, 600, 500, 500), strict=True)]
    (one,) = choose(BASE, found, UNITS).good
    assert (one.tried.case.profile, one.later) == (line[2], True)


def test_a_build_that_was_better_than_the_newest_is_named_too(chosen):
    line = list(engine_of(PROFILE).line)[-4:]
    advice = chosen(*(trial(n, build(name)) for name, n in zip(line, (700, 450, 450, 500), strict=True)))
    assert [(one.tried.case.profile, one.later) for one in advice.good] == [(line[1], True), (line[2], False)]
    lost = chosen(*(trial(n, build(name)) for name, n in zip(line, (700, 450, 600, 1000), strict=True)))
    assert [(one.tried.case.profile, one.later) for one in lost.good] == [(line[1], False)]


@pytest.mark.parametrize(("released", "proposed"), [(500, []), (501, [500])])
def test_a_proposal_that_a_released_build_equals_is_not_shown(chosen, released, proposed):
    newest = engine_of(PROFILE).line[-1]
    advice = chosen(trial(released, build(newest)), trial(500, build("llama_cpp@24035-v3", ChangeKind.PROPOSAL)))
    assert [n for n in advised(advice) if n != released] == proposed and released in advised(advice)


@pytest.mark.parametrize(("certain", "found", "after"), [
    (True, [], True), (True, ["outcome"], False), (False, [], False), (False, ["outcome"], False),
])  # fmt: skip
def test_a_saving_that_depends_on_an_unseen_outcome_is_not_certain(monkeypatch, certain, found, after):
    ran = []
    monkeypatch.setattr(ranking, "run_judged", lambda *given: ran.append(given) or "run")
    monkeypatch.setattr(ranking, "predicted", lambda run: [*found] if run == "run" else None)
    piece = RankedAdvice(trial(500, flag("parallel")), 7, certain=certain)
    assert ranking._with_dependences(piece) == piece._replace(predicted=tuple(found), certain=after)
    assert ran == [(CASE.scenario, PROFILE, "provenance")]


class Facts:
    """Facts of a log that allow some options, and state a condition for some."""

    def __init__(self, *allowed, conditions=(), assumed=()):
        self.allowed, self.needed, self.assumed = allowed, dict(conditions), assumed

    def allows(self, change, case):
        assert case == BASE.case
        return {*change.options} <= {*self.allowed}

    def conditions(self, change, case):
        assert case == BASE.case
        return tuple(self.needed[name] for name in change.options if name in self.needed)

    def assumed_options(self, case):
        assert case == BASE.case
        return self.assumed


@pytest.mark.parametrize(("facts", "is_open"), [
    (None, True), (Facts("a", "b"), True), (Facts("a"), False), (Facts("b"), False), (Facts(), False),
])  # fmt: skip
def test_a_log_must_allow_all_changes_of_a_pair(facts, is_open):
    assert ranking._is_open(trial(500, flag("a"), flag("b")), BASE, facts) is is_open


def test_the_conditions_of_all_changes_and_of_the_case_are_named_once():
    facts = Facts(conditions={"a": "x", "b": "y"}, assumed=("y", "z"))
    assert ranking.conditions(trial(500, flag("b"), flag("a")), BASE, facts) == ("y", "x", "z")
    assert ranking.conditions(trial(500, flag("a")), BASE, None) == ()


def test_a_saving_can_be_had_if_it_is_released_and_rests_on_nothing():
    proposed = trial(500, build("llama_cpp@24035-v3", ChangeKind.PROPOSAL))
    assert ranking.can_be_had(trial(500, flag("a")), BASE, None) and not ranking.can_be_had(proposed, BASE, None)
    assert not ranking.can_be_had(trial(500, flag("a")), BASE, Facts(conditions={"a": "x"}))
    assert ranking.can_be_had(trial(500, flag("c")), BASE, Facts(conditions={"a": "x"}))


def test_a_log_narrows_the_suggestions_and_puts_certain_ones_first(monkeypatch):
    monkeypatch.setattr(ranking, "peak_bytes", lambda *_: 1)
    monkeypatch.setattr(ranking, "_with_dependences", lambda piece: piece)
    found = [trial(500, flag("a")), trial(600, flag("b")), trial(400, flag("c"))]
    good = choose(BASE, found, UNITS, facts=Facts("a", "b", conditions={"a": "x"})).good
    assert [(one.tried.outcome.evaluated, one.certain, one.rests_on) for one in good] == [
        (600, True, ()), (500, False, ("x",))]  # fmt: skip


def test_a_suggestion_that_is_less_certain_and_no_better_is_left_out():
    def piece(evaluated, certain, *changes):
        return RankedAdvice(trial(evaluated, *changes), 1, certain=certain)

    sure, equal, better = piece(500, True, flag("a")), piece(500, False, flag("a", 2)), piece(499, False, flag("a", 3))
    other, pair = piece(600, False, flag("b")), piece(600, False, flag("a"), flag("b"))
    assert ranking._without_lesser([sure, equal, better, other, pair]) == [sure, better, other, pair]
    assert ranking._without_lesser([equal, other]) == [equal, other]


@pytest.mark.parametrize(("certain", "unsure", "examined"), [
    ("11111111", "", 5), ("00000000", "", 5), ("11111111", "01234", 6), ("11111000", "01234", 5), ("00001111", "", 5),
    ("11111111", "01234567", 8), ("11111110", "0123456", 7),
])  # fmt: skip
def test_suggestions_are_examined_until_one_of_those_that_are_shown_is_certain(monkeypatch, certain, unsure, examined):
    pieces = [RankedAdvice(trial(500 + at, flag(f"x{at}")), 1, certain=sure == "1") for at, sure in enumerate(certain)]

    def examine(piece):
        at = piece.tried.outcome.evaluated - 500
        return piece._replace(certain=piece.certain and str(at) not in unsure)

    monkeypatch.setattr(ranking, "_with_dependences", examine)
    assert len([*ranking._examined(pieces)]) == examined


@pytest.mark.parametrize(("singles", "pair", "worth"), [
    ([900, 800], 790, True), ([900, 800], 791, False), ([], 990, True), ([], 991, False),
])  # fmt: skip
def test_a_pair_saves_a_hundredth_more_than_its_better_change(singles, pair, worth):
    changes = flag("a"), flag("b")
    alone = [trial(evaluated, change) for evaluated, change in zip(singles, changes, strict=False)]
    assert ranking._worth(trial(pair, *changes), [*alone, trial(1, flag("c"))], BASE) is worth
    few = [trial(50, changes[0]), trial(60, changes[1])]
    assert [ranking._worth(trial(n, *changes), few, trial(100)) for n in (49, 50)] == [True, False]
    assert [ranking._worth(trial(n, *changes), few, trial(99)) for n in (49, 50)] == [True, False], "at least 1 token"


def test_twice_as_many_suggestions_as_are_shown_are_considered():
    found = [trial(500 + n, flag(f"x{n}")) for n in range(2 * SHOWN + 3)]
    pieces = ranking._first(found, found, found, BASE)
    assert [one.tried for one in pieces] == found[: 2 * SHOWN]


def test_suggestions_that_a_log_makes_uncertain_are_not_examined_after_a_better_one(monkeypatch):
    """The first is found to be uncertain, too, and evaluates fewer tokens."""
    asked = []

    def examine(piece):
        asked.append(piece.tried.outcome.evaluated)
        return piece._replace(certain=False)

    monkeypatch.setattr(ranking, "peak_bytes", lambda *_: 1)
    monkeypatch.setattr(ranking, "_with_dependences", examine)
    found, facts = [trial(600, flag("b")), trial(500, flag("a"))], Facts("a", "b", conditions={"b": "x"})
    one = choose_best(BASE, found, UNITS, CaseArguments(), facts)
    assert (one.tried.outcome.evaluated, asked) == (500, [500])


def test_only_a_build_alone_has_changes_that_cause_its_improvement(monkeypatch):
    asked = []
    monkeypatch.setattr(ranking, "since", lambda *given: asked.append(given) or ["a change"])
    newest = engine_of(PROFILE).line[-1]
    built = RankedAdvice(trial(500, build(newest)), 7)
    assert ranking._dated(built) == built._replace(since=("a change",))
    assert asked == [(built.tried.case, newest, built.tried.outcome, engine_of(PROFILE))]
    for changes in ((flag("a"),), (build(newest), flag("a")), (build("llama_cpp@24035-v3", ChangeKind.PROPOSAL),)):
        piece = RankedAdvice(trial(500, *changes), 7)
        assert ranking._dated(piece) is piece
