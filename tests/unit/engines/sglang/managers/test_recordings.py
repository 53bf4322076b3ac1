"""Recordings of the real scheduler of SGLang."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.engines.class_recordings import first_difference, name_of, recordings, wrong_requests

RECORDINGS = recordings("sglang")


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_each_step_of_a_recording_is_repeated(path: Path) -> None:
    assert first_difference(path) is None


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_the_requests_that_read_something_wrong_are_those_of_the_recording(path: Path) -> None:
    assert wrong_requests(path) is None
