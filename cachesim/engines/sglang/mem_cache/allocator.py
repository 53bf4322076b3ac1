"""Pools of slots: K/V slots in pages, window slots that are paired with them, and slots of recurrent states.

Freed pages join the end of the free list, and pages are taken from its front. Page 0 is padding.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from cachesim.base.errors import Crash
from cachesim.engines.shared.free_list import pool_size
from cachesim.engines.shared.kv_rows import extend_array, grown_size
from cachesim.model import LayerState

Slots = npt.NDArray[np.int64]
NO_SLOTS: Slots = np.zeros(0, np.int64)


class PagePool:
    """Free pages of a pool of ``size`` slots."""

    def __init__(self, size: int, page: int) -> None:
        self.size, self.page = size, page
        self.free = deque(range(1, pool_size(size // page) + 1))

    @property
    def available(self) -> int:
        """Number of free slots."""
        return len(self.free) * self.page

    def extend(self, last: int, start: int, stop: int) -> Slots:
        """Take slots for positions start .. stop-1 of a request whose previous slot is ``last``. The caller has checked
        that enough pages are free."""
        page = self.page
        if page == 1:
            return np.array([self.free.popleft() for _ in range(stop - start)], np.int64)
        here = min(stop, -(-start // page) * page) - start
        fresh = np.array([self.free.popleft() for _ in range(-(-(stop - start - here) // page))], np.int64)
        slots = (fresh[:, None] * page + np.arange(page)).ravel()[: stop - start - here]
        return np.concatenate((np.arange(last + 1, last + 1 + here), slots)) if here else slots

    def give_back(self, slots: Slots) -> None:
        """Free the pages of slots that begin at a page."""
        self.free.extend((slots[:: self.page] // self.page).tolist())

    def check(self, used: Slots) -> None:
        """Raise Crash unless every page is free once, or holds some of the ``used`` slots (0 = no slot)."""
        pages = np.concatenate((np.unique(used[used > 0] // self.page), np.array(self.free, np.int64)))
        if len(np.unique(pages)) != len(pages) or len(pages) != self.size // self.page:
            raise Crash(f"{len(pages)} pages are free or in use, of {self.size // self.page}")


class KvPools:
    """K/V slots, and for models with windows a window slot for each (``peer``: slot -> window slot, 0 = none)."""

    def __init__(self, page: int, size: int, window_size: int | None) -> None:
        self.page = page
        self.full = PagePool(size, page)
        self.window = None if window_size is None else PagePool(window_size, page)
        self.peer: Slots = NO_SLOTS

    @property
    def available(self) -> int:
        """Number of slots that can be allocated now."""
        return self.full.available if self.window is None else min(self.full.available, self.window.available)

    def extend(self, last: int, start: int, stop: int) -> Slots:
        """Take slots, and their window slots, for positions start .. stop-1 after the slot ``last``."""
        slots = self.full.extend(last, start, stop)
        if self.window is not None and len(slots):
            need = int(slots.max()) + 1
            if need > len(self.peer):
                self.peer = extend_array(self.peer, grown_size(len(self.peer), need))
            self.peer[slots] = self.window.extend(int(self.peer[last]) if last > 0 else last, start, stop)
        return slots

    def free(self, slots: Slots) -> None:
        """Free slots and their window slots."""
        self.free_window(slots)
        self.full.give_back(slots)

    def free_window(self, slots: Slots) -> None:
        """Free the window slots of these slots, if they have any."""
        if self.window is not None and len(slots):
            heads = self.peer[slots[:: self.page]]
            self.window.free.extend((heads[heads > 0] // self.page).tolist())
            self.peer[slots] = 0
            if len(slots) % self.page:                       # the last page is freed whole
                self.peer[slots[-1] : slots[-1] // self.page * self.page + self.page] = 0

    def move_window(self, kept: Slots, fresh: Slots) -> Slots:
        """Pair the ``kept`` slots with the window slots of the ``fresh`` slots; return the window slots."""
        moved = self.peer[fresh]
        self.peer[fresh] = 0
        self.peer[kept] = moved
        return moved


class StatePool(PagePool):
    """Slots of recurrent states: their free list, and the content of each."""

    def __init__(self, size: int) -> None:
        super().__init__(size, 1)
        self.content: dict[int | None, dict[int, LayerState]] = {}      # states by layer

    def take(self) -> int | None:
        """Take a slot; None if none is free."""
        return self.free.popleft() if self.free else None

    def put_back(self, slot: int) -> None:
        """Free a slot."""
        self.free.append(slot)
