"""Tests of the bundled scenarios in exact mode.

In a file of its own, so that another process can play it: it takes three times as long as all that test_corpus.py asks.
"""

from __future__ import annotations

from functools import cache

import pytest

from cachesim.engines.ik_llama.memory.model_layout import model_kind as ik_model_kind
from cachesim.engines.llama_cpp.memory.model_layout import model_kind
from cachesim.engines.mlx_lm.model_layout import model_kind as mlx_model_kind
from cachesim.judging.compare_answer import Judge
from cachesim.judging.judged_run import run_judged
from cachesim.model import make_model, parse
from tests.scenarios.test_corpus import BROKEN, RUNS, SCENARIOS, undecided

pytestmark = pytest.mark.long
FIRST = {(SCENARIOS[run[0]].engine, SCENARIOS[run[0]].model): run for run in [*RUNS[::-1], *BROKEN[::-1]]}
CASES = [pytest.param(*run, marks=[pytest.mark.slow] * (run not in FIRST.values())) for run in RUNS]
"""All runs; ``make long`` repeats one of each model with arithmetic, a wrong one if there is one, ``-m slow`` the
others."""
KINDS = {"llama_cpp": model_kind, "ik_llama": ik_model_kind, "mlx_lm": mlx_model_kind}
"""Engines with names of models; the others take layers."""


@cache
def judge_of(engine: str, model: str) -> Judge:
    """Return the judge of all exact runs of a model. The result of a cold run depends on nothing else. Engines give the
    same short name to different models."""
    spec = KINDS[engine](model).spec if engine in KINDS else parse(model)
    return Judge(make_model(spec, exact=True))


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_run_is_as_its_file_says_with_arithmetic(name: str, profile: str) -> None:
    run = run_judged(SCENARIOS[name], profile, "exact", judge_of(SCENARIOS[name].engine, SCENARIOS[name].model))
    assert run.wrong == []
    assert undecided(run) == sorted(run.unsettled + run.told), "undecided is never green, unless the file expects it"
