"""Effects of whole runs on the parts of this folder: events, answers, and the caches afterwards."""

from __future__ import annotations

import pytest

from tests.unit.engines.event_logs import effects, lines_of, read

RUNS = read("llama_cpp")


@pytest.mark.parametrize("run", RUNS, ids="-".join)
def test_a_run_has_the_effects_of_the_file(run: tuple[str, str]) -> None:
    assert effects(lines_of(*run)) == effects(RUNS[run])
