"""Do the two columns of a comparison show the two runs, and is it told where they part?"""

from __future__ import annotations

from cachesim.events import Decided
from cachesim.reports.diff_report import diff_data, diff_report
from tests.unit.reports.made import BROKEN, judgement, run, shown


def compared(mine, theirs, first=()):
    """Two runs of the same requests; ``first`` are the decisions of both in request 0."""
    runs = [run(*mine), run(*theirs, profile="llama_cpp@mtmd-broken")]
    for made, decided in zip(runs, first, strict=False):
        for rule, value in decided:
            made.log.emit(Decided(0, rule, value, {}))
    return diff_data(*runs)


def test_every_column_shows_its_own_run():
    data = compared([judgement(cache_n=3)], [judgement(BROKEN, cache_n=7)])
    lines = shown(diff_report(data))
    assert lines[1].split() == ["#", "prompt", "tokens", "cache_n", "A", "cache_n", "B", "=cold", "A", "=cold", "B"]
    assert lines[2].split() == ["0", "A", "10", "3", "7", "yes", "NO"]
    assert (data["a"]["profile"], data["b"]["profile"]) == ("llama_cpp@head", "llama_cpp@mtmd-broken")


def test_what_each_run_lost_is_summed():
    lost = [(0, 3, "erased", "R.1", -1, "checkpoint"), (0, 4, "evicted", "R.2", 0, "entry")]
    lines = shown(diff_report(compared([judgement(charges=lost)], [judgement(charges=lost[:1])])))
    assert "A computes 7 tokens again whose state had once existed" in lines
    assert "B computes 3 tokens again whose state had once existed" in lines


def test_the_first_decision_with_another_answer_is_told_and_variants_of_one_rule_are_alike():
    same = ("LC-NONE.A", 1), ("LC-NONE.B", 1)
    data = compared([judgement()], [judgement()], ([same[0], ("R.1", 5)], [same[1], ("R.1", 6)]))
    assert (data["first"]["request"], data["first"]["a"]["rule"]) == (0, "R.1")
    assert data["first"]["a"]["says"].startswith("5") and data["first"]["b"]["says"].startswith("6")
    assert "they part at request 0:" in shown(diff_report(data))


def test_runs_that_decide_alike_part_nowhere():
    data = compared([judgement()], [judgement()], ([("R.1", 5)], [("R.2", 5)]))
    assert data["first"] is None and shown(diff_report(data))[-1] == "every decision is the same"
