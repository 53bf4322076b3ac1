"""Decisions of the rules in whole runs, with the numbers behind them."""

from __future__ import annotations

import pytest

from tests.unit.engines.event_logs import decisions, lines_of, read

RUNS = read("mlx_lm")


@pytest.mark.parametrize("run", RUNS, ids="-".join)
def test_the_rules_decide_in_a_run_as_the_file_shows(run: tuple[str, str]) -> None:
    assert decisions(lines_of(*run)) == decisions(RUNS[run])
