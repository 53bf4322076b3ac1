"""Every command survives every fault. ``python -m tests.faults --matrix`` prints the table."""

from __future__ import annotations

from itertools import product

import pytest

from cachesim.cli.command_list import COMMANDS
from tests.faults.commands import TABLE
from tests.faults.matrix import FAULTS, inject, possible


def test_every_command_has_a_row():
    assert {name.partition(" ")[0] for name in TABLE} == set(COMMANDS)


PAIRS = [pytest.param(name, fault, marks=[pytest.mark.slow] * bool((row + column + 1) % len(FAULTS)))
         for (row, name), (column, fault) in product(enumerate(TABLE), enumerate(FAULTS))]  # fmt: skip
"""All pairs of a command and a fault; ``make long`` tries a fault of each command, each with as many commands."""


@pytest.mark.long
@pytest.mark.parametrize(("name", "fault"), PAIRS)
def test_a_command_survives(name, fault):
    if why := possible(fault):
        pytest.skip(why)
    assert inject(name, fault).wrong == []
