"""Parts of a server whose slots keep checkpoints and whose prompt cache keeps conversations: inspection, sizes,
sequences.

``core``, the state of such a server, has ``slots`` with ``checkpoints``, a prompt ``cache`` (None = off) with
``entries``, ``memory``, ``points`` and ``settings``.
"""

from __future__ import annotations

from typing import Any, Callable

from cachesim.engines.inspection import ExceededLimit, Key, StoredBytes
from cachesim.engines.server_parts import MemorySizes, Removal, SequenceMemory
from cachesim.engines.shared.prompt_cache_limits import over_limits
from cachesim.engines.shared.server_loop import SlotInspection, observe_seq_rm


def entry_sizes(core: Any) -> list[int]:
    """Return the sizes of the stored conversations [bytes], oldest first."""
    return [entry.size for entry in core.cache.entries] if core.cache else []


class CheckpointInspection(SlotInspection):
    """Contents of slots, checkpoints and stored conversations."""

    core: Any

    def __init__(self, core: Any) -> None:
        super().__init__(core.slots)
        self.core = core

    def kept(self) -> list[Key]:
        """Return the keys of all checkpoints and stored conversations."""
        return list(self.core.points.kept())

    def checkpoints(self, slot: int) -> list[int]:
        """Return the lengths of the slot's checkpoints [tokens], oldest first."""
        return [checkpoint.facts.n_tokens for checkpoint in self.core.slots[slot].checkpoints]

    def exceeded_limits(self) -> list[ExceededLimit]:
        """Return the exceeded limits: checkpoints of a slot, bytes of the prompt cache."""
        counts = [len(slot.checkpoints) for slot in self.core.slots]
        settings = self.core.settings
        return over_limits(counts, settings.max_checkpoints, entry_sizes(self.core), settings.limit_size)

    def check(self) -> None:
        """Raise Crash unless the memory is consistent."""
        self.core.memory.check()


class CheckpointSizes(MemorySizes):
    """Sizes of checkpoints and of stored conversations."""

    core: Any

    def __init__(self, core: Any) -> None:
        super().__init__(core.settings.n_ctx_slot)
        self.core = core

    def stored_bytes(self) -> StoredBytes:
        """Return the current bytes of checkpoints and stored conversations."""
        sizes = [checkpoint.facts.size for slot in self.core.slots for checkpoint in slot.checkpoints]
        return StoredBytes(sum(sizes), sum(entry_sizes(self.core)))


class CheckpointSequences(SequenceMemory):
    """Sequences of the memory, and the positions of checkpoints."""

    core: Any

    def __init__(self, core: Any) -> None:
        self.core = core

    def observe_removals(self, observer: Callable[[Removal], None]) -> None:
        """Call ``observer`` for every later removal of rows."""
        self.core.memory.seq_rm = observe_seq_rm(self.core.memory.seq_rm, self.held, observer)

    def checkpoint_spans(self, slot: int) -> list[tuple[int, int]]:
        """Return pos_min and pos_max of the slot's checkpoints, oldest first."""
        facts = [checkpoint.facts for checkpoint in self.core.slots[slot].checkpoints]
        return [(fact.pos_min, fact.pos_max) for fact in facts]
