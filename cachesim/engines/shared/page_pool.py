"""Free pages of a pool of slots, each for the row of one token.

Freed pages join the end of the free list, and pages are taken from its front. Page 0 is padding.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

Slots = npt.NDArray[np.int64]


class PagePool:
    """Free pages of a pool of ``size`` slots."""

    def __init__(self, size: int, page: int) -> None:
        self.size, self.page = size, page
        self.free = deque(range(1, size // page + 1))

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
