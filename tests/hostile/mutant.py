"""A mutant: a command line, and the files that lie in its folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping

CLI, REPLIES = "the command line", "the kit's protocol"
"""What a mutant is given to."""


@dataclass(frozen=True)
class Mutant:
    """``argv`` is given to cachesim in a folder that holds ``files``. ``made``: files that it may make or change.
    ``given_to`` REPLIES: the one file holds the lines with which a tested process answers."""

    kind: str
    number: int
    argv: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    made: tuple[str, ...] = ()
    given_to: str = CLI

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.number}"
