"""Limits of imports, for a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from cachesim.base import limits


@pytest.fixture
def lift() -> Iterator[Callable[..., None]]:
    """Return a function that sets these limits, by the names of their constants, and resets all others."""
    yield lambda **numbers: limits.lift({getattr(limits, name).name: number for name, number in numbers.items()})
    limits.lift({})
