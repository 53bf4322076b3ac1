"""Slots of rows in host memory, behind the slots of a device, and the copies between them.

Source: sgl-project/sglang python/sglang/srt/mem_cache/pool_host/base.py HostKVCache (0.5.23).
"""

from __future__ import annotations

from cachesim.engines.sglang.mem_cache.allocator import NO_SLOT, PagedTokenToKVPoolAllocator, Slots
from cachesim.engines.shared.kv_rows import RowTable, empty_rows, read_rows, write_rows


class HostKVCache(PagedTokenToKVPoolAllocator):
    """A pool of ``size`` slots. ``device_buffer``: rows of the device by layer; a copy moves the rows of all of its
    layers."""

    def __init__(self, size: int, page_size: int, device_buffer: RowTable) -> None:
        super().__init__(size, page_size)
        self.device_buffer = device_buffer
        self.kv_buffer = empty_rows(device_buffer)

    def backup_from_device(self, device_slots: Slots) -> Slots:
        """Copy rows of the device to free slots; return the slots. The caller has made room."""
        host_slots = self.alloc_extend(NO_SLOT, 0, len(device_slots))
        _copy_rows(self.device_buffer, device_slots, self.kv_buffer, host_slots)
        return host_slots

    def load_to_device(self, host_slots: Slots, device_slots: Slots) -> None:
        """Copy rows to slots of the device."""
        _copy_rows(self.kv_buffer, host_slots, self.device_buffer, device_slots)


def _copy_rows(source: RowTable, have: Slots, target: RowTable, want: Slots) -> None:
    for layer, rows in source.items():
        write_rows(target, layer, want, read_rows(rows, have))
