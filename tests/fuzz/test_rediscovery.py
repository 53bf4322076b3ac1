"""Tests that every known defect is found without prior knowledge; slow searches only with ``-m slow``."""

from __future__ import annotations

import pytest

from tests.fuzz.defects import DEFECTS
from tests.fuzz.rediscovery import LIMIT, search

pytestmark = pytest.mark.long
QUICK = ("D1 one token", "ik D1", "7.4", "#911 twice")


@pytest.mark.parametrize("defect", [
    pytest.param(one, id=one.name, marks=() if one.name in QUICK else pytest.mark.slow) for one in DEFECTS
])  # fmt: skip
def test_a_search_from_nothing_finds_it(defect):
    found = search(defect, 0, LIMIT)
    assert found.case is not None
    assert found.steps <= 4
    assert found.longest <= defect.longest
