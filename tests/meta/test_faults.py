"""Would the tests find a fault? Every planted one must be caught, and the unspoilt copy must pass."""

from __future__ import annotations

import pytest

from tests.meta.faults import FAULTS
from tests.meta.plant import GROUPS, ROOT, Copy

pytestmark = pytest.mark.meta
PASSED, FAILED = 0, 1
ENOUGH = 2          # groups of tests that caught a fault; the rest need not run


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return Copy(tmp_path_factory.mktemp("planted") / "copy")


@pytest.mark.parametrize("group", GROUPS)
def test_the_unspoilt_copy_passes_and_is_the_one_that_is_tested(copy, group):
    assert copy.origin().is_relative_to(copy.folder)
    assert not copy.origin().is_relative_to(ROOT)
    assert copy.run(group) == (PASSED, "")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_caught(copy, table, fault):
    caught = table.setdefault(fault.name, {})
    with copy.with_fault(fault.old, fault.new):
        for group in GROUPS:
            code, test = copy.run(group)
            assert code in (PASSED, FAILED), f"{group}: pytest ended with {code}"
            if code == FAILED:
                caught[group] = test
            if len(caught) == ENOUGH:
                break
    assert caught


def test_those_that_the_issue_asks_for_are_among_the_faults():
    assert len(FAULTS) >= 14
    assert sum(fault.named for fault in FAULTS) >= 5
