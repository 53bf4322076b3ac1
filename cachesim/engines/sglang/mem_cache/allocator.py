"""Allocators of slots: slots of rows in pages, window slots that are paired with them, and slots of recurrent states.

Freed pages join the end of the free list, and pages are taken from its front. Page 0 is padding.
Source: sgl-project/sglang python/sglang/srt/mem_cache/allocator/{token,paged,swa,mamba}.py (0.5.23).
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from cachesim.base.errors import Crash
from cachesim.engines.shared.free_list import pool_size
from cachesim.engines.shared.kv_rows import extend_array, grown_size

Slots = npt.NDArray[np.int64]
NO_SLOTS: Slots = np.zeros(0, np.int64)
NO_SLOT = -1                    # slot before the first token of a request


def ceil_align(n: int, page_size: int) -> int:
    """Return ``n`` rounded up to pages."""
    return -(-n // page_size) * page_size


class PagedTokenToKVPoolAllocator:
    """Free pages of a pool of ``size`` slots. The window slots of a model without windows are these slots."""

    def __init__(self, size: int, page_size: int) -> None:
        self.size = size
        self.page_size = page_size
        self.free_pages = deque(range(1, pool_size(size // page_size) + 1))

    def available_size(self) -> int:
        """Return the number of slots that can be allocated."""
        return len(self.free_pages) * self.page_size

    def full_available_size(self) -> int:
        """Return the number of free slots of full attention."""
        return len(self.free_pages) * self.page_size

    def alloc_extend(self, last_loc: int, prefix_len: int, seq_len: int) -> Slots:
        """Take slots for the positions from ``prefix_len`` to ``seq_len`` - 1 of a request, whose previous slot is
        ``last_loc``. The caller has checked that enough pages are free."""
        page = self.page_size
        if page == 1:
            return np.array([self.free_pages.popleft() for _ in range(seq_len - prefix_len)], np.int64)
        here = min(seq_len, ceil_align(prefix_len, page)) - prefix_len
        num_new_pages = -(-(seq_len - prefix_len - here) // page)
        pages = np.array([self.free_pages.popleft() for _ in range(num_new_pages)], np.int64)
        slots = (pages[:, None] * page + np.arange(page)).ravel()[: seq_len - prefix_len - here]
        return np.concatenate((np.arange(last_loc + 1, last_loc + 1 + here), slots)) if here else slots

    def alloc_full(self, n: int) -> Slots:
        """Take ``n`` slots, whole pages. The caller has checked that enough are free."""
        return self.alloc_extend(NO_SLOT, 0, n)

    def free(self, slots: Slots) -> None:
        """Free the pages of slots that begin at a page."""
        self.free_page_ids((slots[:: self.page_size] // self.page_size).tolist())

    def free_full(self, slots: Slots) -> None:
        """Free slots of full attention."""
        self.free(slots)

    def free_swa(self, slots: Slots) -> None:
        """Free the window slots of slots: there are none."""

    def free_page_ids(self, pages: list[int]) -> None:
        """Free pages."""
        self.free_pages.extend(pages)

    def check(self, used: Slots) -> None:
        """Raise Crash unless every page is free once, or holds some of the ``used`` slots (0 = no slot)."""
        in_use = np.flatnonzero(np.bincount(used[used > 0] // self.page_size))
        pages = np.concatenate((in_use, np.array(self.free_pages, np.int64)))
        if len(pages) != self.size // self.page_size or (np.bincount(pages) > 1).any():
            raise Crash(f"{len(pages)} pages are free or in use, of {self.size // self.page_size}")


class SWATokenToKVPoolAllocator:
    """Slots of full attention, and a window slot for each. ``full_to_swa_index_mapping``: slot -> window slot, 0 =
    none."""

    def __init__(self, size: int, size_swa: int, page_size: int) -> None:
        self.page_size = page_size
        self.size_swa = size_swa
        self.full_attn_allocator = PagedTokenToKVPoolAllocator(size, page_size)
        self.swa_attn_allocator = PagedTokenToKVPoolAllocator(size_swa, page_size)
        self.full_to_swa_index_mapping: Slots = NO_SLOTS

    def available_size(self) -> int:
        """Return the number of slots that can be allocated with their window slots."""
        return min(self.full_available_size(), self.swa_available_size())

    def full_available_size(self) -> int:
        """Return the number of free slots of full attention."""
        return self.full_attn_allocator.available_size()

    def swa_available_size(self) -> int:
        """Return the number of free window slots."""
        return self.swa_attn_allocator.available_size()

    def translate_loc_from_full_to_swa(self, slots: Slots) -> Slots:
        """Return the window slots of slots."""
        return self.full_to_swa_index_mapping[slots]

    def alloc_extend(self, last_loc: int, prefix_len: int, seq_len: int) -> Slots:
        """Take slots and their window slots for the positions from ``prefix_len`` to ``seq_len`` - 1."""
        slots = self.full_attn_allocator.alloc_extend(last_loc, prefix_len, seq_len)
        if len(slots):
            self._grow_mapping(slots)
            last_swa_loc = int(self.full_to_swa_index_mapping[last_loc])
            swa_slots = self.swa_attn_allocator.alloc_extend(last_swa_loc, prefix_len, seq_len)
            self.full_to_swa_index_mapping[slots] = swa_slots
        return slots

    def alloc_full(self, n: int) -> Slots:
        """Take ``n`` slots of full attention without window slots. The caller has checked that enough are free."""
        slots = self.full_attn_allocator.alloc_full(n)
        if n:
            self._grow_mapping(slots)
            self.full_to_swa_index_mapping[slots] = 0
        return slots

    def pair(self, slots: Slots, swa_slots: Slots) -> None:
        """Pair slots with window slots."""
        self.full_to_swa_index_mapping[slots] = swa_slots

    def _grow_mapping(self, slots: Slots) -> None:
        need = int(slots.max()) + 1
        known = len(self.full_to_swa_index_mapping)
        if need > known:
            self.full_to_swa_index_mapping = extend_array(self.full_to_swa_index_mapping, grown_size(known, need))

    def free(self, slots: Slots) -> None:
        """Free slots and their window slots."""
        self.free_swa(slots)
        self.full_attn_allocator.free(slots)

    def free_full(self, slots: Slots) -> None:
        """Free slots of full attention, whose window slots are free."""
        self.full_attn_allocator.free(slots)

    def free_swa(self, slots: Slots) -> None:
        """Free the window slots of slots that begin at a page, if they have any. The last page is freed whole."""
        if not len(slots):
            return
        page = self.page_size
        mapping = self.full_to_swa_index_mapping
        heads = mapping[slots[::page]]
        self.swa_attn_allocator.free_page_ids((heads[heads > 0] // page).tolist())
        mapping[slots] = 0
        if len(slots) % page:
            last = int(slots[-1])
            mapping[last : last // page * page + page] = 0

    def set_full_to_swa_mapping(self, kept: Slots, fresh: Slots) -> Slots:
        """Pair the ``kept`` slots with the window slots of the ``fresh`` slots; return the window slots."""
        moved = self.full_to_swa_index_mapping[fresh]
        self.full_to_swa_index_mapping[fresh] = 0
        self.full_to_swa_index_mapping[kept] = moved
        return moved

    def check(self, used: Slots) -> None:
        """Raise Crash unless every page of both pools is free once, or holds some of the ``used`` slots."""
        self.full_attn_allocator.check(used)
        self.swa_attn_allocator.check(self.translate_loc_from_full_to_swa(used))


TokenToKVPoolAllocator = PagedTokenToKVPoolAllocator | SWATokenToKVPoolAllocator
"""Allocator of a model without windows, or with windows."""


class MambaSlotAllocator:
    """Free slots of recurrent states."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.free_slots = deque(range(1, pool_size(size) + 1))

    def available_size(self) -> int:
        """Return the number of free slots."""
        return len(self.free_slots)

    def alloc(self) -> int | None:
        """Take a slot; None if none is free."""
        return self.free_slots.popleft() if self.free_slots else None

    def free(self, slot: int) -> None:
        """Free a slot."""
        self.free_slots.append(slot)

    def check(self, used: list[int]) -> None:
        """Raise Crash unless every slot is free once, or one of the ``used`` slots."""
        if len(set(used)) < len(used):
            raise Crash("slots of states are used twice")
        slots = [*used, *self.free_slots]
        if len(set(slots)) < len(slots) or len(slots) != self.size:
            raise Crash(f"{len(slots)} slots of states are free or in use, of {self.size}")
