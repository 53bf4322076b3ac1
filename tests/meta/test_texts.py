"""Can every fault still be planted? Fast, so that it runs with all other tests: `make meta` runs seldom."""

import pytest

from tests.meta.faults import FAULTS
from tests.meta.plant import ROOT, holders


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_text_to_spoil_stands_once_in_the_engine(fault):
    (path,) = holders(ROOT, fault.old)
    assert path.read_text().count(fault.old) == 1
