"""Tests of the report of ``diff``: verdicts, rules, requests and the first decision that differ."""

from __future__ import annotations

from cachesim.cli.main import main
from cachesim.events import Decided
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from cachesim.tools.run.diff_report import diff_data, diff_report
from tests.unit.tools.run.made import BROKEN, judgement, run, shown

OTHER = "llama_cpp@b8152"


def compared(mine, theirs, first=(), stored=((), ())):
    """Two runs of the same requests; ``first`` are the decisions of both in request 0, ``stored`` both caches."""
    runs = [run(*mine, stored=list(stored[0])), run(*theirs, profile=OTHER, stored=list(stored[1]))]
    for made, decided in zip(runs, first, strict=False):
        for rule, value in decided:
            made.log.emit(Decided(0, rule, value, {}))
    return diff_data(*runs)


def test_whether_a_request_differs_comes_first_and_then_the_verdicts():
    lines = shown(diff_report(compared([judgement()], [judgement(BROKEN)])))
    assert lines[1:4] == [
        "1 of 1 request differs: 0",
        "A llama_cpp@b10587  correct answer, 0 tokens re-evaluated",
        f"B {OTHER}  wrong answer at request 0, 0 tokens re-evaluated",
    ]


def test_the_rules_that_differ_are_counted_and_named():
    data = compared([judgement()], [judgement()])
    found = data["rules"]
    assert 0 < len(found["changes"]) < found["count"]
    lines = shown(diff_report(data, 1))
    assert f"{len(found['changes'])} of {found['count']} rules differ" in lines
    assert all(any(line.startswith(f"{one['field']}: ") for line in lines) for one in found["changes"])


def test_only_requests_that_differ_are_shown_unless_all_are_wanted():
    data = compared([judgement(), judgement(cache_n=3, prompt_n=7)], [judgement(), judgement(cache_n=7, prompt_n=3)])
    lines = shown(diff_report(data))
    assert "1 of 2 requests differs: 1" in lines
    [row] = [line for line in lines if line.startswith("1 B")]
    assert row.split()[2:9] == ["10", "3", "->", "7", "7", "->", "3"]
    assert not any(line.startswith("0 A") for line in lines)
    assert any(line.startswith("0 A") for line in shown(diff_report(data, 1)))


def test_totals_and_their_share():
    lost = [(0, 3, "erased", "R.1", -1, "checkpoint"), (0, 4, "evicted", "R.2", 0, "entry")]
    data = compared([judgement(prompt_n=8, charges=lost)], [judgement(prompt_n=4, charges=lost[:1])])
    assert "evaluated in all: 8 -> 4 tokens (-50.0 %); re-evaluated: 7 -> 3" in shown(diff_report(data))


def test_the_prompt_caches_at_the_end_where_they_differ():
    same = compared([judgement()], [judgement()], stored=([(0, 9)], [(0, 9)]))
    assert "prompt cache at the end" not in shown(diff_report(same))
    lines = shown(diff_report(compared([judgement()], [judgement()], stored=([(0, 9), (-1, 4)], []))))
    at = lines.index("prompt cache at the end")
    assert lines[at + 1 : at + 3] == ["A 9 tokens of request 0, 4 tokens of an older conversation", "B empty"]


def test_the_first_decision_with_another_answer_is_told_and_variants_of_one_rule_are_alike():
    same = ("LC-NONE.A", 1), ("LC-NONE.B", 1)
    data = compared([judgement()], [judgement()], ([same[0], ("R.1", 5)], [same[1], ("R.1", 6)]))
    assert (data["first"]["request"], data["first"]["a"]["rule"]) == (0, "R.1")
    assert data["first"]["a"]["says"].startswith("5") and data["first"]["b"]["says"].startswith("6")
    assert "first difference at request 0" in shown(diff_report(data))


def test_runs_that_decide_alike_part_nowhere():
    data = compared([judgement()], [judgement()], ([("R.1", 5)], [("R.2", 5)]))
    assert data["first"] is None and shown(diff_report(data))[-1] == "all decisions with an effect are equal"
    assert shown(diff_report(data))[1] == "no request differs (of 1)"


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
    assert main(["diff", "llama-17527-two-agents-dense"]) == 0
    out = capsys.readouterr().out
    assert "A llama_cpp@b7400 " in out and "B llama_cpp@b7789 " in out
    assert main(["diff", "A5/A"]) == 2 and "two different profiles" in capsys.readouterr().err
    assert main(["diff", "llama-17527-two-agents-dense", "-p", "llama_cpp@b7400"]) == 2


def first_difference(name, *profiles):
    """The first decision that differs in a bundled scenario."""
    runs = [run_judged(load(corpus_files()[name]), profile, "provenance") for profile in profiles]
    data = diff_data(*runs)
    return data["first"]["request"], data["first"]["together"], shown(diff_report(data))


def test_of_requests_sent_together_each_has_its_own_first_decision_that_differs():
    """Request 3 is launched in the slot that request 0 has left."""
    name = "llama-23720-checkpoint-too-large-window"
    request, together, lines = first_difference(name, "llama_cpp@b9231", "llama_cpp@b9473")
    assert (request, together) == (3, []) and "first difference at request 3" in lines


def test_a_decision_without_a_slot_is_that_of_all_requests_sent_together():
    name = "mlx-1169-joined-chat-continues-first-hybrid"
    request, together, lines = first_difference(name, "mlx_lm@m1072-metal", "mlx_lm@0.31.3")
    assert (request, together) == (0, [0, 1]) and "first difference at requests 0 to 1, sent together" in lines


def test_memory_that_the_server_does_not_count_is_compared():
    theirs = judgement()
    theirs.uncounted = 2000
    lines = shown(diff_report(compared([judgement()], [theirs])))
    assert "uncounted memory after request 0: 0 -> 2,000 bytes" in lines
