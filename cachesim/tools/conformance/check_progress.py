"""Progress of ``cachesim check``: a bar on a terminal, elsewhere a line per stage, and each fault when it is found."""

from __future__ import annotations

import sys

from cachesim.base.console import note, say
from cachesim.base.errors import counted
from cachesim.base.progress_bar import ProgressBar
from cachesim.tools.conformance.http_check.listener import CheckListener, FoundFault


class CheckProgress(CheckListener):
    """Prints faults on stdout as they are found, with ``as_json`` on stderr, and shows the stage in ``bar``."""

    def __init__(self, bar: ProgressBar, as_json: bool) -> None:
        self._bar, self._as_json = bar, as_json
        self._stage = ""
        self._histories = 0
        self._done = 0
        self._requests = 0

    def stage(self, what: str, histories: int = 0) -> None:
        """Show the stage; without a bar, print it."""
        self._stage = what
        self._histories = histories
        self._done = 0
        if not self._bar.is_shown:
            note(f"{what}: {histories}" if histories else what)
        self._show()

    def history(self) -> None:
        """Advance the bar."""
        self._done += 1
        self._show()

    def request(self, number: int) -> None:
        """Show the number of requests."""
        self._requests = number
        self._show()

    def fault(self, found: FoundFault) -> None:
        """Print a fault."""
        self._print(f"found after {counted(found.requests, 'request')}: {found.name}: {found.line}, "
                    f"request {found.request}: {found.text}")  # fmt: skip

    def rule(self, sentence: str) -> None:
        """Print the rule behind the last fault."""
        self._print(f"  {sentence}")

    def _show(self) -> None:
        self._bar.show(f"{self._stage} ({counted(self._requests, 'request')})", self._done, self._histories or None)

    def _print(self, text: str) -> None:
        with self._bar.aside():
            if self._as_json:
                note(text.strip())
            else:
                say(text)
                sys.stdout.flush()
