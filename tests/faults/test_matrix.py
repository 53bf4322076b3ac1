"""Every command survives every fault. ``python -m tests.faults --matrix`` prints the table."""

from __future__ import annotations

import pytest

from cachesim.cli.command_list import COMMANDS
from tests.faults.commands import TABLE
from tests.faults.matrix import FAULTS, inject, possible


def test_every_command_has_a_row():
    assert {name.partition(" ")[0] for name in TABLE} == set(COMMANDS)


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", TABLE)
def test_a_command_survives(name, fault):
    if why := possible(fault):
        pytest.skip(why)
    assert inject(name, fault).wrong == []
