"""Does everything survive every fault, and is no process left? The table itself: ``python -m tests.faults``."""

from __future__ import annotations

import pytest

from tests.faults.table import FAULTS, happen, possible

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", FAULTS)
def test_what_should_survive_does_and_no_process_is_left(name, tmp_path):
    if why := possible(name):
        pytest.skip(why)
    assert happen(name, tmp_path).wrong == []
