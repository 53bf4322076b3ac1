"""Tests of the fields of the data of a run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.judging.judged_run import run_judged
from cachesim.judging.run_data import run_data, stored_mib
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from tests.unit.tools.run.made import BROKEN, UNDECIDED, judgement, run


def test_every_count_of_a_request_is_its_own():
    one = judgement(cache_n=4, prompt_n=6, tokens_cached=13, id_slot=2, predicted_n=5, draft_n=8, draft_n_accepted=3,
                    deciding="R.1")  # fmt: skip
    (data,) = run_data(run(one))["requests"]
    wanted = {
        "prompt": 10, "kept": 4, "restored": 0, "computed": 6, "cache_n": 4, "prompt_n": 6, "tokens_cached": 13,
        "id_slot": 2, "draft_n": 8, "draft_n_accepted": 3, "rule": "R.1", "checkpoints": [4, 7], "entries": 2,
        "best": 9, "held": 8, "completions": 1, "i": 0,
    }  # fmt: skip
    assert {name: data[name] for name in wanted} == wanted


def test_what_came_back_was_not_kept():
    (data,) = run_data(run(judgement(cache_n=4, prompt_n=6, source="checkpoint")))["requests"]
    assert (data["kept"], data["restored"], data["computed"]) == (0, 4, 6)


def test_who_is_broken_refused_and_told():
    made = run(judgement(), judgement(BROKEN), judgement(UNDECIDED, refused=True), judgement(UNDECIDED, refused=True),
               told=[3])  # fmt: skip
    data = run_data(made)
    assert (data["holds"], data["broken"], data["refused"], data["told"]) == (False, [1], [2, 3], [3])
    assert [one["equal_cold"] for one in data["requests"]] == [True, False, None, None]
    assert [one["rung"] for one in data["requests"]] == ["", "bits", "", ""]


def test_a_file_without_expectations_is_neither_met_nor_missed():
    assert run_data(run(judgement()))["as_expected"] is None


def test_what_was_lost_and_what_is_armed_have_their_request():
    stored = SimpleNamespace(kind="entry", owner=1, resume=7, length=7)
    first = judgement(charges=[(0, 3, "erased", "R.1", -1, "checkpoint")])
    second = judgement(charges=[(1, 2, "evicted", "R.2", 0, "entry")], armed=[(stored, BROKEN)])
    data = run_data(run(first, second))
    assert [(one["request"], one["tokens"], one["rule"], one["at"]) for one in data["lost"]] == [
        (0, 3, "R.1", -1), (1, 2, "R.2", 0),
    ]  # fmt: skip
    assert [(one["request"], one["kind"], one["owner"], one["tokens"]) for one in data["armed"]] == [(1, "entry", 1, 7)]


@pytest.mark.parametrize(("profile", "n"), [("llama_cpp@b10587", 1), ("llama_cpp@pr24143-on-b10587", 0)])
def test_a_proposal_is_none_of_the_versions_in_which_a_bug_exists(profile, n):
    run = run_judged(load(corpus_files()["llama-24143-unusable-entry-removed-hybrid"]), profile, "provenance")
    assert len(run_data(run)["lives"]) == n


@pytest.mark.parametrize(("sizes", "stored"), [([], None), ([None], None), ([3.5, None], 3.5), ([3.5, 0.0, None], 0.0)])
def test_the_size_of_the_prompt_cache_is_that_of_its_last_update(sizes, stored):
    assert stored_mib([SimpleNamespace(cached_mib=size) for size in sizes]) == stored
