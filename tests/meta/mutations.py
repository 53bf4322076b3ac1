"""Mutation of a source line: its text, its number in the order of planting, and the texts to replace."""

from __future__ import annotations

import ast
from hashlib import sha256
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

Change = tuple[int, int, int, str, str]
"""(line, start, stop, new text, description)."""


class Mutation(NamedTuple):
    """Replacement of columns start .. stop-1 of a line by ``new``."""

    path: Path
    line: int                    # index in `lines`
    start: int                   # first column
    stop: int                    # column after the last
    new: str                     # replacement
    how: str                     # description
    where: str                   # function that contains the line
    lines: Sequence[str]         # lines of the file, without line ends

    @property
    def text(self) -> str:
        """Unmodified line."""
        return self.lines[self.line]

    @property
    def column(self) -> int:
        """Start column, counted from the first non-blank character."""
        return self.start - (len(self.text) - len(self.text.lstrip()))

    def number(self, seed: int) -> str:
        """Return a digest that orders the mutations. It depends only on the mutation's own text and the seed."""
        text = f"{seed} {self.path.name} {self.where} {self.text.strip()} {self.column} {self.new}"
        return sha256(text.encode()).hexdigest()

    def texts(self, everything: str) -> tuple[str, str]:
        """Return the line before and after the mutation, with enough surrounding lines to occur once in
        ``everything``."""
        lines = [f"{line}\n" for line in self.lines]
        above, below = self.line, self.line + 1
        while everything.count("".join(lines[above:below])) != 1:
            above, below = max(0, above - 1), min(len(lines), below + 1)
        line = lines[self.line]
        spoilt = line[: self.start] + self.new + line[self.stop :]
        new = "".join([*lines[above : self.line], spoilt, *lines[self.line + 1 : below]])
        return "".join(lines[above:below]), new


def between(left: ast.expr, right: ast.expr, old: str, new: str, lines: list[str]) -> Iterator[Change]:
    """Yield the replacement of the operator between two operands on a line."""
    if left.end_lineno == right.lineno:
        row, begin = right.lineno - 1, left.end_col_offset or 0
        at = lines[row].find(old, begin, right.col_offset)
        if at >= 0:
            yield row, at, at + len(old), new, f"`{old}` -> `{new}`"
