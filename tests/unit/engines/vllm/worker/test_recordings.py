"""What requests of recordings of vLLM read: rows, states and drafts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.engines.class_recordings import name_of, recordings, wrong_requests

RECORDINGS = recordings("vllm", "vllm_offload")


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_the_requests_that_read_something_wrong_are_those_of_the_recording(path: Path) -> None:
    assert wrong_requests(path) is None
