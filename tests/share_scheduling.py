"""Scheduling of pytest-xdist in which each process runs its share of the files (``shares.py``)."""

from __future__ import annotations

from typing import Any

from xdist.scheduler import EachScheduling


class ShareScheduling(EachScheduling):
    """Lets each process run all tests that it has collected."""

    def __init__(self, config: Any, log: Any, session: Any) -> None:
        super().__init__(config, log)
        self._session = session

    def schedule(self) -> None:
        """Start all processes, and count the tests of all for the progress in percent."""
        super().schedule()
        self._session.testscollected = sum(map(len, self.node2collection.values()))
