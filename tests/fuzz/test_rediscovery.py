"""Tests that every known defect is found without prior knowledge; slow searches only with ``-m slow``."""

from __future__ import annotations

import pytest

from tests.fuzz.defects import DEFECTS, OF_ADAPTERS
from tests.fuzz.rediscovery import LIMIT, search

pytestmark = pytest.mark.long
WRONG = ["L1", "L2", "L3", "L4", "L4b", "L7", "L7b", "L7c", "L7d", "L7e", "L8", "L9"]
"""Ways in which rows that were computed under other adapters are reused."""
QUICK = ("L2", "L3", "L7", "L7b", "D1 one token", "ik D1", "7.4", "#911 twice")


@pytest.mark.parametrize("defect", [
    pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.slow) for one in DEFECTS
])  # fmt: skip
def test_a_search_from_nothing_finds_it(defect):
    found = search(defect, 0, LIMIT)
    assert found.case is not None
    assert found.steps <= 4
    assert found.longest <= defect.longest


def test_every_way_to_reuse_rows_of_other_adapters_is_searched():
    assert [one.name for one in OF_ADAPTERS] == WRONG


@pytest.mark.parametrize("defect", [
    pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.slow) for one in OF_ADAPTERS
])  # fmt: skip
def test_a_search_with_adapters_finds_it(defect):
    found = search(defect, 0, LIMIT)
    assert found.case is not None
    assert found.steps <= 5 and found.longest <= defect.longest
