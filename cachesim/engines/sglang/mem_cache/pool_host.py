"""Slots of K/V rows in host memory, behind the slots of a device, and the copies between them."""

from __future__ import annotations

import numpy as np

from cachesim.engines.sglang.mem_cache.allocator import PagePool, Slots
from cachesim.engines.shared.kv_rows import RowTable, empty_rows, read_rows, write_rows


class HostTier(PagePool):
    """A pool of ``size`` slots. ``device``: rows of the device by layer; a copy moves the rows of all of its layers."""

    def __init__(self, size: int, page: int, device: RowTable) -> None:
        super().__init__(size, page)
        self.device, self.rows = device, empty_rows(device)

    def write(self, cells: Slots) -> Slots:
        """Copy rows in cells of the device to free slots; return the slots. The caller has made room."""
        slots = self.extend(-1, 0, len(cells))
        _copy(self.device, cells, self.rows, slots)
        return slots

    def read(self, slots: Slots, cells: Slots) -> None:
        """Copy rows in slots to cells of the device."""
        _copy(self.rows, slots, self.device, cells)


def _copy(source: RowTable, have: Slots, target: RowTable, want: np.ndarray) -> None:
    for layer, rows in source.items():
        write_rows(target, layer, want, read_rows(rows, have))
