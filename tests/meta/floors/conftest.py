"""Table of faults planted in the packages above the engines, printed at the end of `make meta`."""

from __future__ import annotations

import pytest

from tests.meta.floors.fault import FLOORS
from tests.meta.planting import printed
from tests.meta.survivors import FLOOR_SURVIVORS

TABLE = pytest.StashKey[dict]()


@pytest.fixture(scope="session")
def table(request):
    """Return the results by fault name: (fault, Found)."""
    return request.config.stash.setdefault(TABLE, {})


def pytest_terminal_summary(terminalreporter, config):
    printed(terminalreporter, config.stash.get(TABLE, {}), lines, summary)


def lines(rows):
    """Yield a line for each fault."""
    yield f"{'floor':<11}{'fault':<82}{'found by':<60}{'seconds':>8}"
    for fault, found in rows.values():
        by = found.test or f"NOT FOUND: {FLOOR_SURVIVORS.get(fault.name, '')}"
        yield f"{fault.floor:<11}{'*' if fault.how else ' '}{fault.name[:80]:<81}{by[:58]:<60}{found.seconds:>8.1f}"


def summary(rows):
    """Yield counts by package."""
    yield "* = generated"
    yield f"{'floor':<11}{'planted':>9}{'found':>9}{'survived':>9}"
    for floor in [*FLOORS, "all"]:
        mine = [found for fault, found in rows.values() if floor in (fault.floor, "all")]
        found = sum(bool(one.test) for one in mine)
        yield f"{floor:<11}{len(mine):>9}{found:>9}{len(mine) - found:>9}"
