"""Tests of wrong answers and charges that depend on an outcome not seen on a real server."""

from __future__ import annotations

import shutil

import pytest

from cachesim.base.console import as_text
from cachesim.engines.registry import BUILTIN, rules_of
from cachesim.engines.rule import RULES
from cachesim.engines.rule_outcomes import NEGATED, Outcome
from cachesim.judging import evidence
from cachesim.judging.evidence import (
    PREDICTED,
    Grade,
    GradedOutcome,
    grade_of,
    is_unseen,
    predicted,
    rules_to_ask,
    table_of,
)
from cachesim.judging.judged_run import run_judged
from cachesim.judging.run_data import run_data
from cachesim.judging.verdict import Verdict
from cachesim.judging.verdict_words import VerdictWord
from cachesim.judging.why_data import answer_data
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.advise.memory_meter import UNITS
from cachesim.tools.advise.ranking import choose
from cachesim.tools.advise.report import advise_report
from cachesim.tools.advise.search import AdviceSearch, advice_data
from cachesim.tools.advise.setup_changes import Setup
from cachesim.tools.rulebook import rules_report
from cachesim.tools.rulebook.rules_report import rule_data, rule_report
from cachesim.tools.run.diff_report import diff_data, diff_report
from cachesim.tools.run.run_table import run_report
from tests.evidence.table import write_table
from tests.unit.tools.run.made import why_report

PROFILE, ENGINE = "llama_cpp@b10587", "llama_cpp"
STALE = load(corpus_files()["llama-adjacent-checkpoint-recorded"])
"""Its last request restores a checkpoint that ends with a replaced token."""
FEWER = "S40.A20>2/S.A.B9>2/S.A.C3"
"""Its requests go on from checkpoints."""
ERASE = "LC-CKPT-ERASE.ER2"


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """A copy of the stored grades that a test may change."""
    folder = tmp_path / "evidence"
    shutil.copytree(evidence.FOLDER, folder)
    monkeypatch.setattr(evidence, "FOLDER", folder)
    table_of.cache_clear()
    yield folder
    monkeypatch.undo()
    table_of.cache_clear()


def only_read(rule=""):
    """Remove the recordings that distinguish the answers of this rule, "" = of every rule, from alternatives."""
    table = table_of(ENGINE)
    graded = {outcome: GradedOutcome(Grade.READ, {}, tuple(one.seen)) if rule in ("", outcome.rule) else one
              for outcome, one in table.graded.items()}  # fmt: skip
    write_table(ENGINE, table._replace(graded=graded))


def played(case=STALE):
    scenario = from_line(case, model="GA", profiles=(PROFILE,)) if isinstance(case, str) else case
    return run_judged(scenario, PROFILE, "provenance")


def test_what_a_recording_shows_is_not_predicted():
    run = played()
    assert run.broken and rules_of(PROFILE).ckpt_erase.rule == ERASE
    assert predicted(run) == [] == run_data(run)["predicted"]
    assert PREDICTED not in as_text(run_report(run_data(run)))


def test_a_wrong_answer_that_depends_on_an_outcome_that_was_only_read_is_predicted(tables):
    only_read(ERASE)
    run = played()
    [found] = [one for one in predicted(run) if one.what == "verdict"]
    assert (found.request, found.rule, found.other) == (run.broken[0], ERASE, "LC-CKPT-ERASE.ER1")
    assert f"request {found.request}, the wrong answer: {PREDICTED} ({ERASE}, case 'none')" in " ".join(
        as_text(run_report(run_data(run))).split())
    said = as_text(why_report(answer_data(run, found.request, is_compared=True)))
    assert PREDICTED in " ".join(said.split()) and "[read]" in said


def test_a_fault_in_numbers_alone_is_not_predicted(tables):
    """A repetition, which computes no numbers, would be right under every alternative."""
    only_read(ERASE)
    run = run_judged(STALE, PROFILE, "exact")
    [wrong] = run.broken
    right = next(i for i, one in enumerate(run.requests) if one.judged.equal_cold)
    run.requests[right].judged.answer = Verdict(VerdictWord.WRONG, "bits")
    assert [one.request for one in predicted(run) if one.what == "verdict"] == [wrong]


def test_alternatives_of_the_rules_that_charges_cite_are_tried_first(tables, monkeypatch):
    only_read()
    run, rule = played(), "LC-CKPT-CREATE.CR10"
    assert {charge.rule for one in run.requests for charge in one.ledger.charges} == {rule}
    monkeypatch.setattr(evidence, "MOST", 1)
    assert [(one.request, one.what, one.rule) for one in predicted(run)] == [(3, "charge", rule), (3, "verdict", rule)]


def test_answers_of_other_rule_sets_are_tried_before_values_that_no_server_may_give():
    """The run has 29 alternatives that nothing refutes; 16 are tried."""
    scenario = load(corpus_files()["sglang-revived-node-frees-read-slots"])
    [first, *_] = predicted(run_judged(scenario, "sglang@0.5.9", "provenance"))
    assert first[1:] == ("verdict", "SG-WINDOW-FRONTIER.NONE", "some", "SG-WINDOW-FRONTIER.BARE")


def test_a_run_in_which_nothing_is_wrong_depends_on_nothing(tables):
    only_read(ERASE)
    run = played("A10>2")
    assert not run.broken and predicted(run) == []


def test_a_charge_that_depends_on_an_outcome_that_was_only_read_is_predicted(tables):
    only_read("LC-CKPT-CREATE.CR10")
    run = played(FEWER)
    assert not run.broken and [(one.request, one.what) for one in predicted(run)] == [(1, "charge"), (2, "charge")]


def test_an_answer_with_which_the_server_cannot_go_on_is_not_admissible(tables):
    only_read("LC-CKPT-ERASE.ER2")
    assert "the first" not in {one.other for one in predicted(played())}


def test_a_wrong_answer_that_reads_the_output_of_another_slot_depends_on_no_unrelated_rule():
    """The repetition keeps no ledger, so it may defer evaluations; an answer must not change for that."""
    case = load(corpus_files()["llama-media-answer-of-another-slot"])
    run = run_judged(case, "llama_cpp@b11549", "provenance")
    assert run_judged(case, run.profile, "provenance", with_ledger=False).broken == run.broken == [1]
    assert predicted(run) == []


@pytest.mark.parametrize("name", ["ik-shift-without-cache-prompt", "ik-draft-rollback-wrong-slot"])
def test_an_answer_with_which_a_run_never_ends_or_never_starts_is_not_admissible(name):
    """With an alternative answer the first shifts its context for ever; with another the server of the second refuses
    to start."""
    run = run_judged(load(corpus_files()[name]), "ik_llama@1889-base", "provenance")
    assert run.broken and isinstance(predicted(run), list)


@pytest.mark.parametrize("outcome, grade", [
    (Outcome(ERASE, "none"), Grade.RECORDED), (Outcome(ERASE, "never met"), Grade.READ),
    (Outcome("LC-CKPT-ERASE.REWRITTEN", "none"), Grade.OURS), (Outcome("MY-RULE", "yes"), Grade.OURS),
    (Outcome("LC-PC-LOAD.CLONE", "no"), Grade.RECORDED),
])
def test_an_outcome_has_a_grade(outcome, grade):
    assert grade_of(ENGINE, outcome) is grade


def test_only_what_nothing_refutes_is_unseen():
    assert is_unseen(ENGINE, Outcome(ERASE, "none"), "LC-CKPT-ERASE.REWRITTEN") is False
    assert is_unseen(ENGINE, Outcome(ERASE, "never met"), NEGATED) is True
    assert is_unseen(ENGINE, Outcome("MY-RULE", "yes"), NEGATED) is False
    assert is_unseen("another", Outcome(ERASE, "none"), NEGATED) is False
    assert grade_of("another", Outcome("X", "")) is None


def test_a_table_is_read_as_it_was_written(tables):
    before = table_of(ENGINE), (tables / f"{ENGINE}.json").read_bytes()
    write_table(ENGINE, before[0])
    assert (table_of(ENGINE), (tables / f"{ENGINE}.json").read_bytes()) == before


def test_diff_and_advise_say_what_is_predicted(tables):
    only_read(ERASE)
    run = played()
    data = diff_data(run, run_judged(run.scenario, "llama_cpp@b11549-repaired", "provenance"))
    assert data["a"]["predicted"] and PREDICTED in " ".join(as_text(diff_report(data)).split())
    search = AdviceSearch(Setup(run.scenario, PROFILE))
    advice = advice_data(search, choose(search.base, [], UNITS), UNITS)
    assert "verdict" in [one["what"] for one in advice["base"]["predicted"]]
    shown = as_text(advise_report({**advice, "rule_sets": 1, "log": None, "proposed": []}))
    assert PREDICTED in " ".join(shown.split())


def test_a_rule_shows_how_its_outcomes_are_known():
    data = rule_data(ERASE, RULES[ERASE], rules_report.tables())
    assert {"case": "none", "grade": "recorded"} in data["grades"]
    assert "none: recorded" in as_text(rule_report(data))


def test_a_workload_counts_the_wrong_answers_that_are_predicted(tables):
    run = played()
    assert run.broken and predicted(run, rules_of(PROFILE)) == []
    only_read(ERASE)
    found = predicted(run, rules_of(PROFILE))
    assert {one.request for one in found if one.what == "verdict"} == set(run.broken)


@pytest.mark.parametrize("opposite", [(), (NEGATED,)])
@pytest.mark.parametrize("engine", BUILTIN)
def test_an_outcome_whose_alternatives_are_not_evaluated_has_no_unseen_one(engine, opposite):
    values = ("one more", "one less", "none", "the first", "n_past one more")
    fields = [[fn.rule for fn in rules] for rules in evidence.variants_of_engine(engine).values()]
    others = [(outcome, tuple(rule for rule in ids if rule != outcome.rule))
              for outcome in table_of(engine).graded for ids in fields if outcome.rule in ids]  # fmt: skip
    asked = [(outcome, ids, rules_to_ask(engine, outcome, ids, bool(opposite))) for outcome, ids in others]
    skipped = [(outcome, ids) for outcome, ids, to_ask in asked if to_ask is None]
    assert skipped
    assert not any(is_unseen(engine, outcome, name) for outcome, ids in skipped for name in (*ids, *opposite, *values))
    refuted = [(outcome, {*ids} - {*to_ask}) for outcome, ids, to_ask in asked if to_ask is not None]
    assert not any(is_unseen(engine, outcome, name) for outcome, ids in refuted for name in (*ids, *values) if ids)


def test_rules_without_grades_and_runs_without_a_failure_depend_on_nothing():
    broken = run_judged(STALE, PROFILE, "provenance")
    broken.profile = "llama_cpp@mine"
    assert predicted(broken) == [] == predicted(run_judged(from_line("A4"), PROFILE, "provenance"))
    broken.profile = "own@1"
    assert predicted(broken) == []

