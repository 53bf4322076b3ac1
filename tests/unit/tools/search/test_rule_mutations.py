"""Tests of rule mutations: cures are verified by a run, and mutations without a different decision are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import profiles, rules_of
from cachesim.engines.rule import Decision
from cachesim.judging.rule_exchange import RuleVariant, agrees, variants, with_changes
from cachesim.scenarios.load import load
from cachesim.tools.search import rule_mutations
from cachesim.tools.search.campaign import SPREAD
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.rule_mutations import (
    COUNTED,
    ChangePrice,
    CureJob,
    MutationJob,
    MutationRun,
    MutationSearch,
    RuleProbes,
    find_cures,
    kind_of_model,
    others_of,
    priced,
    run_mutated,
    run_mutations,
    share,
)

LATEST = "llama_cpp@b11549"
OWED = ("warm-equals-cold", "stored-equals-cold", "survives")
SEARCH = MutationSearch(LATEST, OWED)
SCENARIOS = Path(__file__).resolve().parents[4] / "scenarios" / "llama_cpp"
REPAIRS = sorted((SCENARIOS / "repairs").glob("*.toml"))


def numbered(known, field, new):
    return next(i for i, one in enumerate(known) if (one.field, one.new) == (field, new))


@pytest.mark.parametrize("profile", ["llama_cpp@b11549", "ik_llama@main", "mlx_lm@0.32.2"])
def test_variants_are_the_rules_of_other_rule_sets_once_each(profile):
    known, mine = variants(profile), rules_of(profile).fields()
    assert len({(one.field, one.new) for one in known}) == len(known) > 10
    for one in known:
        assert mine[one.field].rule == one.old != one.new == rules_of(one.profile).fields()[one.field].rule
        assert with_changes(profile, [one]).fields()[one.field].rule == one.new
    assert {one.profile.partition("@")[0] for one in known} == {profile.partition("@")[0]}


def test_every_rule_that_another_rule_set_has_is_tried():
    known = {(one.field, one.new) for one in variants(LATEST)}
    for name, rules in profiles().items():
        if name.startswith("llama_cpp@"):
            for field in ("ckpt_erase", "ckpt_pick", "kv_state", "slot_select"):
                rule = rules.fields()[field].rule
                assert (field, rule) in known or rule == rules_of(LATEST).fields()[field].rule


def test_rules_inside_a_table_are_variants_too():
    assert any(one.field.startswith("caches.") for one in variants("mlx_lm@d78bf58e"))


def test_other_decisions_of_a_variant_are_counted_up_to_a_number():
    probes, asked = RuleProbes(LATEST, {}), []
    rule = probes._spy(lambda n: n, {3: lambda n: asked.append(n) or n + 1, 5: lambda n: n, 7: lambda n: n % 2})
    assert [rule(n) for n in range(20)] == [*range(20)]
    assert probes.matter == {3: COUNTED, 7: COUNTED} and asked == [*range(COUNTED)]


def test_a_change_that_does_not_matter_leaves_everything_as_it_was():
    known = tuple(variants(LATEST))
    source = tuple(range(3 * SPREAD, 3 * SPREAD + 4))
    for run in run_mutations(MutationJob(SEARCH, source, (), known)):
        assert 0 < len(run.matter) < len(known)
        idle = [one for i, one in enumerate(known) if i not in run.matter]
        again = run_mutated(run.source, SEARCH, {}, idle)
        assert again.evaluated == run.evaluated
        assert [(one.name, one.step, one.text) for one in again.found] == [
            (one.name, one.step, one.text) for one in run.found
        ]


@pytest.mark.long
@pytest.mark.parametrize("file", REPAIRS, ids=lambda file: file.stem)
def test_what_cures_a_kept_conversation_is_found(file):
    """The cure is the change of the rule set with that name, alone or in a pair."""
    known = tuple(variants(LATEST))
    run = run_mutated(load(file), SEARCH, {}, others=others_of(known))
    assert run.found
    tried = find_cures(CureJob(SEARCH, run, known))
    repaired = {i for i, one in enumerate(known) if one.profile == "llama_cpp@b11549-repaired"}
    assert tried.cures & repaired or any(repaired & set(pair) for pair in tried.pairs)
    for i in sorted(tried.cures)[:3]:
        assert run_mutated(run.source, SEARCH, {}, [known[i]]).found == ()


def test_two_faults_in_one_conversation_need_a_pair(monkeypatch):
    """A change that only delays the first failure is tried together with all others."""
    known = (RuleVariant("a", "A", "A1", ""), RuleVariant("b", "B", "B1", ""), RuleVariant("a", "A", "A2", ""))
    found = {(): (0, 2), ("A1",): (2,), ("B1",): (0,), ("A2",): (0, 2), ("A1", "B1"): ()}

    def played(source, search, judges, changes=()):
        from cachesim.tools.search.property_failure import PropertyFailure

        steps = found[tuple(sorted(one.new for one in changes))]
        return MutationRun(source, "A", 0, tuple(PropertyFailure("survives", step, "", {}) for step in steps))

    monkeypatch.setattr("cachesim.tools.search.rule_mutations.run_mutated", played)
    tried = find_cures(CureJob(SEARCH, played(0, SEARCH, {})._replace(matter={0: 1, 1: 1, 2: 1}), known))
    assert (tried.cures, tried.part, tried.pairs) == (frozenset(), (0,), ((0, 1),))


def test_a_price_is_told_by_kind_of_model():
    was = [MutationRun(0, "A", 100, ()), MutationRun(1, "W", 100, ()), MutationRun(2, "A", 50, ())]
    now = [MutationRun(0, "A", 100, ()), MutationRun(1, "W", 110, ()), MutationRun(2, "A", 50, None)]
    price = priced(was, now)
    assert price == ChangePrice({"A": 150, "W": 100}, {"A": 150, "W": 110}, 0)
    assert (price.share, price.worst) == (10 / 250, 0.1)
    assert (share(0, 5), priced([], []).worst) == (0.0, 0.0)


def test_a_model_that_is_drawn_has_a_class():
    assert (kind_of_model("W8 A"), kind_of_model("gemma3")) == ("W", "gemma3")


def test_what_cannot_be_played_is_neither_right_nor_wrong():
    scenario = load(SCENARIOS / "repairs" / "llama-repair-window-pick.toml")
    assert run_mutated(scenario, MutationSearch("llama_cpp@b6160", OWED), {}).kind == "W"
    other = run_mutated(load(REPAIRS[0]), MutationSearch("mlx_lm@d78bf58e", OWED), {})
    assert other.found is None


@pytest.mark.parametrize(("rule", "same"), [
    (lambda x: x + 1, True), (lambda x: x, False), (lambda x: float(x + 1), False), (lambda x: x / 0, False),
    (lambda: 4, False), (lambda x: Decision(x + 1, {"by": "another"}), True),
])  # fmt: skip
def test_a_rule_that_cannot_be_asked_does_not_decide_the_same(rule, same):
    assert agrees(rule, (3,), {}, Decision(4, {"by": "this"})) is same


def trial(monkeypatch, results, matter=(0, 1, 2), fields="aab"):
    """Try variants on a conversation that fails at step 2; ``results``: steps of the findings by variants."""
    known = tuple(RuleVariant(field, f"old{n}", f"new{n}", "x") for n, field in enumerate(fields))
    asked = []

    def run_mutated(source, search, judges, changes):
        numbers = tuple(known.index(one) for one in changes)
        asked.append(numbers)
        found = results.get(numbers, (2,))
        return MutationRun(source, "A", 1, None if found is None else tuple(
            PropertyFailure("survives", step, "", {"error": "it"}) for step in found))  # fmt: skip

    monkeypatch.setattr(rule_mutations, "run_mutated", run_mutated)
    failing = MutationRun(7, "A", 1, (PropertyFailure("survives", 2, "", {"error": "it"}),), dict.fromkeys(matter, 1))
    return find_cures(CureJob(MutationSearch("x", ()), failing, known)), asked


def test_single_variants_that_matter_are_tried_before_pairs(monkeypatch):
    found, asked = trial(monkeypatch, {(1,): (), (2,): ()})
    assert (found.cures, found.part, found.pairs) == (frozenset({1, 2}), (), ()) and asked == [(0,), (1,), (2,)]
    found, asked = trial(monkeypatch, {(0,): (3,), (1,): ()})       # one that only helps is not tried with others
    assert (found.cures, found.part, found.pairs) == (frozenset({1}), (), ()) and len(asked) == 3
    found, asked = trial(monkeypatch, {(1,): None}, matter=(1,))
    assert (found.cures, found.part, found.pairs, asked) == (frozenset(), (), (), [(1,)])


def test_pairs_have_a_variant_that_helps_alone_and_another_field(monkeypatch):
    found, asked = trial(monkeypatch, {(1,): (3,), (0,): (2,), (1, 2): ()})
    assert (found.cures, found.part, found.pairs) == (frozenset(), (1,), ((1, 2),))
    assert asked == [(0,), (1,), (2,), (1, 2)]
    found, asked = trial(monkeypatch, {(0,): (3,), (2,): (4, 3), (0, 2): (5,)}, fields="abc")
    assert (found.part, found.pairs) == ((0, 2), ()) and asked[3:] == [(0, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize(("most", "tried"), [(1, [(0, 1)]), (2, [(0, 1), (0, 2)]), (9, [(0, 1), (0, 2)])])
def test_a_number_of_pairs_is_tried(monkeypatch, most, tried):
    monkeypatch.setattr(rule_mutations, "PAIRS", most)
    _, asked = trial(monkeypatch, {(0,): (3,)}, fields="abc")
    assert asked[3:] == tried


def test_a_conversation_that_is_no_scenario_has_no_model_and_no_tokens(monkeypatch):
    def refuse(source, search):
        raise BadInput("not a scenario")

    monkeypatch.setattr(rule_mutations, "scenario_of", refuse)
    assert run_mutated(7, SEARCH, {}) == MutationRun(7, "?", 0, None, {})
