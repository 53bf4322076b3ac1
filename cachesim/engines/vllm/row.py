"""Requests in progress: tokens, hashes, and a block table for each group."""

from __future__ import annotations

from dataclasses import dataclass, field

from cachesim.base.keyed_tokens import with_keys
from cachesim.base.tokens import Tokens
from cachesim.engines.base import Answer, Request

ABSENT = -1                  # published blocks of a table that nothing was entered into


@dataclass(slots=True, eq=False)
class Task:
    """A request and its answer."""

    id: int
    request: Request
    answer: Answer


@dataclass(slots=True, eq=False)
class Table:
    """The blocks of a request in a group, 0 = no storage. ``published``: its first blocks that are published or left
    out; ``partial``: place and number of a block to be copied before it is written. For states: ``last`` is the column
    of the older state, ``retired`` columns have none, ``begun``: it has a running state, ``inside``: length and column
    of a state inside the chunk."""

    blocks: list[int] = field(default_factory=list)
    published: int = ABSENT
    partial: tuple[int, int] | None = None
    last: int | None = None
    retired: int = 0
    begun: bool = False
    inside: tuple[int, int] | None = None


@dataclass(slots=True, eq=False)
class Row:
    """A request. ``all``: prompt and answer as the scheduler knows them; ``computed`` tokens are scheduled or done,
    ``in_flight`` of them scheduled. ``pending``: places for tokens of steps in flight; ``stale``: tokens in flight
    when it was preempted."""

    id: int
    task: Task
    all: list[int]
    tables: list[Table]
    priority: int = 0
    lora: str = ""
    salt: str = ""
    hashes: list[int] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)
    computed: int = 0
    in_flight: int = 0
    pending: int = 0
    stale: int = 0
    drop_stale: bool = False
    junction: int = 0
    preemptions: int = 0
    prefill: bool = False           # its last chunk left tokens of the prompt
    running: bool = False
    busy: bool = True
    launched: bool = False
    child: bool = False             # always False: several completions are not supported
    # The worker's side: key and text (the scheduler learns its last tokens later), block tables, column of the running
    # state by group, tokens accepted in the last step, marks of the drafter.
    key: int = 0
    text: list[int] = field(default_factory=list)
    columns: list[list[int]] = field(default_factory=list)
    running_column: dict[int, int] = field(default_factory=dict)
    accepted: int = 1
    marks: list[int] = field(default_factory=list)
    known: Tokens = ()              # what `identities` returned last

    def identities(self) -> Tokens:
        """Return the text with the key that it was computed under. A shorter text that was returned before is the
        beginning."""
        if len(self.known) != len(self.text):
            self.known = with_keys(tuple(self.text), ((0, self.key),)) if self.key else tuple(self.text)
        return self.known

    @property
    def prompt(self) -> int:
        """Length of the prompt [tokens]."""
        return len(self.task.request.prompt)

    @property
    def prefill_end(self) -> int:
        """End of the tokens that a chunk is made for: the prompt, or all tokens known before a preemption."""
        return max(self.prompt, len(self.all) - 1)

    @property
    def order(self) -> tuple[int, int]:
        """Priority and arrival."""
        return self.priority, self.id

    @property
    def tokens(self) -> list[int]:
        """The evaluated tokens."""
        return self.all[: self.computed]
