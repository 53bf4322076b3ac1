"""Constants that the model computes once are computed anew for each test of the model."""

from __future__ import annotations

import pytest

from cachesim.model import forward, hash_mixing, rope

CACHED = (hash_mixing.layer_keys, hash_mixing._first, hash_mixing._powers, rope._block)


@pytest.fixture(autouse=True)
def own_constants() -> None:
    """Compute keys, powers and rotations again."""
    for function in CACHED:
        function.cache_clear()


@pytest.fixture
def own_models() -> None:
    """Build models again."""
    forward._make_model.cache_clear()
