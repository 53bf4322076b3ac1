"""Tests of the sentences of ``why`` about mlx-lm's server."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cachesim.judging.judged_run import run_judged
from cachesim.judging.why_data import answer_data
from tests.scenarios.test_corpus import SCENARIOS
from tests.unit.tools.run.made import why_report

MINE = [name for name, scenario in SCENARIOS.items() if scenario.engine == "mlx_lm"][::3]


@pytest.mark.long
@pytest.mark.parametrize("name", MINE)
def test_why_fits_into_80_columns_and_shows_no_tokens(name):
    """Under a version with a fault, whose reports are the longest."""
    expected = SCENARIOS[name].expect
    run = run_judged(SCENARIOS[name], max(expected, key=lambda profile: bool(expected[profile].broken)), "provenance")
    for number in range(len(run.requests)):
        data = answer_data(run, number, is_compared=True)
        text = [step["says"] for step in data["decisions"]]
        assert not [said for said in text if ("(" in said and "tokens=" in said) or len(said) > 120]
        out = io.StringIO()
        Console(file=out, width=80).print(why_report(data))
        assert max(map(len, out.getvalue().splitlines())) <= 80
        assert len(out.getvalue().splitlines()) <= 60
