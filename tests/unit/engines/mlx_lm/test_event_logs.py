"""Logs and answers of a few scenarios, event by event."""

from __future__ import annotations

import pytest

from tests.unit.engines.event_logs import lines_of, read

RUNS = read("mlx_lm")


@pytest.mark.parametrize("run", RUNS, ids="-".join)
def test_a_run_has_the_events_and_answers_of_the_file(run: tuple[str, str]) -> None:
    assert [*lines_of(*run)] == RUNS[run]
