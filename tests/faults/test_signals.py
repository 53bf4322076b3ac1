"""Every command ends soon after a signal, with its results so far, and leaves no process. ``python -m tests.faults
--signals`` prints the seconds."""

from __future__ import annotations

import pytest

from tests.faults.signals import LONG, SIGNALS, measure
from tests.faults.table import possible

PAIRS = [pytest.param(name, number, marks=[pytest.mark.slow] * bool((row + column) % 6))
         for row, name in enumerate(LONG) for column, number in enumerate(SIGNALS.values())]  # fmt: skip
"""All pairs of a command and a signal; ``make long`` tries a sixth of them."""


@pytest.mark.long
@pytest.mark.parametrize(("name", "number"), PAIRS)
def test_a_command_ends_soon_after_a_signal(name, number):
    if why := possible() or LONG[name].missing:
        pytest.skip(why)
    ending = measure(LONG[name], number)
    assert (ending.seconds is not None, ending.code, ending.wrong) == (True, 128 + number, [])


@pytest.mark.long
@pytest.mark.parametrize("name", ["run -j 2", "watch --listen", "playground"])
def test_a_second_signal_ends_a_command_at_once(name):
    if why := possible():
        pytest.skip(why)
    ending = measure(LONG[name], SIGNALS["SIGTERM"], is_again=True)
    assert (ending.code, ending.wrong) == (128 + SIGNALS["SIGTERM"], [])
