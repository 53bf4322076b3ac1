"""Removals that were refused and changed something: the first is the failure."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.judging.fault_kinds import FaultKind
from cachesim.tools.search.properties import seq_rm_atomic


@pytest.mark.parametrize(("torn", "steps"), [([], []), ([(2, {"p0": 1}), (3, {"p0": 4})], [(2, {"p0": 1})])])
def test_the_first_torn_removal_is_the_failure(torn, steps):
    found = [*seq_rm_atomic(SimpleNamespace(torn=torn))]
    assert [(one.step, one.numbers) for one in found] == steps
    assert all((one.name, one.kind) == ("seq-rm-atomic", FaultKind.TORN) for one in found)
