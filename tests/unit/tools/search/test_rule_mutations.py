"""Tests of rule mutations: cures are verified by a run, and mutations without a different decision are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.engines.registry import profiles, rules_of
from cachesim.engines.rule import Decision
from cachesim.judging.rule_exchange import agrees, variants, with_changes
from cachesim.scenarios.load import load
from cachesim.tools.search.campaign import SPREAD
from cachesim.tools.search.rule_mutations import (
    ChangePrice,
    CureJob,
    MutationJob,
    MutationRun,
    MutationSearch,
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


def test_a_change_that_does_not_matter_leaves_everything_as_it_was():
    known = tuple(variants(LATEST))
    source = tuple(range(3 * SPREAD, 3 * SPREAD + 2))
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
