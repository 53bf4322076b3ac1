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
        """Note that a stage of so many histories begins, 0 = their number is unknown."""

    def history(self) -> None:
        """Note that a history of the stage was run."""

    def request(self, number: int) -> None:
        """Note that a request is sent. ``number``: from 1."""

    def fault(self, found: FoundFault) -> None:
        """Note that a fault was found."""

    def rule(self, sentence: str) -> None:
        """Note that the rule behind the last found fault is known."""


SILENT = CheckListener()
