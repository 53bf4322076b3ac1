"""A mutant: a command line, and the files that lie in its folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping

CLI = "command line"


@dataclass(frozen=True)
class Mutant:
    """``argv`` is given to cachesim in a folder that holds ``files``. ``made``: files that it may make or change, as
    patterns.
    ``given_to`` is CLI, or the name of one of ``readers.READERS``, which gets the one file.
    ``lines``: errors that it may end with, of different files or profiles."""

    kind: str
    number: int
    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    made: tuple[str, ...] = ()
    given_to: str = CLI
    lines: int = 1

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.number}"
