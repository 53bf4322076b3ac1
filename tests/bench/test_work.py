"""The work of runs grows with their size as it did when these figures were recorded."""

import pytest

from tests.bench import work

TOLERANCE = 0.08              # of an exponent: Python versions differ in the calls that they make
GROWTH = {
    ("judge_short", 30): {"calls": 1.06, "rules": 1.03, "digests": 0.98, "copied": 1.18},
    ("judge_conversations", 20): {"calls": 1.08, "rules": 0.99, "digests": 1.0, "copied": 1.12},
    ("judge_vllm", 60): {"calls": 1.0, "rules": 1.0, "digests": 1.0, "copied": 1.1},
    ("judge_sglang", 60): {"calls": 1.03, "rules": 1.0, "digests": 1.0, "copied": 1.07},
    ("judge_vllm_prompt", 8000): {"calls": 0.98, "digests": 1.0, "copied": 1.0},
    ("judge_dense_prompt", 8000): {"calls": 0.99, "digests": 0.84, "copied": 0.82},
    # A cold run covers up to four times the tokens that were requested, which decides the digests and the copies.
    ("judge_sglang_prompt", 16_000): {"calls": 0.89, "rules": 0.92, "digests": 0.84, "copied": 0.86},
    ("fill_blocks", 1000): {"calls": 1.0, "rules": 1.0, "digests": 1.0, "copied": 0.0},
    ("fill_tree", 200): {"calls": 1.0, "rules": 1.0, "digests": 1.0, "copied": 1.0},
}
"""(driver, size) -> exponents between the size and twice as much: 1 = linear, 2 = quadratic. A change in either
direction fails; an improvement writes its exponent here."""


@pytest.mark.parametrize("driver, size", GROWTH, ids=str)
@pytest.mark.part(2)
def test_work_grows_as_recorded(driver, size):
    found = work.growth(driver, size)
    for name, exponent in GROWTH[driver, size].items():
        assert abs(found[name] - exponent) <= TOLERANCE, (name, found)


def test_work_is_counted_by_arguments():
    mix = work.function("cachesim.model.hash_mixing", "mix_int")
    found = work.count(lambda: [mix(number) for number in range(5)])
    assert found.digests == 5 and found.rules == found.copied == 0 and found.calls >= 5


@pytest.mark.parametrize("size", work.SIZES, ids=lambda size: size.name)
def test_functions_whose_work_is_counted_exist(size):
    assert work.function(size.module, size.name).__code__
