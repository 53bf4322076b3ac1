"""Pools in host memory, behind the pools of a device, and the copies between them.

Each part of the tree has a pool of its own: the rows of full attention, the rows of windows, and recurrent states.
Source: sgl-project/sglang python/sglang/srt/mem_cache/pool_host/{base,mamba,group}.py (0.5.23).
"""

from __future__ import annotations

from typing import Any, Mapping, Protocol, Sequence

import numpy as np

from cachesim.engines.sglang.mem_cache.allocator import (
    NO_SLOT,
    NO_SLOTS,
    MambaSlotAllocator,
    PagedTokenToKVPoolAllocator,
    Slots,
)
from cachesim.engines.sglang.mem_cache.memory_pool import MambaPool, MemoryPools
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA
from cachesim.engines.sglang.runtime_context import RuntimeContext
from cachesim.engines.shared.kv_rows import RowTable, empty_rows, read_rows, write_rows

HOST_PARTS = FULL, MAMBA, SWA
"""Parts in the order in which a copy takes its slots: rows of full attention first, then by the name of the pool."""


class HostPool(Protocol):
    """A pool. Its values, and those of the device, are slots of rows or the slot of a state."""

    def available_size(self) -> int:
        """Return the number of free slots."""

    def alloc_host(self, n: int) -> Any:
        """Take ``n`` slots; None if fewer are free."""

    def free_host(self, value: Any) -> None:
        """Free slots."""

    def backup_from_device(self, device_value: Any, host_value: Any) -> None:
        """Copy the content of slots of the device."""

    def load_to_device(self, host_value: Any, device_value: Any) -> None:
        """Copy the content of slots to slots of the device."""

    def check_host(self, used: Sequence[Any]) -> None:
        """Raise Crash unless every slot is free once, or one of these."""


class HostKVCache(PagedTokenToKVPoolAllocator):
    """A pool of ``size`` slots of rows. ``device_buffer``: rows of the device by layer; a copy moves those of
    ``layers``."""

    def __init__(self, size: int, page_size: int, device_buffer: RowTable, layers: Sequence[int]) -> None:
        super().__init__(size, page_size)
        self.device_buffer = device_buffer
        self.layers = layers
        self.kv_buffer = empty_rows(layers)

    def alloc_host(self, n: int) -> Slots | None:
        """Take ``n`` slots, whole pages; None if fewer are free."""
        return self.alloc_extend(NO_SLOT, 0, n) if n <= self.available_size() else None

    def free_host(self, value: Slots) -> None:
        """Free slots."""
        self.free(value)

    def backup_from_device(self, device_value: Slots, host_value: Slots) -> None:
        """Copy rows of the device to slots."""
        self._copy(self.device_buffer, device_value, self.kv_buffer, host_value)

    def load_to_device(self, host_value: Slots, device_value: Slots) -> None:
        """Copy rows to slots of the device."""
        self._copy(self.kv_buffer, host_value, self.device_buffer, device_value)

    def _copy(self, source: RowTable, have: Slots, target: RowTable, want: Slots) -> None:
        for layer in self.layers:
            write_rows(target, layer, want, read_rows(source[layer], have))

    def check_host(self, used: Sequence[Slots]) -> None:
        """Raise Crash unless every page is free once, or holds some of the ``used`` slots."""
        self.check(np.concatenate([NO_SLOTS, *used]))


class MambaPoolHost(MambaSlotAllocator):
    """A pool of ``size`` slots of recurrent states. ``device_pool``: the states of the device."""

    def __init__(self, size: int, device_pool: MambaPool) -> None:
        super().__init__(size)
        self.device_pool = device_pool
        self.states = MambaPool()

    def alloc_host(self, n: int) -> int | None:
        """Take a slot; None if none is free."""
        return self.alloc()

    def free_host(self, value: int) -> None:
        """Free a slot."""
        self.free(value)

    def backup_from_device(self, device_value: int, host_value: int) -> None:
        """Copy a state of the device to a slot."""
        self.states.write(host_value, self.device_pool.read(device_value))

    def load_to_device(self, host_value: int, device_value: int) -> None:
        """Copy a state to a slot of the device."""
        self.device_pool.write(device_value, self.states.read(host_value))

    def check_host(self, used: Sequence[int]) -> None:
        """Raise Crash unless every slot is free once, or one of the ``used`` slots."""
        self.check(list(used))


HostPoolGroup = Mapping[int, HostPool]
"""Pool of each part of a tree."""


def host_pool_group(context: RuntimeContext, pools: MemoryPools) -> HostPoolGroup:
    """Return the pools of host memory, one for each part of the tree."""
    args = context.server_args
    ratio = args.hicache_ratio
    page = context.page_size
    device_buffer = pools.token_to_kv_pool.kv_buffer
    slots = context.rules.host_slots
    layers = {is_window: [i for i in device_buffer if bool(context.spec.layers[i].window) == is_window]
              for is_window in (False, True)}  # fmt: skip
    group: dict[int, HostPool] = {
        FULL: HostKVCache(slots(args.max_total_tokens, ratio, page), page, device_buffer, layers[False])}
    if SWA in context.tree_components:
        group[SWA] = HostKVCache(slots(pools.swa_allocator.size_swa, ratio, page), page, device_buffer, layers[True])
    if MAMBA in context.tree_components:
        rows = pools.req_to_token_pool
        group[MAMBA] = MambaPoolHost(slots(rows.mamba_allocator.size, ratio, 1), rows.mamba_pool)
    return group
