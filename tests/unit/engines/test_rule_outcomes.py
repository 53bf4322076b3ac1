"""Outcomes of rules: their cases, the alternative answers, and rule sets with another answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, NamedTuple

import numpy as np
import pytest

from cachesim.engines.rule import Decision, Role, rule, rule_id
from cachesim.engines.rule_outcomes import (
    NEGATED,
    Outcome,
    TooManyDecisions,
    alternatives,
    case_of,
    is_same_answer,
    limit_decisions,
    neighbours,
    replace_outcome,
    report_outcomes,
    variants_of,
)
from cachesim.engines.shared.rule_set import RuleSet


class Need(NamedTuple):
    thold: int
    search: bool

    def __bool__(self):
        return self.search


class Cut(NamedTuple):
    start: int
    how: str


@rule("TEST-ODD", Role.CREATE, "a test")
def odd(n) -> Decision:
    """Return True for an odd number."""
    return Decision(bool(n % 2), {"n": n})


@rule("TEST-ODD.BIG", Role.CREATE, "a test")
def odd_or_big(n) -> Decision:
    """Return True for an odd number and for a number above 10."""
    return Decision(bool(n % 2 or n > 10), {"n": n})


@rule("TEST-PICK", Role.PICK, "a test")
def first(held) -> Decision:
    """Return the index of the first item."""
    return Decision(0 if held else None, {}, case="alone" if len(held) == 1 else "")


@rule("TEST-PICK.LAST", Role.PICK, "a test")
def last(held) -> Decision:
    """Return the index of the last item."""
    return Decision(len(held) - 1 if held else None, {})


@dataclass(frozen=True)
class Inner:
    odd: Callable[..., Any] = odd


@dataclass(frozen=True)
class Rules(RuleSet):
    name: str = "t@one"
    build: str = ""
    source: str = ""
    odd: Callable[..., Any] = odd
    pick: Callable[..., Any] = first
    inner: Inner = Inner()


ONE, OTHER = Rules(), Rules(name="t@other", odd=odd_or_big, pick=last)
VARIANTS = variants_of([ONE, OTHER])


@pytest.mark.parametrize("value, case", [
    (True, "yes"), (np.bool_(False), "no"), (None, "none"), (0, "none"), (7, "some"), ("", "none"), ("eos", "eos"),
    ("a message that is far too long for a case", "some"), ((), "none"), ((0,), "some"), (Need(4, False), "no"),
    (Cut(0, "lcp"), "lcp"), (("text", True), "text yes"), (np.array([False, True]), "some"),
    (np.zeros(2, bool), "none"),
    (Decision(1, {}), "some"), (Decision(1, {}, case="beside"), "beside"),
])  # fmt: skip
def test_an_answer_has_a_case(value, case):
    assert case_of(value) == case


def test_a_truth_value_has_an_opposite_and_variants_that_differ():
    assert alternatives(odd, odd(12), [odd_or_big], (12,)) == {NEGATED: True, "TEST-ODD.BIG": True}
    assert alternatives(odd, odd(3), [odd_or_big], (3,)) == {NEGATED: False}


def test_a_number_is_another_rule_s_or_its_neighbour_where_none_differs():
    assert alternatives(first, first("ab"), [last], ("ab",)) == {"TEST-PICK.LAST": 1}
    assert alternatives(first, first("a"), [last], ("a",)) == {"one more": 1, "none": None}
    assert alternatives(first, first(""), [last], ("",)) == {"the first": 0}


def test_a_variant_that_cannot_be_asked_is_none():
    assert alternatives(odd, odd(1), [last], (1,)) == {NEGATED: False}
    assert alternatives(odd, odd(12), [last, odd_or_big], (12,)) == {NEGATED: True, "TEST-ODD.BIG": True}


@pytest.mark.parametrize("value, found", [
    (0, {"one more": 1}), (2, {"one more": 3, "one less": 1}), ("x", {"none": ""}), ("", {}), ((), {"the first": (0,)}),
    ((1, 2), {"none": ()}), (1.5, {}), (None, {}), (Need(4, False), {f"search {NEGATED}": Need(4, True)}),
    (Cut(0, "lcp"), {"start one more": Cut(1, "lcp"), "how none": Cut(0, "")}),
])
def test_neighbours(value, found):
    assert neighbours(value) == found


def test_neighbours_of_numbers_of_objects_and_of_truth_values_of_several():
    assert neighbours(None, numbered=True) == {"the first": 0}
    assert neighbours(2, numbered=True) == {"one more": 3, "one less": 1, "none": None}
    assert neighbours(np.array([True, False]))[NEGATED].tolist() == [False, True]
    assert neighbours(np.array([1, 2])) == {}


@pytest.mark.parametrize("a, b, same", [
    (1, True, False), (1, 1, True), (Cut(float("nan"), ""), Cut(float("nan"), ""), True),
    (np.array([1, 2]), np.array([1, 2]), True), (np.array([1, 2]), np.array([1, 3]), False),
    (Decision(2, {"a": 1}), Decision(2, {"b": 1}), True),
])
def test_answers_are_compared_with_their_types(a, b, same):
    assert is_same_answer(a, b) is same


def test_two_records_that_decline_are_one_answer():
    @rule("TEST-NEED", Role.NEED, "a test")
    def need(n) -> Decision:
        """Never searches."""
        return Decision(Need(n, False), {})

    @rule("TEST-NEED.MORE", Role.NEED, "a test")
    def need_more(n) -> Decision:
        """Never searches either."""
        return Decision(Need(n + 1, False), {})

    assert alternatives(need, need(1), [need_more], (1,)) == {f"search {NEGATED}": Need(1, True)}


def test_outcomes_are_reported_of_inner_tables_too():
    heard = []
    rules = report_outcomes(ONE, VARIANTS, lambda outcome, others: heard.append((outcome, sorted(others))))
    assert (rules.odd(12).value, rules.pick("a").value, rules.inner.odd(3).value) == (False, 0, True)
    assert heard == [
        (Outcome("TEST-ODD", "no"), ["TEST-ODD.BIG", NEGATED]), (Outcome("TEST-PICK", "alone"), ["none", "one more"]),
        (Outcome("TEST-ODD", "yes"), [NEGATED]),
    ]


def test_one_outcome_is_replaced_and_no_other():
    rules = replace_outcome(ONE, VARIANTS, Outcome("TEST-ODD", "no"), "TEST-ODD.BIG")
    assert [rules.odd(n).value for n in (2, 12, 3)] == [False, True, True]
    assert rules.odd(12).rule == "TEST-ODD" and rules.pick is ONE.pick
    opposite = replace_outcome(ONE, VARIANTS, Outcome("TEST-ODD", "yes"), NEGATED)
    assert [opposite.odd(n).value for n in (2, 3)] == [False, False] and opposite.inner.odd(3).value is False
    alone = replace_outcome(ONE, VARIANTS, Outcome("TEST-PICK", "alone"), "none")
    assert (alone.pick("a").value, alone.pick("ab").value) == (None, 0)


def test_a_neighbour_is_no_alternative_where_another_rule_answers_otherwise():
    rules = replace_outcome(ONE, VARIANTS, Outcome("TEST-PICK", "none"), "one more")
    assert (rules.pick("ab").value, rules.pick("").value) == (0, None)
    assert replace_outcome(ONE, {"pick": [first]}, Outcome("TEST-PICK", "none"), "one more").pick("ab").value == 1


def test_an_outcome_is_replaced_where_no_other_rule_set_has_a_rule():
    rules = replace_outcome(ONE, {}, Outcome("TEST-PICK", "some"), "one more")
    assert (rules.pick("abc").value, rules.pick("a").value) == (0, 0)
    assert replace_outcome(ONE, {}, Outcome("TEST-PICK", "alone"), "one more").pick("a").value == 1


@rule("TEST-BARE", Role.CREATE, "a test")
def bare(n):
    """Return True for an odd number, without a decision."""
    return bool(n % 2)


@rule("TEST-BARE.NUMBER", Role.CREATE, "a test")
def bare_number(n):
    """Return the number, without a decision."""
    return n


@pytest.mark.parametrize(("fn", "case", "is_truth_value"), [(bare, "yes", True), (bare_number, "some", False),
                                                           (odd, "yes", True), (first, "none", False)])  # fmt: skip
def test_an_observer_is_asked_whether_it_needs_the_alternatives_of_an_answer(fn, case, is_truth_value):
    asked = []
    rules = report_outcomes(Rules(odd=fn), {"odd": [fn, odd_or_big]}, lambda outcome, others: None,
                            lambda *facts: asked.append(facts))  # fmt: skip
    rules.odd((1, 2) if fn is first else 3)
    assert asked == [(Outcome(rule_id(fn), case), ("TEST-ODD.BIG",), is_truth_value)]


def test_a_run_that_asks_too_often_is_ended():
    rules = limit_decisions(ONE, 3)
    assert (rules.odd(12).value, rules.pick("a").value, rules.inner.odd(3).value) == (False, 0, True)
    with pytest.raises(TooManyDecisions, match="more than 3 decisions"):
        rules.odd(1)
    assert not issubclass(TooManyDecisions, Exception)              # no driver may take it for an error of its server


def test_only_the_needed_rules_are_asked_beside_an_outcome():
    seen = []
    rules = report_outcomes(ONE, VARIANTS, lambda outcome, found: seen.append(sorted(found)),
                            lambda outcome, others, is_truth_value: () if is_truth_value else None)  # fmt: skip
    assert (rules.odd(12).value, rules.pick("a").value) == (False, 0)
    assert seen == [[NEGATED], []]


def test_a_rule_without_variants_is_reported_too():
    seen = []
    rules = report_outcomes(ONE, {"pick": [last]}, lambda outcome, found: seen.append((outcome, sorted(found))))
    assert (rules.odd(3).value, rules.pick("ab").value) == (True, 0)
    assert seen == [(Outcome("TEST-ODD", "yes"), [NEGATED]), (Outcome("TEST-PICK", "none"), ["TEST-PICK.LAST"])]


@rule("TEST-TAKER", Role.PICK, "a test")
def taker(held, more):
    """Return the last item and remove it, without a decision."""
    return held.pop() + len(more)


@rule("TEST-TAKER.KEEPS", Role.PICK, "a test")
def taker_keeps(held, more) -> Decision:
    """Return the last item, and remove it."""
    return Decision(held.pop() + len(more), {})


def test_a_rule_without_decisions_may_change_its_arguments_and_another_is_trusted():
    """An answer without a decision shows that the rule may be of such an engine."""
    held, more = [4, 5, 6], (1, 2)
    assert alternatives(taker, 1, [taker], (held, more)) == {"TEST-TAKER": 8} and held == [4, 5, 6]
    assert alternatives(taker_keeps, Decision(1, {}), [taker_keeps], (held, more)) == {"TEST-TAKER.KEEPS": 8}
    assert held == [4, 5]


def test_records_of_different_kinds_do_not_decline_together():
    class Other(NamedTuple):
        search: bool

        def __bool__(self):
            return self.search

    @rule("TEST-DECLINES", Role.NEED, "a test")
    def declines(n) -> Decision:
        """Return another record that declines."""
        return Decision(Other(False), {})

    @rule("TEST-DECLINES.SEARCHES", Role.NEED, "a test")
    def searches(n) -> Decision:
        """Return a record that searches."""
        return Decision(Need(n, True), {})

    answer = Decision(Need(1, False), {})
    found = alternatives(declines, answer, [declines, searches], (1,))
    assert found == {"TEST-DECLINES": Other(False), "TEST-DECLINES.SEARCHES": Need(1, True)}
