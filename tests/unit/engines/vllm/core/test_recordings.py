"""Recordings of the real scheduler and cache of vLLM."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.engines.class_recordings import first_difference, name_of, recordings

RECORDINGS = recordings("vllm", "vllm_offload")


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_each_step_of_a_recording_is_repeated(path: Path) -> None:
    assert first_difference(path) is None
