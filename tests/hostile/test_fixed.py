"""Regression tests: inputs that were once handled badly."""

from __future__ import annotations

import math

import pytest

from tests.hostile import judged
from tests.hostile.child import CPU, prepare, run
from tests.hostile.fixed import cases, made
from tests.hostile.mutant import Mutant
from tests.shared import slowness

pytestmark = pytest.mark.long

SLOW = 3        # factor for other Pythons and busy machines; unlimited work takes minutes


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in cases()])
def test_ends_as_expected(case):
    if "needs" in case:
        pytest.importorskip(case["needs"])
    prepare()
    factor = math.ceil(SLOW * slowness())
    ended = run(made(case), cpu=factor * CPU)
    assert judged.findings(ended, factor * case.get("cpu", CPU)) == []
    assert (ended.code, case.get("says", "") in ended.stderr) == (case["code"], True), ended.stderr


def test_a_large_search_uses_little_memory():
    prepare()
    little = run(Mutant("fixed", 0, ("fuzz", "--examples", "2")))                    # baseline
    ended = run(Mutant("fixed", 0, ("fuzz", "--examples", "999999999")), cpu=1)
    assert judged.findings(ended, cpu=1) == ["time: more than 1 CPU seconds"]        # M3: it only takes long
    assert ended.mib < little.mib + 80
