"""The search for the rule that decided, in runs whose outcome a test states for every mixture of rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cachesim.base.errors import Terminated
from cachesim.engines.registry import engine_of, rules_of
from cachesim.engines.rule_outcomes import TooManyDecisions
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging import deciding_rule as module
from cachesim.judging.deciding_rule import DecidingRule, FailureKind, deciding_rule
from cachesim.judging.find_change import RequestOutcome
from cachesim.judging.judged_run import RunInterrupted
from cachesim.judging.request_cost import ObservedRequest, RequestCost
from cachesim.judging.verdict import CORRECT
from tests.unit.tools.run.made import BROKEN, UNDECIDED, judgement
from tests.unit.tools.run.made import run as made_run

PROFILE, LATER, OLDER = "vllm@0.31.0", "vllm@0.33.0", "vllm@0.30.0"
REACH, STOP, CAP = "VL-LOOKUP-RECONCILE.REACH", "VL-SCHED-STOP", "VL-SCHED-CAP.ALWAYS"
LOST = [(0, 3, "erased", "R", -1, "checkpoint")]
OWN = rules_of(PROFILE)
COST = RequestCost(3, 1.0)


def seen(cold: bool | None = False, cache_n: int = 4, status: int = 200, kept: int = 1,
         cost: RequestCost = COST) -> ObservedRequest:  # fmt: skip
    return ObservedRequest(RequestOutcome(cache_n, cold, status), cost, frozenset({("checkpoint", kept)}))


Told = Callable[[RuleSet], ObservedRequest | BaseException]


class Runs:
    """Runs of two requests: the first as ``first`` says of a rule set, the second as ``told`` does."""

    def __init__(self, told: Told, first: Told = lambda rules: seen(True)) -> None:
        self.told, self.first, self.count = told, first, 0

    def result(self, rules: RuleSet) -> list[ObservedRequest]:
        self.count += 1
        both = self.first(rules), self.told(rules)
        for one in both:
            if isinstance(one, BaseException):
                raise one
        return list(both)  # type: ignore[arg-type]

    def unshared(self, rules: RuleSet, most: int) -> list[ObservedRequest]:
        assert most % module.ENDLESS == 0
        return self.result(rules)

    def reusing(
        self, rules: RuleSet, number: int, more_than: int, most: int = 0
    ) -> list[ObservedRequest] | None:
        found = self.unshared(rules, most)
        return found if found[number].outcome.cache_n > more_than else None


def has(rules: RuleSet, field: str, rule: str) -> bool:
    return bool(getattr(rules, field).rule == rule)


def search(
    told: Told, first: Told = lambda rules: seen(True), profile: str = PROFILE, **answer: Any
) -> tuple[DecidingRule, Runs]:
    """Search for the rule that decided the second of two requests."""
    runs = Runs(told, first)
    run = made_run(judgement(), judgement(**{"answer": BROKEN, **answer}), profile=profile)
    found = deciding_rule(run, 1, runs=runs)  # type: ignore[arg-type]
    assert found is not None
    return found, runs


def named(found: DecidingRule) -> list[tuple[str, str]]:
    return [(cure.variant, cure.variant_of) for cure in found.cures]


def test_a_rule_that_removes_the_fault_alone_is_the_one_that_decided() -> None:
    found, _ = search(lambda rules: seen(has(rules, "reach", REACH), 2 if has(rules, "reach", REACH) else 4))
    [cure] = found.cures
    assert (found.failing, found.what, found.rule, found.variant_of) == (
        1, FailureKind.FAULT, OWN.reach.rule, "vllm@0.32.0")
    assert (cure.field, cure.variant, cure.request, cure.cache_n, cure.changed, cure.status) == (
        "reach", REACH, 0, 2, 0, 200)
    assert found.complete and found.together == () and found.cost == COST


def test_a_rule_that_keeps_what_was_stored_comes_before_one_that_hides_the_fault() -> None:
    def told(rules: RuleSet) -> ObservedRequest:
        keeps, hides = has(rules, "uncounted", STOP), has(rules, "reach", REACH)
        return seen(keeps or hides, 4 if keeps or not hides else 0, kept=1 if keeps or not hides else 0)

    assert [variant for variant, _ in named(search(told)[0])] == [STOP, REACH]


def test_a_rule_that_changes_fewer_other_requests_comes_first() -> None:
    def told(rules: RuleSet) -> ObservedRequest:
        return seen(has(rules, "uncounted", STOP) or has(rules, "reach", REACH))

    for field, rule, order in (("reach", REACH, [STOP, REACH]), ("uncounted", STOP, [REACH, STOP])):
        found, _ = search(told, lambda rules, field=field, rule=rule: seen(True, 3 if has(rules, field, rule) else 4))
        changed = {cure.variant: cure.changed for cure in found.cures}
        assert changed == {order[0]: 0, order[1]: 1}


def test_a_rule_under_which_another_request_becomes_wrong_does_not_count() -> None:
    found, _ = search(lambda rules: seen(has(rules, "uncounted", STOP) or has(rules, "reach", REACH)),
                      lambda rules: seen(None if has(rules, "reach", REACH) else True))  # fmt: skip
    assert [variant for variant, _ in named(found)] == [STOP]


def test_a_request_that_was_wrong_before_may_stay_wrong() -> None:
    found, _ = search(lambda rules: seen(has(rules, "reach", REACH)), lambda rules: seen(False))
    assert [variant for variant, _ in named(found)] == [REACH]


@pytest.mark.parametrize(("whole", "cures"), [(500, [(REACH, 500)]), (200, []), (0, [])])
def test_an_error_takes_the_place_of_a_fault_if_the_other_rule_set_gives_it_too(
    whole: int, cures: list[tuple[str, int]]
) -> None:
    def told(rules: RuleSet) -> ObservedRequest:
        if not has(rules, "reach", REACH):
            return seen(False)
        return seen(None, status=500 if rules.name not in engine_of(PROFILE).profiles else whole)

    found, _ = search(told)
    assert [(cure.variant, cure.status) for cure in found.cures] == cures


def test_a_correct_answer_comes_before_an_error() -> None:
    def told(rules: RuleSet) -> ObservedRequest:
        if has(rules, "uncounted", STOP):
            return seen(True)
        return seen(None, status=500) if has(rules, "reach", REACH) else seen(False)

    assert [variant for variant, _ in named(search(told)[0])][:1] == [STOP]


@pytest.mark.parametrize("end", [ValueError("no"), TooManyDecisions()])
def test_a_rule_set_that_cannot_run_removes_nothing(end: BaseException) -> None:
    def told(rules: RuleSet) -> ObservedRequest | BaseException:
        return end if has(rules, "uncounted", STOP) else seen(has(rules, "reach", REACH))

    assert [variant for variant, _ in named(search(told)[0])] == [REACH]


@pytest.mark.parametrize(("number", "raised"), [(None, KeyboardInterrupt), (15, Terminated)])
def test_an_interrupted_run_ends_the_search(number: int | None, raised: type[BaseException]) -> None:
    def told(rules: RuleSet) -> ObservedRequest | BaseException:
        return seen(False) if rules.name == PROFILE else RunInterrupted(made_run(judgement()), 2, number)

    with pytest.raises(raised):
        search(told)


def test_rules_that_suffice_only_together_are_reduced_to_those_that_are_needed() -> None:
    found, _ = search(lambda rules: seen(has(rules, "uncounted", STOP) and has(rules, "reach", REACH)))
    assert found.cures == () and found.rule == found.variant_of == ""
    assert {(one.field, one.new) for one in found.together} == {("uncounted", STOP), ("reach", REACH)}
    source = {change.field: change.source for change in OWN.changes(rules_of(LATER))}
    assert found.source == (source["reach"] if source["reach"] == source["uncounted"] else "")


def test_rules_that_only_together_give_an_error_do_not_suffice() -> None:
    def told(rules: RuleSet) -> ObservedRequest:
        if not (has(rules, "uncounted", STOP) and has(rules, "reach", REACH)):
            return seen(False)
        return seen(None, status=500) if rules.name == PROFILE else seen(True)         # a mixture keeps its name

    found, _ = search(told)
    assert (found.cures, found.together, found.source) == ((), (), "")


@pytest.mark.parametrize(("before", "found"), [(2, True), (3, False)])
def test_rules_that_suffice_together_are_sought_in_three_rule_sets(before: int, found: bool) -> None:
    """So many rule sets before the oldest one behave better as a whole, and none of their rules together."""
    engine = engine_of(PROFILE)
    others = module.search_order(PROFILE, OWN)
    better = {*[name for name in others if name != OLDER][:before], OLDER}
    fields = ("prefill_cap", "state_tail")
    old = rules_of(OLDER)

    def told(rules: RuleSet) -> ObservedRequest:
        if any(rules is engine.profiles[name] for name in others):
            return seen(rules.name in better)
        return seen(all(getattr(rules, field) is getattr(old, field) for field in fields))

    together = {one.field for one in search(told)[0].together}
    assert together == ({*fields} if found else set())


@pytest.mark.parametrize(("regained", "variants"), [(0, []), (1, [REACH]), (5, [REACH])])
def test_a_loss_is_removed_by_a_rule_that_reuses_more(regained: int, variants: list[str]) -> None:
    found, _ = search(lambda rules: seen(True, 4 + (regained if has(rules, "reach", REACH) else 0)),
                      answer=CORRECT, charges=LOST, cache_n=4)  # fmt: skip
    assert (found.what, [variant for variant, _ in named(found)]) == (FailureKind.LOSS, variants)


@pytest.mark.parametrize(("reach", "stop", "order"), [(6, 7, [STOP, REACH]), (5, 6, [REACH, STOP])])
def test_a_rule_that_regains_half_of_a_loss_comes_first(reach: int, stop: int, order: list[str]) -> None:
    """The request could have reused nine tokens, and reused four. Otherwise the nearer rule set comes first."""
    def told(rules: RuleSet) -> ObservedRequest:
        return seen(True, reach if has(rules, "reach", REACH) else stop if has(rules, "uncounted", STOP) else 4)

    found, _ = search(told, answer=CORRECT, charges=LOST, cache_n=4)
    assert [cure.variant for cure in found.cures] == order


def test_a_rule_of_an_older_rule_set_does_not_come_first_because_it_keeps_what_was_stored() -> None:
    def told(rules: RuleSet) -> ObservedRequest:
        old, hides = has(rules, "prefill_cap", CAP), has(rules, "reach", REACH)
        return seen(old or hides, 0 if hides else 4)

    assert [variant for variant, _ in named(search(told)[0])] == [REACH, CAP]


def test_a_fault_that_a_repetition_does_not_show_is_not_searched() -> None:
    found, runs = search(lambda rules: seen(True))
    assert (found.what, found.cures, runs.count) == (FailureKind.FAULT, (), 1)


def test_the_cost_is_searched_if_no_rule_removes_a_loss() -> None:
    found, _ = search(lambda rules: seen(True, cost=RequestCost(2, 1.0) if has(rules, "reach", REACH) else COST),
                      answer=CORRECT, charges=LOST, cache_n=4)  # fmt: skip
    assert (found.what, [variant for variant, _ in named(found)]) == (FailureKind.COST, [REACH])


def test_a_refused_request_is_answered() -> None:
    found, _ = search(lambda rules: seen(True) if has(rules, "reach", REACH) else seen(None, status=400),
                      answer=UNDECIDED, refused=True)  # fmt: skip
    assert (found.what, [variant for variant, _ in named(found)]) == (FailureKind.REFUSED, [REACH])


@pytest.mark.parametrize(("cost", "cache_n", "better"), [
    (RequestCost(2, 1.0), 4, True), (RequestCost(3, 1.0), 4, False), (RequestCost(3, 1.0), 5, True),
    (RequestCost(2, 1.0), 3, False), (RequestCost(2, 1.5), 4, False), (RequestCost(3, 0.5), 4, True),
])  # fmt: skip
def test_a_cost_is_compared_with_later_rule_sets(cost: RequestCost, cache_n: int, better: bool) -> None:
    run = made_run(judgement(), judgement(answer=CORRECT), profile=PROFILE)
    for field, rule, later in (("reach", REACH, True), ("prefill_cap", CAP, False)):
        runs = Runs(lambda rules, field=field, rule=rule: seen(True, cache_n, cost=cost) if has(rules, field, rule)
                    else seen(True))  # fmt: skip
        found = deciding_rule(run, 1, runs=runs)  # type: ignore[arg-type]
        variants = [] if found is None else [(found.what, variant) for variant, _ in named(found)]
        assert variants == ([(FailureKind.COST, rule)] if better and later else [])


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_search_ends_after_as_many_runs_as_it_may_make(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FEWEST", most)
    monkeypatch.setattr(module, "TOKENS", 0)
    found, runs = search(lambda rules: seen(False))
    assert (found.complete, runs.count) == (False, 1 + most), "the first run is that of the request's own rules"
    found, runs = search(lambda rules: seen(True), answer=CORRECT, charges=LOST, cache_n=4)
    assert (found.what, runs.count) == (FailureKind.LOSS, 2 + most), "loss and cost are searched with the same runs"


@pytest.mark.parametrize(("fields", "source"), [(("prefix", "one"), "#2105"), (("prefix", "ckpt_need"), "")])
def test_rules_of_a_single_change_name_it(fields: tuple[str, ...], source: str) -> None:
    """ik_llama.cpp #2105 changed the first two, and #2195 the third."""
    new = rules_of("ik_llama@2195")
    found, _ = search(lambda rules: seen(all(getattr(rules, field) is getattr(new, field) for field in fields)),
                      profile="ik_llama@2020")  # fmt: skip
    assert ({one.field for one in found.together}, found.source) == ({*fields}, source)
