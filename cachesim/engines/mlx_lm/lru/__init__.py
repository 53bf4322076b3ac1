"""mlx-lm's prompt cache: a trie of token keys, queues of entries and limits. Versions are tables of rules."""

from __future__ import annotations

from cachesim.engines.mlx_lm.lru.events import Entry, Fetched, Inserted, Removed, Requeued
from cachesim.engines.mlx_lm.lru.lru_prompt_cache import FetchResult, LRUPromptCache
from cachesim.engines.mlx_lm.lru.prompt_trie import PromptTrie, SearchResult
from cachesim.engines.mlx_lm.lru.rule_table import (
    LRU_0_24_1,
    LRU_0_28_3,
    LRU_0_30_2,
    LRU_BASE923,
    LRU_BASE1006,
    LRU_HEAD,
    LRU_M1019,
    LRU_M1072,
    LRU_PR923,
    LRU_PR923_OWN,
    LRU_PR923_REPAIRED,
    LRU_PR923_SHARED,
    LRU_PR929,
    LRU_PR999,
    LRU_PR1186,
    LRU_V911,
    LruRules,
)

__all__ = [
    "LRU_0_24_1", "LRU_0_28_3", "LRU_0_30_2", "LRU_BASE923", "LRU_BASE1006", "LRU_HEAD", "LRU_M1019", "LRU_M1072",
    "LRU_PR923", "LRU_PR923_OWN", "LRU_PR923_REPAIRED", "LRU_PR923_SHARED", "LRU_PR929", "LRU_PR999", "LRU_PR1186",
    "LRU_V911", "Entry", "FetchResult", "Fetched", "Inserted", "LRUPromptCache", "LruRules", "PromptTrie", "Removed",
    "Requeued", "SearchResult",
]
