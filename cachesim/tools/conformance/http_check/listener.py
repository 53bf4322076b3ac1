"""What a check reports while it runs: its stage, its histories, and every fault when it is found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FoundFault:
    """A fault that a run and its repetition showed, before its history is shrunk."""

    name: str                            # property that fails
    line: str                            # history, ready for ``--history``
    request: int                         # the wrong request, from 0
    requests: int                        # requests sent by then
    text: str                            # the failure in words


class CheckListener:
    """Listener that ignores everything."""

    def stage(self, what: str, histories: int = 0) -> None:
        """A stage of so many histories begins, 0 = their number is unknown."""

    def history(self) -> None:
        """A history of the stage was run."""

    def request(self, number: int) -> None:
        """A request is sent. ``number``: from 1."""

    def fault(self, found: FoundFault) -> None:
        """A fault was found."""

    def rule(self, sentence: str) -> None:
        """The rule behind the fault that was found last is known."""


SILENT = CheckListener()
