"""Sizes of the server's pools. Source: SGLang python/sglang/srt/mem_cache/unified_radix_cache.py evict (0.5.23)."""

from __future__ import annotations

from cachesim.engines.sglang.assumed_pool import RESERVED_PAGES, SPARE, STATES
from cachesim.engines.shared.capacity import CapacityForms, CapacityQuestion, CapacitySize


def _slots(question: CapacityQuestion) -> tuple[int, int]:
    """Return the slots of the longest request, and of all conversations at their longest."""
    page = question.options["page_size"]
    spare = SPARE + RESERVED_PAGES * page
    return _pages(question.load.longest + spare, page), _pages(question.load.total + spare, page)


def _pages(tokens: int, page: int) -> int:
    """Return the slots of the pages that hold so many tokens."""
    return int(-(-tokens // page) * page)


def _states(question: CapacityQuestion) -> tuple[int, int]:
    """Return the states of a request, and those of all conversations with a chunk of the prompt for each."""
    chunk = question.options["chunked_prefill_size"]
    chunks = question.load.total // chunk if chunk > 0 else 0
    return STATES, STATES * max(1, question.load.conversations) + chunks


FORMS = CapacityForms(
    (CapacitySize("max_total_tokens", "slots of rows", _slots, filled=True),
     CapacitySize("max_mamba_cache_size", "slots of states", _states, filled=True)),
    shared=("max_total_tokens", "max_mamba_cache_size"),
    direct="an eviction removes whole leaves of the tree, and their lengths depend on earlier evictions",
)  # fmt: skip
