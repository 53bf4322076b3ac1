"""Outputs of real servers as evidence: test outputs, and the pairs that they refute."""

from __future__ import annotations

import json

import pytest

from cachesim.engines.rule_outcomes import NEGATED, Outcome
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.load import load
from tests.evidence import server_runs
from tests.evidence.digests import of_case
from tests.shared import ROOT

FILE = next((ROOT / "scenarios").rglob("llama-adjacent-checkpoint-recorded.toml"))
PROFILE = "llama_cpp@b11549"
ERASE = "llama_cpp", Outcome("LC-CKPT-ERASE.ER2", "none"), "LC-CKPT-ERASE.REWRITTEN"


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Return a function that writes the output of a server that behaves like the simulation. ``changes`` apply to its
    first request."""
    def store(**changes):
        run = run_judged(load(FILE), PROFILE, "provenance", with_ledger=False)
        requests = [{"n": i, "cache_n": one.answer.cache_n, "prompt_n": one.answer.prompt_n,
                     "differs": one.judged.equal_cold is False} for i, one in enumerate(run.requests)]  # fmt: skip
        requests[0] |= changes
        one = {"scenario": of_case(FILE), "profile": PROFILE, "flags": [],
               "requests": requests, "as_simulated": True}  # fmt: skip
        (tmp_path / "b1.json").write_text(json.dumps({"build": "b1", "version": "", "scenarios": {FILE.stem: one}}))

    monkeypatch.setattr(server_runs, "FOLDER", tmp_path)
    for cached in (server_runs.runs, server_runs.met):
        cached.cache_clear()
    yield store
    for cached in (server_runs.runs, server_runs.met):
        cached.cache_clear()


def test_an_output_refutes_the_alternative_answer(stored):
    stored()
    found = server_runs.search(ERASE)
    assert (found.file.name, found.what) == ("b1.json", f"scenario {FILE.stem}") and found.step == 3
    assert server_runs.search(("llama_cpp", Outcome("LC-KV-COPY.LATER", "yes"), NEGATED)) is None


@pytest.mark.parametrize("changes", [{"cache_n": 1}, {"prompt_n": 1}, {"differs": True}])
def test_an_output_that_differs_from_the_simulation_is_ignored(stored, changes):
    stored(**changes)
    assert server_runs.runs("llama_cpp") == [] and server_runs.search(ERASE) is None
