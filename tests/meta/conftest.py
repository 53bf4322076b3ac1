"""The table of planted faults, printed at the end of `make meta`."""

from __future__ import annotations

import pytest

TABLE = pytest.StashKey[dict]()


@pytest.fixture(scope="session")
def table(request):
    return request.config.stash.setdefault(TABLE, {})


def pytest_terminal_summary(terminalreporter, config):
    for name, caught in config.stash.get(TABLE, {}).items():
        said = ", ".join(f"{group} ({test})" for group, test in caught.items()) or "NOBODY"
        terminalreporter.write_line(f"{name}: {said}")
