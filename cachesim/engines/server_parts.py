"""Parts of a server that callers ask: contents, tasks, sizes, sequences, cells for pictures, steps, and KV events.

Reading a part changes nothing. Only ``Inspection`` has abstract methods. The defaults of the other parts are those of a
server without the feature, so an engine overrides what its server has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import BadInput
from cachesim.base.tokens import Tokens
from cachesim.engines.base import Answer
from cachesim.engines.inspection import (
    BlockCell,
    DraftMemory,
    ExceededLimit,
    Key,
    ResumeUnit,
    StoredBytes,
    StoredContent,
    StoredObject,
    StoredSize,
    TokenPrefix,
    TreeCell,
)
from cachesim.engines.point_kinds import running_key


class Removal(NamedTuple):
    """Requested removal of positions p0 .. p1-1 of a sequence; ``ok`` False = refused. ``before`` and ``after`` are the
    positions of the sequence's rows before and after the call."""

    seq: int
    p0: int
    p1: int
    ok: bool
    before: np.ndarray
    after: np.ndarray


class Inspection(ABC):
    """Contents of a server's slots and of its memory. A *slot* processes a single request at a time and is numbered
    from 0; an engine without slots numbers its requests instead."""

    # Slots.

    @property
    @abstractmethod
    def n_slots(self) -> int:
        """Number of slots; for an engine without slots the number of requests received so far."""

    @abstractmethod
    def tokens_of(self, slot: int) -> Tokens:
        """Return the tokens that the engine records for a slot."""

    def prefix_of(self, slot: int) -> TokenPrefix:
        """Return the tokens that the engine records for a slot, as a prefix of a list that need not be copied."""
        tokens = self.tokens_of(slot)
        return TokenPrefix(tokens, len(tokens))

    @abstractmethod
    def answer_at(self, slot: int) -> Answer | None:
        """Return the answer in progress in a slot, None if the slot has no task."""

    def occupied_slots(self) -> Sequence[int]:
        """Return the slots that may hold tokens: all slots; for an engine without slots the requests in progress."""
        return range(self.n_slots)

    def slot_with_id(self, id_slot: int) -> int:
        """Return the slot that a request with this ``id_slot`` names; 0 if it names none, as for the whole server."""
        return max(id_slot, 0)

    def is_further(self, slot: int) -> bool:
        """True if the task of a slot is a second or later completion of another slot's prompt."""
        return False

    def checkpoints(self, slot: int) -> list[int]:
        """Return the lengths [tokens] of the checkpoints that a slot could restore."""
        return []

    def memory_matches(self, slot: int) -> bool:
        """True if the memory ends where the tokens of a slot end."""
        return True

    # Restore points.

    @property
    def resume_unit(self) -> ResumeUnit | None:
        """Unit of tokens after whose multiples alone evaluation resumes, None = after any token."""
        return None

    @abstractmethod
    def kept(self) -> list[Key]:
        """Return the keys of all checkpoints, stored conversations and blocks, that is of everything except live slots.
        Keys that belong to the same slot or conversation are adjacent."""

    @abstractmethod
    def stored(self, key: Key, start: int = 0) -> StoredObject:
        """Return the content of the restore point with this key. For a slot, rows of full attention from position
        ``start`` on; read them before the server continues."""

    def content(self, key: Key, start: int = 0) -> StoredContent:
        """Return rows and states like ``stored``, without the tokens and without the length that a request reuses."""
        stored = self.stored(key, start)
        return StoredContent(stored.rows, stored.state)

    def live(self, slot: int) -> StoredObject:
        """Return a copy of the current content of a slot: its tokens and its part of the memory."""
        return self.stored(running_key(slot))._replace(tokens=self.tokens_of(slot)).copy()

    # Invariants.

    def exceeded_limits(self) -> list[ExceededLimit]:
        """Return the exceeded limits."""
        return []

    def check(self) -> None:  # noqa: B027  - an engine may have nothing to check
        """Raise Crash unless the memory is consistent."""


class Tasks:
    """Tasks of a server between two rounds, for the replay of concurrent requests."""

    @property
    def queued(self) -> int:
        """Number of received tasks that no round has processed yet."""
        return 0

    def at_work(self) -> Sequence[int]:
        """Return the ids of the tasks in busy slots."""
        return []

    def waiting(self) -> Sequence[int]:
        """Return the ids of the tasks that wait for a slot."""
        return []

    @property
    def arrival_is_unlogged(self) -> bool:
        """True if the server logs nothing when a request arrives and every slot is busy."""
        return False

    @property
    def disconnect_is_next(self) -> bool:
        """True if the next round begins with a client disconnect."""
        return False

    def take_queue(self) -> None:
        """Process the queued client requests as if they had arrived before the disconnect with which the next round
        begins."""


class MemorySizes:
    """Sizes of a server's memory, in the sizes that the model declares. ``n_ctx_slot``: context of a slot [tokens], as
    the server reports it; 0 = unlimited."""

    def __init__(self, n_ctx_slot: int = 0) -> None:
        self.n_ctx_slot = n_ctx_slot

    def stored_bytes(self) -> StoredBytes:
        """Return the current bytes of checkpoints and stored conversations."""
        return StoredBytes(0, 0)

    def uncounted_bytes(self) -> int:
        """Return the bytes that stored conversations keep alive beyond their own size."""
        return 0

    def stored_sizes(self) -> list[StoredSize]:
        """Return the size of every checkpoint of a slot and every stored conversation."""
        return []


class SequenceMemory:
    """Positions in a memory that numbers sequences and removes rows by position."""

    def held(self, seq: int) -> np.ndarray:
        """Return the positions (n,) of a sequence's rows in all attention caches, ascending in each cache; empty if the
        memory does not have several sequences."""
        return np.zeros(0, np.int64)

    def observe_removals(self, observer: Callable[[Removal], None]) -> None:
        """Call ``observer`` for every later removal of rows, if the memory has several sequences."""

    def checkpoint_spans(self, slot: int) -> list[tuple[int, int]]:
        """Return pos_min and pos_max of the checkpoints of a slot, in the order of ``Inspection.checkpoints``; [] if
        the engine does not keep them."""
        return []

    def draft_memory(self, slot: int) -> DraftMemory | None:
        """Return the memory of the draft model for a slot; None without one, or if a slot keeps nothing of it."""
        return None

    def reevaluates_draft(self, wrong: int) -> bool:
        """True if rejecting ``wrong`` drafted tokens makes the server evaluate the tokens before them again, because
        the memory cannot remove the rejected tokens."""
        return False


class CacheCells:
    """Parts of a cache that requests share, for pictures."""

    def blocks(self) -> Sequence[BlockCell]:
        """Return the blocks of the pool that were used, by number; () for an engine without a pool."""
        return ()

    def nodes(self) -> Sequence[TreeCell]:
        """Return the nodes of the radix tree, parents before their children; () for an engine without a tree."""
        return ()


class StepSchedule:
    """The steps of a server whose scheduler chooses the tokens of each. ``preemption``: the server's word for taking
    the memory of a running request, which starts again later."""

    preemption: str = "preempted"

    def record(self) -> bool:
        """Emit a ``StepScheduled`` event for every later step; return False for a server that schedules no steps."""
        return False


class EventHashing(NamedTuple):
    """How a server hashes the blocks that its events name, as its command line and environment state it."""

    algorithm: str = ""             # name of the hash function, "" = the default of the release
    seed: str | None = None         # PYTHONHASHSEED, None = not set


class EventBatch(NamedTuple):
    """Events that a server publishes in one message: the fields of each as the release encodes them, ``type`` first."""

    events: Sequence[Mapping[str, Any]]
    rank: int = 0                   # data-parallel rank of the publisher


class PublishedEvents:
    """KV events of a server: messages on blocks that were stored and removed, for programs that subscribe."""

    def start(self, hashing: EventHashing) -> None:
        """Publish the events from now on. Raise BadInput if the server publishes none, or for such hashes."""
        raise BadInput("this server publishes no KV events")

    def take(self) -> list[EventBatch]:
        """Return the batches that were published since the last call."""
        return []

    def assumptions(self) -> list[str]:
        """Return what the published fields assume of the server, a line for each assumption."""
        return []
