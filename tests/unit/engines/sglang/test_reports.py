"""Reported behaviour of SGLang as scenarios: what each version reuses, and which answers are wrong."""

from pathlib import Path

import pytest

from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.load import load

FILES = sorted((Path(__file__).parent / "reports").glob("*.toml"))
WRONG = {("sg-revived-node-frees-read-slots", "sglang@0.5.9")}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_expectations_hold(file):
    scenario = load(file)
    for profile in scenario.profiles:
        run = run_judged(scenario, profile)
        assert run.wrong == []
        assert run.verdict.holds is ((scenario.id, profile) not in WRONG)
        assert all(one.ledger.balanced for one in run.requests)
