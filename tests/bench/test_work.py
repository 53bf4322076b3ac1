"""The work of judged runs grows with their size as it did when these figures were recorded."""

import pytest

from tests.bench import work

# Exponents between a size and twice as much: 1 = linear, 2 = quadratic. A repair that lowers one changes its figure here.
GROWTH = {}


@pytest.mark.parametrize("driver, size", GROWTH, ids=str)
def test_work_grows_as_recorded(driver, size):
    found = work.growth(driver, size)
    assert {name: abs(found[name] - exponent) <= 0.06 for name, exponent in GROWTH[driver, size].items()} == \
        dict.fromkeys(GROWTH[driver, size], True), found
