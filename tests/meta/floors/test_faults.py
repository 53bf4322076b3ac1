"""Every planted fault makes a test of its package fail."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.meta.floors.fault import FLOORS
from tests.meta.floors.faults import FAULTS, GENERATED, WRITTEN
from tests.meta.floors.plant import ROOT, Field, first_failing
from tests.meta.planting import JOBS, selected
from tests.meta.survivors import FLOOR_SURVIVORS

pytestmark = pytest.mark.meta
LEAST, LEAST_GENERATED, MOST_SURVIVORS = 60, 30, 5


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    return Field(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def asked(request, field):
    """Yield the detection of each selected fault as a future; all start at once, in ``JOBS`` processes."""
    names = selected(request)
    with ThreadPoolExecutor(JOBS) as pool:
        yield {fault.name: pool.submit(field.ask, fault) for fault in FAULTS if fault.name in names}


@pytest.mark.parametrize("floor", FLOORS)
def test_the_unmodified_copy_passes(field, floor):
    assert not field.clean.is_relative_to(ROOT)
    assert first_failing(field.clean, floor).test == ""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(asked, table, fault):
    found = asked[fault.name].result()
    table[fault.name] = fault, found
    assert found.test or fault.name in FLOOR_SURVIVORS
    assert not (found.test and fault.name in FLOOR_SURVIVORS), "no longer a survivor"


def test_there_are_as_many_faults_as_required_and_few_survive():
    assert len(FAULTS) >= LEAST and len(GENERATED) >= LEAST_GENERATED
    assert {fault.floor for fault in WRITTEN} == set(FLOORS)
    assert {fault.floor for fault in GENERATED} == {floor for floor in FLOORS if not floor.startswith("engines")}
    assert len(FLOOR_SURVIVORS) <= MOST_SURVIVORS and {fault.name for fault in FAULTS} >= set(FLOOR_SURVIVORS)
    assert all(reason.strip() for reason in FLOOR_SURVIVORS.values())
