"""mlx-lm's cache classes on NumPy arrays, under their original names. Differences between versions are tables of
rules."""

from __future__ import annotations

from cachesim.engines.mlx_lm.caches.array_ops import (
    Ranges,
    create_attention_mask,
    create_causal_mask,
    dequantize,
    quantize,
)
from cachesim.engines.mlx_lm.caches.arrays_cache import ArraysCache
from cachesim.engines.mlx_lm.caches.base import Cache
from cachesim.engines.mlx_lm.caches.batch_kv_cache import BatchKVCache
from cachesim.engines.mlx_lm.caches.batch_rotating_kv_cache import BatchRotatingKVCache
from cachesim.engines.mlx_lm.caches.cache_list import (
    CLASSES,
    CacheList,
    can_trim_prompt_cache,
    make_prompt_cache,
    trim_prompt_cache,
)
from cachesim.engines.mlx_lm.caches.kv_cache import ChunkedKVCache, ConcatenateKVCache, KVCache, QuantizedKVCache
from cachesim.engines.mlx_lm.caches.rotating_kv_cache import RotatingKVCache
from cachesim.engines.mlx_lm.caches.rule_table import (
    AT_0_25_1,
    AT_0_30_2,
    AT_0_31_1_QWEN35,
    AT_0_32_2,
    AT_D78BF58E,
    AT_M1019,
    AT_M1072,
    AT_M1072_METAL,
    AT_PR999,
    AT_PR1253,
    AT_V0_31_3,
    CacheRules,
)

__all__ = [
    "AT_0_25_1", "AT_0_30_2", "AT_0_31_1_QWEN35", "AT_0_32_2", "AT_D78BF58E", "AT_M1019", "AT_M1072",
    "AT_M1072_METAL", "AT_PR999", "AT_PR1253", "AT_V0_31_3", "CLASSES", "ArraysCache",
    "BatchKVCache", "BatchRotatingKVCache", "Cache", "CacheList", "CacheRules", "ChunkedKVCache", "ConcatenateKVCache",
    "KVCache", "QuantizedKVCache", "Ranges", "RotatingKVCache", "can_trim_prompt_cache", "create_attention_mask",
    "create_causal_mask", "dequantize", "make_prompt_cache", "quantize", "trim_prompt_cache",
]
