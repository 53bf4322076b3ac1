"""The rule set that a loss is measured against: which one, how many tokens it reuses, and when there is none."""

from __future__ import annotations

import pytest

from cachesim.judging.judged_run import run_judged
from cachesim.judging.reuse_reference import LostReuse, ReferenceSearch
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load

NEWEST = "llama_cpp@b11549"


def search(case, profile=NEWEST, **server):
    scenario = load(corpus_files()[case]) if case in corpus_files() else from_line(case, model="A", server=server)
    return ReferenceSearch(run_judged(scenario, profile, "provenance"))


@pytest.mark.parametrize(("case", "label", "lost"), [
    ("llama-24143-entry-removed-dense", "#24143", [LostReuse(3, 40, 100, 100)]),
    ("llama-25070-oversized-slot-cleared", "b9518", [LostReuse(2, 0, 1200, 1200)]),
    ("llama-18497-inserted-block-hybrid", "LC-CKPT-BREAK.CR3 of b8260", [LostReuse(1, 0, 64, 64)]),
])  # fmt: skip
def test_the_rule_set_that_keeps_the_tokens(case, label, lost):
    found = search(case).result()
    assert (found.label, [*found.lost]) == (label, lost)


@pytest.mark.parametrize(("case", "losing"), [
    ("A9/B9", []), ("S40.A60/S.C25/S.A", [2]),
])  # fmt: skip
def test_without_a_loss_or_a_rule_set_that_reuses_more_there_is_none(case, losing):
    found = search(case, parallel=1, cache_ram=0)
    assert (found.losing, found.result()) == (losing, None)


def test_a_loss_that_a_later_build_repaired_is_measured_against_it():
    found = search("llama-18391-refused-cut-asserts-hybrid", "llama_cpp@b8450").result()
    assert (found.profile, found.lost[0].regained) == ("llama_cpp@b9473", 36)


def test_of_two_that_regain_all_tokens_the_one_with_fewer_changes_is_the_reference():
    """Beside the one on b9518 there is the pull request on b10587, whose table differs in more rules."""
    found = search("llama-24143-entry-removed-dense", "llama_cpp@b9230").result()
    assert (found.profile, found.total) == ("llama_cpp@pr24143-on-b9518", 60)


def test_nobody_reads_the_reuse_of_a_request_whose_client_disconnects():
    assert 2 not in search("llama-25213-small-batches-dense").losing
