"""Tests of the report of ``diff``: verdicts, rules, requests and the first decision that differ."""

from __future__ import annotations

from dataclasses import replace

from cachesim.cli.main import main
from cachesim.engines.registry import rules_of
from cachesim.engines.shared.rule_set import DESCRIPTION_FIELDS, LOG_FIELDS
from cachesim.events import Decided
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.run.diff_report import diff_data, diff_report
from tests.unit.tools.run.made import judgement, run, shown

OTHER = "llama_cpp@b8152"


def compared(mine, theirs, first=(), stored=((), ())):
    """Two runs of the same requests; ``first`` are the decisions of both in request 0, ``stored`` both caches."""
    runs = [run(*mine, stored=list(stored[0])), run(*theirs, profile=OTHER, stored=list(stored[1]))]
    for made, decided in zip(runs, first, strict=False):
        for rule, value in decided:
            made.log.emit(Decided(0, rule, value, {}))
    return diff_data(*runs)


def test_the_rules_that_differ_are_counted_and_named():
    data = compared([judgement()], [judgement()])
    found = data["rules"]
    assert 0 < len(found["changes"]) < found["count"]
    lines = shown(diff_report(data, 1))
    assert all(any(line.startswith(f"{one['field']}: ") for line in lines) for one in found["changes"])


def test_the_first_decision_with_another_answer_is_told_and_variants_of_one_rule_are_alike():
    same = ("LC-NONE.A", 1), ("LC-NONE.B", 1)
    data = compared([judgement()], [judgement()], ([same[0], ("R.1", 5)], [same[1], ("R.1", 6)]))
    assert (data["first"]["request"], data["first"]["a"]["rule"]) == (0, "R.1")
    assert data["first"]["a"]["says"].startswith("5") and data["first"]["b"]["says"].startswith("6")


def test_runs_that_decide_alike_part_nowhere():
    data = compared([judgement()], [judgement()], ([("R.1", 5)], [("R.2", 5)]))
    assert data["first"] is None and data["observed"] == []


def test_decisions_without_an_effect_do_not_differ():
    plans = [("LC-NPAST-ONE", 5)], [("LC-NPAST-ONE", 6)]
    because = [{"n_tokens": 9, "n_past": value} for [(_, value)] in plans]
    runs = [run(judgement()), run(judgement(), profile=OTHER)]
    for made, [(rule, value)], numbers in zip(runs, plans, because, strict=True):
        made.log.emit(Decided(0, rule, value, numbers))
    assert diff_data(*runs)["first"] is None
    runs[1].log.emit(Decided(0, "R.1", 1, {}))
    runs[0].log.emit(Decided(0, "R.1", 2, {}))
    assert diff_data(*runs)["first"]["a"]["rule"] == "R.1"


def test_without_profiles_a_reported_bug_is_compared_with_its_fix(capsys):
    assert main(["diff", "llama-17527-two-agents-dense", "--provenance"]) == 0
    out = capsys.readouterr().out
    assert "A llama_cpp@b7400 " in out and "B llama_cpp@b7789 " in out
    assert main(["diff", "A5/A"]) == 2 and "-p A -p B" in capsys.readouterr().err
    assert main(["diff", "llama-17527-two-agents-dense", "-p", "llama_cpp@b7400"]) == 2


def first_difference(name, *profiles):
    """The first decision that differs in a bundled scenario."""
    runs = [run_judged(load(corpus_files()[name]), profile, "provenance") for profile in profiles]
    data = diff_data(*runs)
    return data["first"]["request"], data["first"]["together"]


def test_of_requests_sent_together_each_has_its_own_first_decision_that_differs():
    """Request 3 is launched in the slot that request 0 has left."""
    name = "llama-23720-checkpoint-too-large-window"
    assert first_difference(name, "llama_cpp@b9231", "llama_cpp@b9473") == (3, [])


def test_a_decision_without_a_slot_is_that_of_all_requests_sent_together():
    name = "mlx-1169-joined-chat-continues-first-hybrid"
    assert first_difference(name, "mlx_lm@m1072-metal", "mlx_lm@0.31.3") == (0, [0, 1])


def test_rules_and_decisions_of_two_engines_are_not_compared():
    mlx = run(judgement(cache_n=4), profile="mlx_lm@0.32.2")
    mlx.scenario = replace(mlx.scenario, engine="mlx_lm", profiles=("mlx_lm@0.32.2",))
    data = diff_data(run(judgement()), mlx)
    assert (data["rules"], data["first"]) == (None, None)
    assert [one["request"] for one in data["observed"]] == [0]


def test_of_requests_sent_together_the_first_decision_in_the_log_is_named():
    line = from_line("A20/B20{together}", model="A", server={"parallel": 2})
    runs = [run_judged(line, "llama_cpp@b10587", "provenance") for _ in range(2)]
    events = runs[1].log.events
    places = [i for i, event in enumerate(events) if isinstance(event, Decided) and event.rule == "LC-NPAST-LCP"]
    assert [events[place].slot for place in places] == [0, 1] and runs[1].requests[1].answer.id_slot == 0
    for place in places:
        events[place] = replace(events[place], rule="X.1")
    first = diff_data(*runs)["first"]
    assert (first["request"], first["together"], first["a"]["rule"], first["b"]["rule"]) == (
        1, [], "LC-NPAST-LCP", "X.1")  # fmt: skip


def test_rules_that_only_change_the_log_are_counted_only_if_it_is_compared():
    fields = {name.partition(".")[0]: name for name in rules_of(OTHER).fields()}
    assert LOG_FIELDS & fields.keys() and DESCRIPTION_FIELDS & fields.keys()
    every = [name.partition(".")[0] for name in rules_of("llama_cpp@b10587").fields()]
    found = [diff_data(run(judgement()), run(judgement(), profile=OTHER), log)["rules"]["count"]
             for log in (False, True)]  # fmt: skip
    assert diff_data(run(judgement()), run(judgement(), profile=OTHER))["rules"]["count"] == found[0]
    assert found == [sum(name not in hidden for name in every)
                     for hidden in ({*DESCRIPTION_FIELDS, *LOG_FIELDS}, DESCRIPTION_FIELDS)]
