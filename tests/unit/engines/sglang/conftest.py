"""The engine, known to the registry during the tests of this folder."""

from __future__ import annotations

import pytest

from cachesim.engines import registry
from cachesim.engines.sglang import ENGINE


@pytest.fixture(scope="module", autouse=True)
def engine():
    """The engine, registered. Afterwards all is as it was."""
    known = ENGINE.name in registry.ENGINES
    if not known:
        registry.ENGINES._take_engine(ENGINE, "tests")
    yield ENGINE
    if not known:
        registry.ENGINES._names.remove(ENGINE.name)
        del registry.ENGINES._known[ENGINE.name]
