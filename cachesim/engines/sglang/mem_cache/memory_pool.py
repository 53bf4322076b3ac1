"""Pools: the slots of each request, the rows in slots, and the recurrent states in slots.

Source: sgl-project/sglang python/sglang/srt/mem_cache/memory_pool.py (0.5.23).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cachesim.engines.sglang.mem_cache.allocator import (
    NO_SLOTS,
    MambaSlotAllocator,
    Slots,
    SWATokenToKVPoolAllocator,
    TokenToKVPoolAllocator,
)
from cachesim.engines.shared.kv_rows import RowTable, empty_rows, extend_array, grown_size, read_rows
from cachesim.model import KVRows, LayerState, Spec

States = dict[int, LayerState]
"""States by layer."""


class ReqToTokenPool:
    """The slots of the tokens of each request, of ``size`` at most. ``req_to_token``: a row for each that has slots;
    ``num_consecutive``: how many of its first slots are known to have consecutive numbers."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.req_to_token: dict[int, Slots] = {}
        self.num_consecutive: dict[int, int] = {}

    def available_size(self) -> int:
        """Return the number of free rows."""
        return self.size - len(self.req_to_token)

    def write(self, rid: int, start: int, slots: Slots) -> None:
        """Write the slots of positions from ``start`` on."""
        row = self.req_to_token.get(rid, NO_SLOTS)
        stop = start + len(slots)
        if stop > len(row):
            row = extend_array(row, grown_size(len(row), stop))
            self.req_to_token[rid] = row
        row[start:stop] = slots
        known = self.num_consecutive.get(rid, 0)
        if start <= known and start < stop:
            found = consecutive_until(row, start, stop)
            self.num_consecutive[rid] = known if found == stop < known and row[stop] == row[stop - 1] + 1 else found

    def read(self, rid: int, start: int, stop: int) -> Slots:
        """Return the slots of positions start .. stop-1, as a view."""
        return self.req_to_token.get(rid, NO_SLOTS)[start:stop]

    def cells(self, rid: int, start: int, stop: int) -> Slots | slice:
        """Return the slots of positions start .. stop-1; a slice if their numbers are known to be consecutive."""
        if not start < stop <= self.num_consecutive.get(rid, 0):
            return self.read(rid, start, stop)
        first = int(self.req_to_token[rid][start])
        return slice(first, first + stop - start)

    def free(self, rid: int) -> None:
        """Remove the row of a request."""
        self.req_to_token.pop(rid, None)
        self.num_consecutive.pop(rid, None)


def consecutive_until(row: Slots, start: int, stop: int) -> int:
    """Return the end of the consecutive numbers in row[:stop], of which row[:start] is consecutive."""
    first = max(0, start - 1)
    breaks = np.flatnonzero(row[first + 1 : stop] != row[first : stop - 1] + 1)
    return first + 1 + int(breaks[0]) if len(breaks) else stop


class MambaPool:
    """Recurrent states of all layers in slots. A slot without content holds the state before the first token."""

    def __init__(self) -> None:
        self.mamba_cache: dict[int, States] = {}

    def read(self, slot: int | None) -> States:
        """Return the states in a slot, for reading only; none without a slot."""
        return {} if slot is None else self.mamba_cache.get(slot, {})

    def write(self, slot: int, states: States) -> None:
        """Write states into a slot."""
        self.mamba_cache[slot] = states

    def copy_from(self, source: int | None, target: int) -> None:
        """Copy the states of a slot to another one."""
        self.mamba_cache[target] = self.read(source)

    def clear_slot(self, slot: int) -> None:
        """Make a slot hold the state before the first token."""
        self.mamba_cache[slot] = {}


class HybridReqToTokenPool(ReqToTokenPool):
    """The slots of each request, and the pool of states."""

    def __init__(self, size: int, mamba_size: int) -> None:
        super().__init__(size)
        self.mamba_allocator = MambaSlotAllocator(mamba_size)
        self.mamba_pool = MambaPool()


class MHATokenToKVPool:
    """Rows in slots, by layer. Layers with a window have their rows in window slots."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.kv_buffer: RowTable = empty_rows(i for i, layer in enumerate(spec.layers) if layer.part)

    def read(self, slots: Slots, window: bool) -> dict[int, KVRows]:
        """Return the rows of layers with, or without, a window, for reading only."""
        return {i: read_rows(kept, slots) for i, kept in self.kv_buffer.items()
                if bool(self.spec.layers[i].window) == window}  # fmt: skip


class MemoryPools(NamedTuple):
    """The pools of a server."""

    req_to_token_pool: HybridReqToTokenPool
    token_to_kv_pool_allocator: TokenToKVPoolAllocator
    token_to_kv_pool: MHATokenToKVPool

    @property
    def swa_allocator(self) -> SWATokenToKVPoolAllocator:
        """The allocator of a model with windows."""
        assert isinstance(self.token_to_kv_pool_allocator, SWATokenToKVPoolAllocator)
        return self.token_to_kv_pool_allocator
