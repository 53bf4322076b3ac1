"""Variants of a rule set, rule sets with exchanged rules, and the record of which questions of a run matter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Mapping

import pytest

from cachesim.engines import registry
from cachesim.engines.registry import rules_of
from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging.rule_exchange import (
    START,
    AskedRules,
    RuleVariant,
    agrees,
    exchanged,
    is_compatible,
    is_number,
    variants,
    variants_in,
    with_changes,
)
from tests.shared import forget_engines


@rule("TEST-EXCHANGE.DOUBLE", Role.PLAN, "doubles")
def double(n: int) -> Decision:
    return Decision(2 * n, {})


@rule("TEST-EXCHANGE.SQUARE", Role.PLAN, "squares")
def square(n: int) -> Decision:
    return Decision(n * n, {})


@rule("TEST-EXCHANGE.FAILS", Role.PLAN, "fails on 3")
def failing(n: int) -> Decision:
    return Decision(2 * n // (n != 3), {})


@rule("TEST-EXCHANGE.WIDER", Role.PLAN, "needs a second argument")
def wider(n: int, m: int) -> Decision:
    return Decision(n + m, {})


@rule("TEST-EXCHANGE.DEFAULT", Role.PLAN, "has a second argument with a default")
def with_default(n: int, m: int = 0) -> Decision:
    return Decision(n + m, {})


@rule("TEST-EXCHANGE.PLAIN", Role.PLAN, "returns no Decision")
def plain(n: int) -> int:
    return n


@rule("TEST-EXCHANGE.OTHER-PLAIN", Role.PLAN, "returns no Decision, too")
def other_plain(n: int) -> int:
    return n


@rule("TEST-EXCHANGE.DROPS", Role.DROP, "has another role")
def drops(n: int) -> Decision:
    return Decision(n, {})


@dataclass(frozen=True)
class Inner:
    """A table in a table."""

    step: int = 1
    source: str = "x"


@dataclass(frozen=True, repr=False)
class Table(RuleSet):
    """A small rule set. ``late`` affects the log alone."""

    size: Callable[..., Any]
    keep: Callable[..., Any]
    erase_told: Callable[..., Any] = double
    width: int = 8
    inner: Inner = Inner()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()


def table(name: str, **values: Any) -> Table:
    return Table(name, "b1", "x", **{"size": double, "keep": plain, **values})


OLD = table("t@1")
NEW = table("t@2", size=square, keep=other_plain, erase_told=square, width=9, inner=Inner(2, "y"),
            silent=frozenset("a"))  # fmt: skip
NEWER = table("t@3", size=square, width=10, defaults={"a": 1})


SIZE = RuleVariant("size", double.rule, square.rule, "t@2")
KEEP = RuleVariant("keep", plain.rule, other_plain.rule, "t@2")
WIDTH, WIDER = RuleVariant("width", "width", "width 9", "t@2"), RuleVariant("width", "width", "width 10", "t@3")
STEP = RuleVariant("inner.step", "inner.step", "inner.step 2", "t@2")


def test_a_variant_comes_from_the_first_rule_set_that_has_it():
    assert variants_in(OLD, [OLD, NEW, NEWER]) == [SIZE, KEEP]
    assert variants_in(OLD, [NEWER, NEW]) == [SIZE._replace(profile="t@3"), KEEP]
    assert variants_in(OLD, [NEW, NEWER], numbers=True) == [SIZE, KEEP, WIDTH, STEP, WIDER]
    assert variants_in(OLD, [table("t@4", width=8)], numbers=True) == []


@pytest.mark.parametrize(("old", "new", "fits"), [
    (double, square, True), (double, wider, False), (double, with_default, True), (with_default, double, False),
    (double, plain, False), (plain, double, False), (plain, other_plain, True), (double, drops, False),
    (double, len, False), (len, double, False), (double, 3, False), (3, 4, False),
])  # fmt: skip
def test_a_rule_is_exchanged_for_one_with_its_role_arguments_and_kind_of_answer(old, new, fits):
    assert is_compatible(old, new) is fits


@pytest.mark.parametrize(("field", "value", "counts"), [
    ("width", 8, True), ("width", "a text", True), ("width", None, True), ("name", "t@1", False),
    ("inner.source", "x", False), ("inner.step", 1, True), ("size", double, False), ("inner", Inner(), False),
    ("defaults", {}, False), ("silent", frozenset(), False),
])  # fmt: skip
def test_numbers_and_texts_that_affect_decisions_are_exchanged(field, value, counts):
    assert is_number(field, value) is counts


@pytest.mark.parametrize(("new", "n", "same"), [
    (square, 2, True), (square, 3, False), (failing, 2, True), (failing, 3, False), (wider, 2, False),
])  # fmt: skip
def test_another_rule_agrees_if_it_gives_the_same_answer(new, n, same):
    assert agrees(new, (n,), {}, double(n)) is same


def test_a_rule_set_with_variants_of_its_engine_keeps_its_other_rules():
    profile = "ik_llama@main"
    rules = rules_of(profile)
    for variant in variants(profile)[:3]:
        found = with_changes(profile, [variant])
        assert getattr(found, variant.field) is getattr(rules_of(variant.profile), variant.field)
        assert [change.field for change in rules.changes(found)] == [variant.field]
    assert exchanged(OLD, []) is OLD


@rule("TEST-EXCHANGE.BELOW-TEN", Role.DROP, "answers small limits like the released rule")
def alike_below_ten(*args: Any) -> Decision:
    given: Decision = rules_of("llama_cpp@b11549").ckpt_limit(*args)
    return given if args[1] < 10 else Decision((99,), {})


def test_the_questions_that_a_variant_answers_otherwise_are_recorded(monkeypatch):
    forget_engines(monkeypatch)
    own = rules_of("llama_cpp@b11549")
    registry.add(own.changed({"name": "llama_cpp@asked", "ckpt_limit": alike_below_ten, "min_step": 7}), "of a test")
    known = variants_in(own, [rules_of("llama_cpp@asked")], numbers=True)
    asked = AskedRules(own, known)
    rule_of, number = ([one.field for one in known].index(name) for name in ("ckpt_limit", "min_step"))
    for request, limit in ((0, 3), (2, 10), (5, 12), (6, 4)):
        asked.request = request
        assert asked.rules.ckpt_limit((), limit).value == ()
    assert asked.matter == {number: (0, START), rule_of: (3, 5)} and asked.first == {number: START, rule_of: 2}


def test_a_rule_without_a_decision_counts_as_different_at_every_question():
    own = rules_of("vllm@0.31.0")
    known = [one for one in variants_in(own, [rules_of("vllm@0.32.0")]) if one.field == "reach"]
    asked = AskedRules(own, known)
    asked.request = 3
    assert asked.rules.reach(5, 5) == 5 and (asked.matter, asked.first) == ({0: (1, 3)}, {0: 3})
