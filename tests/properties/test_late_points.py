"""Restore points that were once reported late or not at all. An xfail is a defect that cachesim still has."""

from __future__ import annotations

import pytest

from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.runner import play
from tests.properties.histories import SMALL
from tests.properties.reported_points import Compared
from tests.unit.engines.llama_cpp.talk import Talk, word

OLD_IK = {"parallel": 2, "spec_type": "ngram-simple", "spec_draft_n_max": 4}


def compared(line, profile, model, **server):
    """Return all differences, without excuses."""
    watcher = Compared(excuses=False)
    play(from_line(line, model=model, profiles=(profile,), server=server), profile, "provenance", watcher)
    return watcher.found


def last_account(line, profile, model, **server):
    scenario = from_line(line, model=model, profiles=(profile,), server=server)
    return run_judged(scenario, profile, "provenance").requests[-1].ledger


def test_a_restored_slot_takes_cells_of_another_window(tmp_path):
    talk, watcher = Talk("W", rules=SMALL, parallel=2, kv_unified=True), Compared(excuses=False)
    watcher.started(talk.server)
    talk.ask(word("b", 8), id_slot=1)
    talk.server.slot("save", 1, tmp_path / "file")
    talk.server.slot("erase", 1)
    talk.ask(word("a", 24), id_slot=0)
    talk.server.slot("restore", 1, tmp_path / "file")
    watcher.compare()
    assert watcher.found == []


def test_a_further_completion_is_reported_with_its_rows():
    line, accounts = "A30>a4{n_cmpl=2 answers=b4}/A.b.B3", []
    for unified in (True, False):
        accounts.append(last_account(line, "llama_cpp@b10587", "A", parallel=2, kv_unified=unified))
    assert accounts[0].held == 33 and accounts[0].charges[0].event == "cleared"
    assert accounts[0] == accounts[1]


def test_rows_in_new_places_are_reported_once_they_exist():
    line = "A30.B20>a1/A[:5].B>b2/A[:5].B.b.C5"
    assert last_account(line, "llama_cpp@b10587", "A", cache_reuse=4, ctx_size=256).held == 26


@pytest.mark.xfail(strict=True, reason=(
    "A rejected draft restores a copy of the slot that has positions but no rows. It may take other cells, and then "
    "every row of the slot changes. ik_llama/speculative_decoding.py reports only the rows from the draft on."
))
def test_a_copy_without_rows_that_is_put_elsewhere_changes_all_rows():
    line = "B30>b8@1{drafts=2:0,2:1}/C30>c8@0{together drafts=2:0,2:1}"
    assert compared(line, "ik_llama@1949", "GA", spec_ckpt_mode="cpu", **OLD_IK) == []


@pytest.mark.xfail(strict=True, reason=(
    "A rejected draft restores its state into row 0, the state of slot 0, whichever slot drafted (IK-SPEC-ROW.FIRST). "
    "ik_llama/speculative_decoding.py reports only the slot that drafted."
))
def test_a_rejected_draft_overwrites_the_state_of_another_slot():
    assert compared("A30>a3@0/B30>b8@1{drafts=2:0}", "ik_llama@1949", "GA", **OLD_IK) == []


@pytest.mark.parametrize("line", ["B5>b3@1/A5>a3@0/B.b>c3@1", "A5>a3@0/B5>b3@1/A.a>c3@0/B.b>d3@1"])
def test_a_graph_that_is_used_again_overwrites_the_state_of_another_slot(line):
    """IK-GRAPH.SHAPE: the micro-batch of a slot writes the recurrent row of the slot before it."""
    assert compared(line, "ik_llama@2205", "GA", parallel=2) == []


def test_a_checkpoint_gets_the_last_of_its_tokens():
    assert compared("A27>b2/A.b[:1]>c1", "ik_llama@1673", "GA") == []
