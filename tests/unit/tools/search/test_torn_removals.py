"""Removals that were refused and changed something: the first is the failure."""

from __future__ import annotations

import pytest

from cachesim.events import Log
from cachesim.judging.fault_kinds import FaultKind
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.search.invariant_observer import CheckedRun
from cachesim.tools.search.properties import seq_rm_atomic


@pytest.mark.parametrize(("torn", "steps"), [([], []), ([(2, {"p0": 1}), (3, {"p0": 4})], [(2, {"p0": 1})])])
def test_the_first_torn_removal_is_the_failure(torn, steps):
    found = [*seq_rm_atomic(CheckedRun(from_line("A1"), "llama_cpp@b10587", Log(), torn=torn))]
    assert [(one.step, one.numbers) for one in found] == steps
    assert all((one.name, one.kind) == ("seq-rm-atomic", FaultKind.TORN) for one in found)
