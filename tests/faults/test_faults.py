"""Results survive every injected fault, and no process is left over. ``python -m tests.faults`` prints the table."""

from __future__ import annotations

import pytest

from tests.faults.surroundings import missing
from tests.faults.table import FAULTS, happen, possible

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", FAULTS)
def test_results_survive_and_no_process_is_left(name, tmp_path):
    if why := possible(name) or missing(name):
        pytest.skip(why)
    assert happen(name, tmp_path).wrong == []
