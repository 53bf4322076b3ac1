"""Mutant: a command line, and the files in its folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping

CLI = "command line"


@dataclass(frozen=True)
class Mutant:
    """Command line for cachesim, or input for a reader, with files."""

    kind: str
    number: int
    argv: tuple[str, ...]                                        # arguments of cachesim
    files: Mapping[str, bytes] = field(default_factory=dict)     # files in its working directory
    made: tuple[str, ...] = ()                                   # files that it may create or change, as patterns
    given_to: str = CLI                                          # or a key of ``readers.READERS``
    lines: int = 1                                               # error lines allowed (several files or profiles)

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.number}"

    @property
    def data(self) -> bytes:
        """Content of the first file."""
        return next(iter(self.files.values()))
