"""Tests that the rule that decided is found by exchange, named with its effect, and that no rule is skipped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.engines.registry import profiles, rules_of
from cachesim.engines.rule import Decision, Role, about
from cachesim.judging import deciding_rule as deciding_rule_module
from cachesim.judging.decided_text import decided_data, decided_sentences
from cachesim.judging.deciding_rule import (
    FailureKind,
    deciding_rule,
    failure_of,
    regains_much,
)
from cachesim.judging.judged_run import run_judged
from cachesim.judging.request_cost import ObservedRuns, RequestCost, cost_change, up_to
from cachesim.judging.rule_exchange import START, AskedRules, is_compatible, variants_in
from cachesim.judging.rule_set_order import changed_here, newer_rule_sets, place_of, search_order
from cachesim.judging.unused_point import unused_data, unused_points
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from tests.unit.tools.run.made import BROKEN, UNDECIDED, judgement
from tests.unit.tools.run.made import run as made_run

LOST = [(0, 3, "erased", "R", -1, "checkpoint")]
B9518, B10587, B11549 = (f"llama_cpp@{build}" for build in ("b9518", "b10587", "b11549"))


def run(name, profile):
    return run_judged(load(corpus_files()[name], set(profiles())), profile, "provenance")


def found(name, profile, number):
    return deciding_rule(run(name, profile), number)


@pytest.mark.part(3)
@pytest.mark.parametrize(("name", "profile", "number", "what", "rule", "variant", "request_of_rule"), [
    ("ik-1673-state-kept-without-checkpoint-hybrid", "ik_llama@1679", 2, FailureKind.FAULT, "IK-CKPT-RESET.NONE",
     "IK-CKPT-RESET.COUNTS", 2),
    ("llama-19924-resume-one-token-late-hybrid", "llama_cpp@b8152", 1, FailureKind.FAULT, "LC-CKPT-RESTORE.RE2",
     "LC-CKPT-RESTORE.RE4", 1),
    ("llama-24143-entry-removed-hybrid", B9518, 3, FailureKind.LOSS, "LC-PC-LOAD.TAKE", "LC-PC-LOAD.CLONE", 2),
    ("llama-25278-short-ubatch-assertion-qwen35mtp", B11549, 0, FailureKind.FAULT, "LC-RS-PLANES.MTP",
     "LC-RS-PLANES.NONE", START),
    ("ik-cells-above-gap-unread-dense", "ik_llama@main", 3, FailureKind.FAULT, "IK-KV-SEEN.BLOCK-ENDS",
     "IK-KV-SEEN.EXACT", 2),
    ("llama-25213-batch-cut-at-messages-dense", B9518, 1, FailureKind.COST, "LC-CKPT-BREAK.CR7", "LC-CKPT-BREAK.CR10",
     1),
])  # fmt: skip
def test_rule_whose_exchange_removes_the_failure_comes_first(
    name, profile, number, what, rule, variant, request_of_rule
):
    decided = found(name, profile, number)
    first = decided.cures[0]
    assert (decided.what, decided.rule, first.variant) == (what, rule, variant)
    assert first.request <= request_of_rule if what is FailureKind.COST else first.request == request_of_rule
    assert decided.variant_of == first.variant_of and rule in next(decided_sentences(decided))
    assert decided_data(decided)["cures"][0]["variant"] == variant


def test_rule_set_that_corrected_the_failure_comes_before_repairs_and_older_ones():
    decided = found("ik-1888-checkpoint-too-long-hybrid", "ik_llama@pr1888", 1)
    assert (decided.rule, decided.variant_of) == ("IK-CKPT-PICK.PR1888", "ik_llama@1949")
    assert [one.rule for one in decided.others] == ["IK-CKPT-BREAK.TOLERANCE", "IK-CKPT-ON"]


def test_rule_that_corrects_the_answer_comes_before_one_that_hides_the_fault():
    """With TH3 nothing is reused, so that nothing wrong is read."""
    decided = found("llama-29117-second-rollback", "llama_cpp@b9230", 1)
    assert [one.variant for one in decided.cures[:2]] == ["LC-RS-PLANE.COUNTED", "LC-CKPT-NEED.TH3"]
    assert [one.cache_n for one in decided.cures[:2]] == [61, 0]


def _in_other_slot(step):
    return replace(step, request=replace(step.request, id_slot=1 - step.request.id_slot))


@pytest.mark.long
def test_error_takes_the_place_of_a_fault_only_if_the_other_rule_set_gives_it_too():
    decided = found("llama-draft-longer-than-batch", B11549, 1)
    assert all(one.status == 200 for one in decided.cures)
    scenario = load(corpus_files()["llama-24840-draft-split-by-shortage"], set(profiles()))
    other_slots = replace(scenario, steps=tuple(map(_in_other_slot, scenario.steps)))
    assert not deciding_rule(run_judged(scenario, B9518, "provenance"), 0).cures, "the draft's slot leads: b9765 ends"
    decided = deciding_rule(run_judged(other_slots, B9518, "provenance"), 0)
    assert (decided.cures[0].variant, decided.cures[0].status) == ("LC-SPEC-SPLIT.ERROR", 500)
    assert "an error 500 takes the place of the fault" in next(decided_sentences(decided))


def test_first_answer_that_differs_decides_and_the_search_says_how_much_is_done():
    shown = []
    one = run("llama-17009-last-token-removed-hybrid", "llama_cpp@b6685")
    decided = deciding_rule(one, 1, show=lambda *step: shown.append(step))
    assert {name for name, *_ in shown} == {"comparing versions", "exchanging rules"}
    assert [done for _, done, _ in shown if done == 0] and all(done < total for _, done, total in shown)
    requests = {one.rule: one.request for one in decided.cures}
    assert (requests["LC-RS-RM.RM1"], requests["LC-END.QUIET"]) == (1, 0)


@pytest.mark.long
def test_rules_that_suffice_together_are_named_as_such():
    decided = found("llama-25070-entry-above-byte-limit", B10587, 2)
    assert decided.rule == decided.variant_of == "" and not decided.cures
    assert {one.new for one in decided.together} == {"LC-PC-ALLOC.PC5", "LC-PC-UPDATE.PC5"}
    assert next(decided_sentences(decided)).startswith("no single rule removes the loss; these do together")


def test_failure_that_no_rule_set_removes_is_said_in_one_sentence():
    decided = found("ik-1584-erased-slot-checkpoints-hybrid", "ik_llama@main", 2)
    assert not decided.cures and not decided.together and decided.complete
    [text] = decided_sentences(decided)
    assert text.startswith("no single rule of another rule set removes the loss")
    assert decided_data(None) is None


def test_first_request_has_no_failure_and_unknown_rules_are_not_searched():
    one = run("ik-cells-above-gap-unread-dense", "ik_llama@main")
    assert deciding_rule(one, 0) is None
    one.profile = "ik_llama@main (changed)"
    assert deciding_rule(one, 3) is None
    assert deciding_rule(one, 3, rules_of("ik_llama@main")).rule == "IK-KV-SEEN.BLOCK-ENDS"


def test_later_rule_sets_come_first_then_repairs_then_older_ones_from_the_nearest():
    names = search_order(B10587, rules_of(B10587))
    assert names[0] == "llama_cpp@b10809" and B10587 not in names
    repaired, older = names.index("llama_cpp@b11549-repaired"), names.index("llama_cpp@b9765")
    assert names.index(B11549) < repaired < older < names.index("llama_cpp@b8152")
    newer = newer_rule_sets(B11549, rules_of(B11549))
    assert newer[0] == "llama_cpp@b11549-repaired" and not set(newer) & {B9518, B10587, B11549}
    assert place_of("llama_cpp@24035-v1", rules_of("llama_cpp@24035-v1")) == place_of("llama_cpp@b9473", None)


def test_change_belongs_to_the_rule_set_whose_neighbour_has_another_rule():
    rules = rules_of("llama_cpp@b9473")
    assert changed_here("llama_cpp@b9473", rules, B9518, "ckpt_need")
    assert not changed_here("llama_cpp@b9473", rules, "llama_cpp@b9765", "ckpt_need")


def test_only_rules_with_the_same_role_and_arguments_are_exchanged():
    rules = rules_of(B11549)

    def make(role):
        def probe(*args) -> Decision:
            return Decision(args, {})

        probe.about, probe.__wrapped__ = about(rules.ckpt_need)._replace(role=role), len
        return probe

    assert is_compatible(rules.ckpt_need, make(about(rules.ckpt_need).role))
    assert not is_compatible(rules.ckpt_need, make(Role.DROP))
    assert not is_compatible(rules.ckpt_need, rules.ckpt_erase) and not is_compatible(3, rules.ckpt_need)


def test_rule_that_returns_no_decision_and_numbers_count_as_asked():
    rules, other = rules_of("ik_llama@1673"), rules_of("ik_llama@1679")
    known = variants_in(rules, [other], numbers=True)
    asked = AskedRules(rules, known)
    number = next(i for i, one in enumerate(known) if one.field == "undecoded")
    assert asked.matter == {number: (0, START)} and asked.first == {number: START}
    assert all(one.profile == "ik_llama@1679" for one in known)


def test_cost_is_worse_with_more_decode_calls_or_memory_and_differs_by_drafts():
    base = RequestCost(3, 1.0, 4, 2)
    assert RequestCost(4, 1.0, 4, 2).exceeds(base) and RequestCost(3, 1.5, 4, 2).exceeds(base)
    assert not RequestCost(2, 1.0, 9, 9).exceeds(base)
    assert cost_change(base, RequestCost(2, 1.0, 4, 1)) == (
        "2 decode calls instead of 3, 1 tokens counted as accepted instead of 2")


@pytest.mark.parametrize(("name", "profile", "number", "kind", "usable", "obstacle"), [
    ("llama-24143-entry-removed-hybrid", B9518, 3, "slot", 0, "the recurrent state ends at position 67, not 39"),
    ("llama-23280-extension-re-evaluated-hybrid", "llama_cpp@b9473", 1, "slot", 130, ""),
])  # fmt: skip
def test_stored_objects_that_were_not_used_are_named_with_the_obstacle(name, profile, number, kind, usable, obstacle):
    points = unused_points(run(name, profile), number)
    assert (points[0].kind, points[0].usable, points[0].obstacle) == (kind, usable, obstacle)
    assert unused_data(points)[0]["says"].startswith(f"still stored: {kind}")


def test_objects_that_were_removed_before_the_request_are_not_called_stored():
    one = run("llama-24143-entry-removed-hybrid", B9518)
    assert [point.tokens for point in unused_points(one, 3)] == [68, 45]
    assert unused_points(one, 0) is None and unused_data(None) is None


@pytest.mark.parametrize(("now", "before", "lost", "much"), [
    (13, 10, 6, True), (12, 10, 5, False), (13, 10, 5, True), (10, 10, 0, True), (9, 10, 0, False),
])  # fmt: skip
def test_half_of_a_loss_is_much(now, before, lost, much):
    assert regains_much(FailureKind.LOSS, now, before, lost) is much
    assert regains_much(FailureKind.FAULT, now, before, lost) and regains_much(FailureKind.COST, now, before, lost)


@pytest.mark.parametrize(("new", "gained", "better"), [
    (RequestCost(3, 1.0, 4, 2), 1, True),          # only more tokens reused
    (RequestCost(3, 1.0, 4, 2), 0, False),         # nothing is another
    (RequestCost(2, 1.0, 4, 2), 0, True), (RequestCost(3, 1.0, 4, 3), 0, True),
    (RequestCost(2, 1.0, 4, 2), -1, False), (RequestCost(4, 1.0, 4, 2), 9, False),
    (RequestCost(3, 1.0, 4, 2, uncounted=1), 9, False), (RequestCost(3, 1.0, 4, 2, repeated=1), 9, False),
])  # fmt: skip
def test_a_cost_is_better_if_nothing_is_worse_and_something_differs(new, gained, better):
    assert new.is_better(RequestCost(3, 1.0, 4, 2), gained) is better


@pytest.mark.parametrize(("fields", "what"), [
    ({"answer": BROKEN}, FailureKind.FAULT), ({"state": BROKEN}, FailureKind.FAULT),
    ({"answer": UNDECIDED, "refused": True}, FailureKind.REFUSED), ({"charges": LOST}, FailureKind.LOSS), ({}, None),
    ({"answer": UNDECIDED, "charges": LOST}, None), ({"charges": [(0, 0, "erased", "R", -1, "")]}, None),
])  # fmt: skip
def test_what_is_wrong_with_a_request(fields, what):
    assert failure_of(made_run(judgement(**fields)), 0) is what


def test_a_run_with_an_exchanged_rule_ends_after_a_multiple_of_the_decisions_of_the_run():
    failed, seen = run("ik-cells-above-gap-unread-dense", "ik_llama@main"), []
    runs = ObservedRuns(up_to(failed.scenario, 3), "ik_llama@main")
    unshared = runs.unshared
    runs.unshared = lambda rules, most: seen.append(most) or unshared(rules, most)
    assert deciding_rule(failed, 3, runs=runs).rule == "IK-KV-SEEN.BLOCK-ENDS"
    decisions = {most // deciding_rule_module.ENDLESS for most in seen}
    assert len(decisions) == 1 and decisions.pop() > 100
    assert {most % deciding_rule_module.ENDLESS for most in seen} == {0}
