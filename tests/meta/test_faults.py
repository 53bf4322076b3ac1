"""Every planted fault is detected by the fuzzer or, if the fuzzer misses it, by the tests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.meta.faults import FAULTS
from tests.meta.plant import GROUPS, ROOT, Field
from tests.meta.planting import JOBS, selected

pytestmark = pytest.mark.meta


@pytest.fixture(scope="module")
def field(tmp_path_factory):
    return Field(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def asked(request, field):
    """Yield the detection of each selected fault as a future; all start at once, in ``JOBS`` processes."""
    names = selected(request)
    todo = {fault.name: (fault, field.profiles(fault)) for fault in FAULTS if fault.name in names}
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(field.note, sorted({profile for _, profiles in todo.values() for profile in profiles})))
        yield {name: pool.submit(field.ask, fault, profiles) for name, (fault, profiles) in todo.items()}


@pytest.mark.parametrize("engine, group", [(engine, group) for engine, groups in GROUPS.items() for group in groups])
def test_the_unmodified_copy_passes_and_is_the_tested_package(field, engine, group):
    assert not field.clean.folder.is_relative_to(ROOT)
    assert field.clean.test(engine, group) == (0, "")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_detected(asked, table, fault):
    found = asked[fault.name].result()
    table[fault.name] = fault, found
    assert found and found[-1].by
