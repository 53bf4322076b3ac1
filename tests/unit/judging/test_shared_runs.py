"""Tests that a run is shared by exactly the rule sets that would repeat it."""

from __future__ import annotations

from typing import Any

import pytest

from cachesim.engines.registry import engine_of, rules_of
from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.rule_outcomes import TooManyDecisions
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging.judged_run import JudgedRuns
from cachesim.judging.request_cost import ObservedRuns, observed_requests
from cachesim.judging.shared_runs import SharedRuns, is_rule
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load

BASE = rules_of("llama_cpp@b11549")
FIELD = "ckpt_limit"
"""A field with a rule about two arguments."""


@rule("TEST-SHARED.ALIKE", Role.DROP, "answers small limits like the released rule")
def alike_below_ten(*args: Any) -> Decision:
    given = getattr(BASE, FIELD)(*args)
    return given if args[1] < 10 else Decision((99,), {})


@rule("TEST-SHARED.FAILS", Role.DROP, "fails on every argument")
def failing(*args: Any) -> Decision:
    raise ZeroDivisionError


@rule("TEST-SHARED.OTHER-NUMBERS", Role.DROP, "answers like the released rule, for another reason")
def alike_for_another_reason(*args: Any) -> Decision:
    return Decision(getattr(BASE, FIELD)(*args).value, {"other": 1})


@rule("TEST-SHARED.PLAIN", Role.DROP, "returns no Decision")
def plain(*args: Any) -> tuple[int, ...]:
    return ()


@rule("TEST-SHARED.OTHER-PLAIN", Role.DROP, "returns the same and might change its arguments")
def other_plain(*args: Any) -> tuple[int, ...]:
    return ()


def named(name: str, **values: Any) -> RuleSet:
    """Return a rule set with other values in these fields."""
    return BASE.changed({"name": f"llama_cpp@{name}", **values})


def runs_of(ask, *others, log=False):
    """Return shared runs that ask a rule set for something, and the list of the rule sets that were run."""
    ran: list[str] = []

    def run(rules):
        ran.append(rules.name)
        return ask(rules)

    return SharedRuns(run, [BASE, *others], log), ran


def test_a_rule_set_that_answers_alike_shares_a_run():
    other = named("alike", **{FIELD: alike_below_ten})
    runs, ran = runs_of(lambda rules: getattr(rules, FIELD)((), 3).value, other)
    assert runs.result(BASE) == runs.result(other) and ran == [BASE.name]


def test_a_rule_set_with_one_other_answer_runs_itself():
    other = named("other", **{FIELD: alike_below_ten})
    runs, ran = runs_of(lambda rules: [getattr(rules, FIELD)((), limit).value for limit in (3, 10, 3)], other)
    assert runs.result(BASE) != runs.result(other) and ran == [BASE.name, other.name]


def test_a_rule_that_fails_answers_otherwise():
    other = named("fails", **{FIELD: failing})
    runs, ran = runs_of(lambda rules: getattr(rules, FIELD) and rules.name, other)
    runs.result(BASE)
    assert runs.result(other) == BASE.name                # the rule was read and never asked
    runs, ran = runs_of(lambda rules: rules.name if rules.name != BASE.name else getattr(rules, FIELD)((), 3), other)
    runs.result(BASE)
    assert runs.result(other) == other.name and ran == [BASE.name, other.name]


def test_a_rule_that_returns_no_decision_is_never_taken_for_alike():
    first, other = named("plain", **{FIELD: plain}), named("other-plain", **{FIELD: other_plain})
    runs, ran = runs_of(lambda rules: getattr(rules, FIELD)((), 3), first, other)
    assert runs.result(first) == runs.result(other) and ran == [first.name, other.name]


@pytest.mark.parametrize("log", [False, True])
def test_the_numbers_behind_a_decision_matter_to_the_log_only(log):
    other = named("reason", **{FIELD: alike_for_another_reason})
    runs, ran = runs_of(lambda rules: getattr(rules, FIELD)((), 3).value, other, log=log)
    assert runs.result(BASE) == runs.result(other) and ran == [BASE.name, *([other.name] if log else [])]


@pytest.mark.parametrize("log", [False, True])
def test_lines_that_a_build_lacks_matter_to_the_log_only(log):
    other = named("silent", silent=BASE.silent | {"batch"})
    runs, ran = runs_of(lambda rules: rules.silent and "run", other, log=log)
    assert runs.result(BASE) == runs.result(other) == "run" and ran == [BASE.name, *([other.name] if log else [])]


def test_unwritten_numbers_matter_and_the_name_does_not():
    rules = rules_of("ik_llama@main")
    same = rules.changed({"name": "ik_llama@same"})
    other = rules.changed({"name": "ik_llama@other", "unset": {"cell": 7}})
    runs = SharedRuns(lambda rules: (rules.build, rules.unset)[1], [rules, same, other], log=False)
    assert runs.result(rules) == runs.result(same) == {} and runs.result(other) == {"cell": 7}
    assert len(runs.made) == 2


def test_a_number_matters_if_it_was_read():
    other = named("number", min_step=BASE.min_step + 1)
    runs, ran = runs_of(lambda rules: rules.ctx_pad, other)
    assert runs.result(BASE) == runs.result(other) and ran == [BASE.name]
    runs, ran = runs_of(lambda rules: rules.min_step, other)
    assert runs.result(other) - runs.result(BASE) == 1 and ran == [other.name, BASE.name]


def test_a_member_matters_if_it_was_asked_for():
    other = named("members", memories=(*BASE.memories, "new"))
    for member, found, ran_by in (("A", True, [BASE.name]), ("new", False, [BASE.name, other.name])):
        runs, ran = runs_of(lambda rules, member=member: rules.has("memories", member), other)
        assert (runs.result(BASE), runs.result(other), ran) == (found, True, ran_by)


@pytest.mark.parametrize(("n", "is_shared"), [(512, True), (256, False)])
def test_only_what_a_run_derives_from_a_number_matters(n, is_shared):
    other = named("number", ctx_pad=512)
    runs, ran = runs_of(lambda rules: rules.derived("ctx_pad", lambda to: -(-n // to) * to), other)
    assert (runs.result(BASE), runs.result(other)) == (n, 512)
    assert ran == [BASE.name, *([] if is_shared else [other.name])]
    assert runs.find(named("mixture", ctx_pad=1024)) is None
    runs, ran = runs_of(lambda rules: (rules.derived("ctx_pad", bool), rules.ctx_pad), other)
    assert (runs.result(BASE)[1], runs.result(other)[1]) == (256, 512)


@pytest.mark.parametrize(("starts", "is_shared"), [
    ([{"ctx_size": 5}], True), ([{"ctx_size": 5, "parallel": 1}, {"ctx_size": 6}], True), ([{"parallel": 1}], False),
    ([{"ctx_size": 5}, {"parallel": 1}], False),
])  # fmt: skip
def test_a_default_matters_if_a_start_was_not_given_the_option(starts, is_shared):
    other = named("defaults", defaults={**BASE.defaults, "ctx_size": 7})
    runs, ran = runs_of(lambda rules: [rules.options(given) for given in starts], other)
    runs.result(BASE)
    assert runs.result(other) == [{**other.defaults, **given} for given in starts]
    assert ran == [BASE.name, *([] if is_shared else [other.name])]


def test_a_copy_of_the_rules_is_watched_too():
    other = named("copy", min_step=BASE.min_step + 1)
    runs, _ = runs_of(lambda rules: rules.changed({"ctx_pad": 5}).min_step, other)
    assert runs.result(other) - runs.result(BASE) == 1


def test_a_rule_of_an_inner_table_is_watched():
    other = named("inner", **{"adapters.entry": failing})
    runs, _ = runs_of(lambda rules: rules.adapters.entry and rules.name, other)
    assert runs.result(BASE) == runs.result(other)        # the rule was read and never asked
    runs, ran = runs_of(lambda rules: rules.name if rules.name != BASE.name else rules.adapters.entry(), other)
    with pytest.raises(TypeError):
        runs.result(BASE)
    assert runs.result(other) == other.name and ran == [BASE.name, other.name]


def test_a_rule_that_no_listed_rule_set_has_is_not_taken_for_alike():
    mixture = named("mixture", **{FIELD: alike_below_ten})
    runs, ran = runs_of(lambda rules: getattr(rules, FIELD)((), 3).value)
    runs.result(BASE)
    assert runs.unshared(mixture) == () and ran == [BASE.name, mixture.name]


def test_the_rules_of_a_near_rule_set_are_followed_to_the_end():
    near = named("near", **{FIELD: alike_below_ten, "min_step": BASE.min_step + 1})
    runs, ran = runs_of(lambda rules: (rules.min_step, getattr(rules, FIELD)((), 3).value)[1])
    runs.result(BASE, near=near)
    assert runs.unshared(named("one", **{FIELD: alike_below_ten})) == () and ran == [BASE.name]


def test_a_near_rule_that_answers_otherwise_leaves_its_others():
    def both(rules):
        return rules.ckpt_on(2, True, 0).value, getattr(rules, FIELD)((), 3).value

    runs, ran = runs_of(both)
    runs.result(BASE, near=named("near", **{FIELD: alike_below_ten, "ckpt_on": failing}))
    assert runs.unshared(named("one", **{FIELD: alike_below_ten})) == both(BASE) and ran == [BASE.name]
    with pytest.raises(ZeroDivisionError):
        runs.unshared(named("other", ckpt_on=failing))


def test_a_bounded_run_ends():
    def endless(rules):
        while True:
            getattr(rules, FIELD)((), 3)

    with pytest.raises(TooManyDecisions):
        SharedRuns(endless, [BASE], log=False).unshared(BASE, most_decisions=5)


CASES = ("ik-cells-above-gap-unread-dense", pytest.param("llama-24143-entry-removed-dense", marks=pytest.mark.long))


@pytest.mark.parametrize("name", CASES)
def test_shared_results_equal_those_of_own_runs(name):
    scenario = load(corpus_files()[name])
    profile = scenario.profiles[0]
    runs = ObservedRuns(scenario, profile)
    tables = engine_of(profile).profiles.values()
    for table in tables:
        assert runs.result(table) == observed_requests(JudgedRuns("provenance"), scenario, profile, table), table.name
    assert len(runs.made) < len(tables)


@pytest.mark.parametrize(("others", "asked"), [
    ((True,), 0),                               # the only rule set with this rule has answered otherwise before
    ((False,), 2), ((True, False), 2),          # another one with it has not
])  # fmt: skip
def test_a_rule_set_that_answered_otherwise_is_asked_no_more(others: tuple[bool, ...], asked: int) -> None:
    calls: list[Any] = []

    @rule("TEST-SHARED.COUNTED", Role.DROP, "counts its calls, and answers like the released rule")
    def counted(*args: Any) -> Decision:
        calls.append(args)
        answer: Decision = getattr(BASE, FIELD)(*args)
        return answer

    sets = [named(f"counted{number}", **{FIELD: counted, **({"ckpt_on": failing} if differs else {})})
            for number, differs in enumerate(others)]  # fmt: skip
    runs, ran = runs_of(lambda rules: (rules.ckpt_on(2, True, 0), *[getattr(rules, FIELD)((), 3) for _ in "ab"]), *sets)
    runs.result(BASE)
    assert (len(calls), ran) == (asked, [BASE.name])


def test_a_rule_set_is_followed_if_it_agrees_in_the_numbers_that_the_run_before_read():
    """The lines of a log do not matter. The rule of a set with another number is not asked."""
    calls: list[Any] = []

    @rule("TEST-SHARED.FOLLOWED", Role.DROP, "counts its calls, and answers like the released rule")
    def followed(*args: Any) -> Decision:
        calls.append(args)
        answer: Decision = getattr(BASE, FIELD)(*args)
        return answer

    number, other = named("number", min_step=999), named("other", **{FIELD: followed})
    alike = number.changed({"name": "llama_cpp@alike", "silent": BASE.silent | {"batch"}, FIELD: alike_below_ten})
    runs, ran = runs_of(lambda rules: (getattr(rules, FIELD)((), 3), rules.silent, rules.min_step)[2],
                        number, other, alike)  # fmt: skip
    found = [runs.result(one) for one in (BASE, number, alike, other)]
    assert found == [BASE.min_step, 999, 999, BASE.min_step] and ran == [BASE.name, number.name]
    assert len(calls) == 1


def test_a_rule_is_a_function_with_a_text():
    assert is_rule(failing) and is_rule(BASE.ckpt_on)
    assert not is_rule(len) and not is_rule(type("Text", (), {"about": "a text"})())


def test_a_rule_in_place_of_another_value_is_another_value():
    """Rules of a field are alike if the run does not ask them; a rule and a number, or None, are not."""
    sets = named("rule", min_step=failing), named("none", **{FIELD: None}), named("alike", **{FIELD: alike_below_ten})
    runs, _ = runs_of(lambda rules: (rules.min_step, getattr(rules, FIELD)) and rules.name, *sets)
    assert [runs.result(one) for one in (BASE, *sets)] == [BASE.name, sets[0].name, sets[1].name, BASE.name]


def test_an_equal_value_shares_a_run_though_it_is_another_object():
    rules = rules_of("ik_llama@main").changed({"unset": {"cell": 7}})
    equal = rules.changed({"name": "ik_llama@equal", "unset": {"cell": 7}})
    assert equal.unset is not rules.unset
    runs = SharedRuns(lambda rules: rules.unset, [rules, equal], log=False)
    assert runs.result(rules) == runs.result(equal) == {"cell": 7} and len(runs.made) == 1
    own = BASE.changed({"min_step": 1_000})
    alike = own.changed({"name": "llama_cpp@alike", "min_step": int("1000"), FIELD: alike_below_ten})
    runs, ran = runs_of(lambda rules: (rules.min_step, getattr(rules, FIELD)((), 3).value), alike)
    assert alike.min_step is not own.min_step
    assert runs.result(own) == runs.result(alike) and ran == [own.name]


@pytest.mark.parametrize(("read_first", "differs", "asked"), [
    (True, True, 1), (True, False, 3), (False, True, 3),        # a number that nothing reads does not matter
])  # fmt: skip
def test_the_rules_of_a_set_with_another_number_are_asked_until_the_number_is_read(read_first, differs, asked):
    """The rule of the run itself is asked once."""
    calls: list[str] = []

    def counting(name: str) -> Any:
        @rule(f"TEST-SHARED.{name}", Role.DROP, "counts its calls, and answers like the released rule")
        def counted(*args: Any) -> Decision:
            calls.append(name)
            answer: Decision = getattr(BASE, FIELD)(*args)
            return answer

        return counted

    own = BASE.changed({FIELD: counting("OWN")})
    sets = [own.changed({"name": f"llama_cpp@{name}", FIELD: counting(name), **({"min_step": 999} if differs else {})})
            for name in ("FIRST", "SECOND")]  # fmt: skip
    same = own.changed({"name": "llama_cpp@same", "ctx_pad": BASE.ctx_pad + 1})

    def run(rules):
        return (rules.min_step if read_first else 0), getattr(rules, FIELD)((), 3)

    runs = SharedRuns(run, [own, *sets, same], log=False)
    runs.result(own)
    assert len(calls) == asked and calls.count("OWN") == 1
