"""What is one mutation of a source file, in which order are they planted, and as what text?"""

from __future__ import annotations

import ast
from hashlib import sha256
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

Change = tuple[int, int, int, str, str]
"""(line, start, stop, new text, what it is)."""


class Mutation(NamedTuple):
    """In this line of the file, columns start .. stop-1 become ``new``. ``where``: the function it lies in; ``lines``:
    those of the file, without their ends."""

    path: Path
    line: int
    start: int
    stop: int
    new: str
    how: str
    where: str
    lines: Sequence[str]

    @property
    def text(self) -> str:
        """The line as it is."""
        return self.lines[self.line]

    @property
    def column(self) -> int:
        """Where it begins, counted from the line's first letter."""
        return self.start - (len(self.text) - len(self.text.lstrip()))

    def number(self, seed: int) -> str:
        """Its place among all mutations: of its own text and the seed only."""
        text = f"{seed} {self.path.name} {self.where} {self.text.strip()} {self.column} {self.new}"
        return sha256(text.encode()).hexdigest()

    def texts(self, everything: str) -> tuple[str, str]:
        """The line before and after, with as many lines around it as make it stand once in ``everything``."""
        lines = [f"{line}\n" for line in self.lines]
        above, below = self.line, self.line + 1
        while everything.count("".join(lines[above:below])) != 1:
            above, below = max(0, above - 1), min(len(lines), below + 1)
        line = lines[self.line]
        spoilt = line[: self.start] + self.new + line[self.stop :]
        new = "".join([*lines[above : self.line], spoilt, *lines[self.line + 1 : below]])
        return "".join(lines[above:below]), new


def between(left: ast.expr, right: ast.expr, old: str, new: str, lines: list[str]) -> Iterator[Change]:
    """The operator between two operands that stand in one line."""
    if left.end_lineno == right.lineno:
        row, begin = right.lineno - 1, left.end_col_offset or 0
        at = lines[row].find(old, begin, right.col_offset)
        if at >= 0:
            yield row, at, at + len(old), new, f"`{old}` -> `{new}`"
