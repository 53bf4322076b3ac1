"""Request in progress: its tokens, and the blocks that it uses."""

from __future__ import annotations

from dataclasses import dataclass, field

from cachesim.engines.base import Answer, Request


@dataclass(slots=True, eq=False)
class Task:
    """A request and its answer."""

    id: int
    request: Request
    answer: Answer


@dataclass(slots=True, eq=False)
class Row:
    """A request. ``all``: prompt and answer, of which the first ``computed`` tokens were evaluated. ``rows``: its
    blocks of rows; ``states``: a column for each of them, None without a state. ``superseded``: the column that the
    next step does not read; ``chain``: hashes of its complete blocks."""

    id: int
    task: Task
    all: list[int]
    computed: int = 0
    rows: list[int] = field(default_factory=list)
    states: list[int | None] = field(default_factory=list)
    chain: list[bytes] = field(default_factory=list)
    named: int = 0
    superseded: int | None = None
    junction: int = 0
    n_gen: int = 0
    launched: bool = False
    busy: bool = True
    child: bool = False             # always False: several completions are not supported

    @property
    def tokens(self) -> list[int]:
        """The evaluated tokens."""
        return self.all[: self.computed]

    @property
    def prompt(self) -> int:
        """Length of the prompt [tokens]."""
        return len(self.task.request.prompt)

    def reset(self) -> None:
        """Restart the request, with its answer so far as part of the prompt."""
        self.computed = self.named = self.junction = 0
        self.superseded = None
        self.rows, self.states = [], []

    def used(self) -> list[list[int]]:
        """Return its blocks by group, the last block first."""
        return [self.rows[::-1], [block for block in self.states[::-1] if block is not None]]
