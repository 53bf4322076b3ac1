"""Requests in progress: tokens, hashes, a block table for each group, and events.

The server logs none of these events; recordings of its classes hold all. Blocks are numbered from 0, the null block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np

from cachesim.base.errors import ProcessAborted
from cachesim.base.keyed_tokens import with_keys
from cachesim.base.tokens import TokenList, Tokens
from cachesim.engines.shared.request_queue import RequestRow
from cachesim.engines.vllm.kv_offload.offload_requests import OffloadClient
from cachesim.events import Event, frozen
from cachesim.model.hash_mixing import MASK

ABSENT = -1                  # published blocks of a table that nothing was entered into


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
class Row(RequestRow):
    """A request. ``all``: its tokens as the scheduler knows them; ``computed`` of them are scheduled or done."""

    tables: list[Table] = field(default_factory=list)
    offload: OffloadClient = field(default_factory=partial(OffloadClient, 0))
    loading: bool = False           # it waits, with blocks whose contents come from CPU memory
    found: int = 0                  # tokens that the server's reply counts as cached
    priority: int = 0
    lora: str = ""
    salt: str = ""
    hashes: list[int] = field(default_factory=list)     # of its complete units
    drafts: list[int] = field(default_factory=list)
    in_flight: int = 0              # computed tokens whose step is not processed
    pending: int = 0                # places for tokens of steps in flight
    stale: int = 0                  # tokens in flight when it was preempted
    drop_stale: bool = False        # these are not delivered
    junction: int = 0               # length of a prefix that one group alone has
    preemptions: int = 0
    prefill: bool = False           # its last chunk left tokens of the prompt
    running: bool = False
    text: list[int] = field(default_factory=TokenList)              # its tokens as the worker knows them
    columns: list[list[int]] = field(default_factory=list)          # the worker's block tables
    cells: list[np.ndarray] = field(default_factory=list)           # cell of each position in a block, by group
    running_column: dict[int, int] = field(default_factory=dict)    # column of the running state, by group
    accepted: int = 1               # tokens accepted in the last step
    marks: list[int] = field(default_factory=list)                  # of the drafter
    known: Tokens = ()              # what `full_text` returned last

    def full_text(self) -> Tokens:
        """Return the worker's text with its key. A shorter text that was returned before is the beginning."""
        if len(self.known) != len(self.text):
            self.known = with_keys(tuple(self.text), ((0, self.key),)) if self.key else tuple(self.text)
        return self.known

    def prefix_marks(self, start: int, stop: int) -> np.ndarray:
        """Return a number for each position that stands for all tokens of the worker's text up to the next one."""
        for token in self.text[len(self.marks) - 1 : stop + 1]:
            self.marks.append((self.marks[-1] * 0x5851F42D4C957F2D + token + 1) & MASK)
        return np.array(self.marks[start + 2 : stop + 2], np.uint64)

    @property
    def prefill_end(self) -> int:
        """End of the tokens that a chunk is made for: the prompt, or all tokens known before a preemption."""
        return max(self.prompt, len(self.all) - 1)

    @property
    def order(self) -> tuple[int, int]:
        """Priority and arrival."""
        return self.priority, self.id


class Died(ProcessAborted):
    """An exception left the engine's core: the process ends. ``kind``: the function that raised it."""


@frozen
class DraftRowsWrong(Event, ev="draft_rows_wrong", logged=False):
    """The drafter of a request reads a row that was written before another token: only its drafts suffer."""

    request: int
    group: int
    position: int
    block: int
