"""Slots for the released tree of SGLang: tensors that numpy provides, and allocators that are ours.

Free lists are first in, first out.
"""

from collections import deque
from types import SimpleNamespace

import numpy as np


class Tensor(np.ndarray):
    """An array with the methods of a tensor that the tree calls."""

    def clone(self):
        return self.copy()

    def to(self, *args, **kwargs):
        return self.copy()

    cpu = pin_memory = to

    is_cpu, device = True, "cpu"

    def numel(self):
        return self.size

    def unsqueeze(self, axis):
        return np.expand_dims(self, axis).view(type(self))

    def fill_(self, value):
        self[...] = value


def tensor(values, **kwargs):
    return np.array(values, np.int64).view(Tensor)


class Rows(SimpleNamespace):
    """The pool of request rows; the tree reads ``mamba_allocator``."""


class WindowSlots:
    """The window slots of slots, as a release writes them."""

    def __init__(self, peer):
        self.peer = peer

    def __setitem__(self, slots, value):
        self.peer.update({int(slot): value for slot in slots})


class Allocator:
    """K/V slots. Only WindowAllocator has window slots for them."""

    device = "cpu"

    windows = 0

    def __init__(self, size, page, window_size=0):
        self.page_size, self.size, self.size_swa = page, size, window_size
        self.full, self.peer = deque(range(1, size // page + 1)), {0: 0}
        self.full_to_swa_index_mapping = WindowSlots(self.peer)
        self.swa = deque(range(1, window_size // page + 1))
        self.full_attn_allocator = SimpleNamespace(free_segment=self.free_full_segment, alloc=self.alloc_full,
                                                   free=self.free_full_segment)  # fmt: skip
        self.swa_attn_allocator = SimpleNamespace(alloc=self.alloc_window, free=self.free_window)

    def free(self, slots):
        self.free_segment(slots)

    def free_swa(self, slots):
        self.free_swa_segment(slots)

    def take(self, n, last=0, start=0):
        """Return slots for ``n`` tokens from position ``start`` on, the first behind the slot ``last``."""
        page, out = self.page_size, [last]
        for at in range(start, start + n):
            if at % page:
                full, swa = out[-1] + 1, self.peer[out[-1]] + self.windows
            else:
                full, swa = self.full.popleft() * page, self.swa.popleft() * page if self.windows else 0
            out.append(full)
            self.peer[full] = swa
        return tensor(out[1:])

    def alloc_full(self, n):
        """Return ``n`` slots without window slots, None if fewer are free."""
        if n > self.full_available_size():
            return None
        pages = [self.full.popleft() * self.page_size for _ in range(n // self.page_size)]
        slots = tensor([page + at for page in pages for at in range(self.page_size)])
        self.clear_full_to_swa_mapping(slots)
        return slots

    def alloc_window(self, n):
        """Return ``n`` window slots, None if fewer are free."""
        if n > self.swa_available_size():
            return None
        pages = [self.swa.popleft() * self.page_size for _ in range(n // self.page_size)]
        return tensor([page + at for page in pages for at in range(self.page_size)])

    def free_window(self, slots):
        self.swa += [int(slot) // self.page_size for slot in slots[:: self.page_size]]

    def alloc(self, n):
        """Return ``n`` slots, None if fewer are free: for pages of one slot."""
        return self.take(n) if self.available_size() >= n else None

    def alloc_extend(self, prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu, last_loc, n):
        """Return the slots of the positions prefix_len .. seq_len-1 of each request; None if pages are short."""
        page, spans = self.page_size, list(zip(prefix_lens_cpu.tolist(), seq_lens_cpu.tolist(), strict=True))
        if sum(-(-stop // page) - -(-start // page) for start, stop in spans) > self.available_size() // page:
            return None
        parts = [self.take(stop - start, int(last), start) for (start, stop), last in zip(spans, last_loc, strict=True)]
        return np.concatenate(parts).view(Tensor)

    def alloc_decode(self, seq_lens, seq_lens_cpu, last_loc):
        """Return the slot of the last position of each request; None if pages are short."""
        return self.alloc_extend(None, seq_lens_cpu - 1, None, seq_lens_cpu, last_loc, len(seq_lens_cpu))

    def get_extend_allocation_demand(self, prefix_lens, seq_lens, *, conservative_num_tokens, shard_size):
        return conservative_num_tokens

    def full_available_size(self):
        return len(self.full) * self.page_size

    available_size = full_available_size

    def free_group_begin(self):
        pass

    free_group_end = free_group_begin

    def evict_to_free_tokens(self, cache, n):
        from sglang.srt.mem_cache.base_prefix_cache import EvictParams

        full = max(0, n - self.full_available_size())
        swa = max(0, n - self.swa_available_size()) if self.windows else 0
        if full or swa:
            cache.evict_for_alloc(EvictParams(num_tokens=full, swa_num_tokens=swa))

    def check_decode_capacity(self, num_tokens, tree_cache, **kwargs):
        self.evict_to_free_tokens(tree_cache, num_tokens)
        return self.available_size() >= num_tokens

    def swa_available_size(self):
        return len(self.swa) * self.page_size

    def request_slot_reserve(self, **kwargs):
        return 0

    def create_prefill_budget(self, tree, **kwargs):
        from sglang.srt.mem_cache.prefill_budget import PrefillBudget

        return PrefillBudget(self, tree, **kwargs)

    def mamba_full_cache_donor(self):
        return None

    def free_full_segments(self, segments):
        for slots, _ in segments:
            self.free_full_segment(slots)

    def free_full(self, slots):
        self.free_full_segment(slots)

    def free_full_segment(self, slots, start_pos=0):
        self.full += [int(slot) // self.page_size for slot in slots[:: self.page_size]]

    def free_swa_segment(self, slots, start_pos=0):
        pages = [self.peer[int(slot)] // self.page_size for slot in slots[:: self.page_size]]
        self.swa += [page for page in pages if page]
        self.clear_full_to_swa_mapping(slots)

    def free_segment(self, slots, start_pos=0):
        self.free_swa_segment(slots)
        self.free_full_segment(slots)

    def free_segments(self, segments):
        for slots, start_pos in segments:
            self.free_segment(slots, start_pos)

    def translate_swa_indices_for_transfer(self, slots):
        return tensor([self.peer[int(slot)] for slot in slots])

    translate_loc_from_full_to_swa = translate_swa_indices_for_transfer

    def clear_full_to_swa_mapping(self, slots):
        self.peer.update({int(slot): 0 for slot in slots})

    def set_full_to_swa_mapping(self, slots, window):
        self.peer.update({int(slot): int(other) for slot, other in zip(slots, window, strict=True)})


class WindowAllocator(Allocator):
    """K/V slots, and a window slot for each."""

    windows = 1

    def available_size(self):
        return min(len(self.full), len(self.swa)) * self.page_size

    def create_prefill_budget(self, tree, **kwargs):
        from sglang.srt.mem_cache.prefill_budget import SWAPrefillBudget

        return SWAPrefillBudget(self, tree, **kwargs)


class StateTensor(Tensor):
    """Slots of states. One of them is a view of the array, too."""

    def __getitem__(self, at):
        return np.ndarray.__getitem__(self, (at, ...) if isinstance(at, int) else at).view(StateTensor)


def no_states(*shape):
    """Return a table of states without any."""
    return np.zeros(shape, np.int64).view(StateTensor)


class StateSlots:
    """Slots of states."""

    def __init__(self, size):
        self.slots = deque(range(1, size + 1))

    def available_size(self):
        return len(self.slots)

    schedulable_available_size = available_size

    def alloc(self, n):
        return tensor([self.slots.popleft() for _ in range(n)]).view(StateTensor) if len(self.slots) >= n else None

    def alloc_group_begin(self, n):
        pass

    def alloc_group_end(self):
        pass

    def free(self, slots):
        self.slots += [int(slot) for slot in slots]
