"""The engine of the tests in this folder."""

from __future__ import annotations

import pytest

from cachesim.engines.sglang import ENGINE


@pytest.fixture(scope="session")
def engine():
    """Return the engine."""
    return ENGINE
