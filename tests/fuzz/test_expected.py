"""A search finds nothing where nothing should be found; minutes, so only with ``-m slow``."""

from __future__ import annotations

import pytest

from cachesim.engines.registry import profiles
from tests.fuzz.expected import HOLD, LLAMA, unexpected

EXAMPLES = 300


def test_the_table_names_what_exists():
    assert {one.profile for one in HOLD} <= set(profiles())
    assert set(LLAMA) == {name for name in profiles() if name.startswith("llama_cpp@")}
    assert all(one.models for one in HOLD)


@pytest.mark.slow
@pytest.mark.parametrize("hold", HOLD, ids=lambda one: f"{one.profile}-{''.join(one.kinds)}-{len(one.properties)}")
def test_nothing_is_found_where_nothing_should_be(hold):
    assert [(repr(case.scenario(hold.profile)), finding) for case, finding in unexpected(hold, 0, EXAMPLES)] == []
