"""One request on its way: its tokens, and the blocks that it uses."""

from __future__ import annotations

from dataclasses import dataclass, field

from blockpool.pool import Block
from cachesim.engines.base import Answer, Request


@dataclass(slots=True, eq=False)
class Task:
    """A request and its answer."""

    id: int
    request: Request
    answer: Answer


@dataclass(slots=True, eq=False)
class Row:
    """A request. ``all`` are prompt and answer, of which the first ``computed`` have been evaluated. ``rows`` are its
    blocks of rows; ``states`` one column for each of them, None where no state is. ``superseded``: the column that the
    next step need not read; ``chain``: hashes of its complete blocks."""

    id: int
    task: Task
    all: list[int]
    computed: int = 0
    rows: list[Block] = field(default_factory=list)
    states: list[Block | None] = field(default_factory=list)
    chain: list[bytes] = field(default_factory=list)
    named: int = 0
    superseded: int | None = None
    junction: int = 0
    n_gen: int = 0
    launched: bool = False
    busy: bool = True
    child: bool = False             # never: there are no further completions

    @property
    def tokens(self) -> list[int]:
        """Those that have been evaluated."""
        return self.all[: self.computed]

    @property
    def prompt(self) -> int:
        """Tokens of the prompt."""
        return len(self.task.request.prompt)

    def reset(self) -> None:
        """It begins again, with what it has answered as part of the prompt."""
        self.computed = self.named = self.junction = 0
        self.superseded = None
        self.rows, self.states = [], []

    def used(self) -> list[list[Block]]:
        """Its blocks, by group, the last one first."""
        return [self.rows[::-1], [one for one in self.states[::-1] if one is not None]]
