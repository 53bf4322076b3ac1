"""Several caches as the cache of a layer, and lists of caches for a model."""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.engines.mlx_lm.caches.array_ops import Array
from cachesim.engines.mlx_lm.caches.arrays_cache import ArraysCache
from cachesim.engines.mlx_lm.caches.base import Cache
from cachesim.engines.mlx_lm.caches.batch_kv_cache import BatchKVCache
from cachesim.engines.mlx_lm.caches.batch_rotating_kv_cache import BatchRotatingKVCache
from cachesim.engines.mlx_lm.caches.kv_cache import ChunkedKVCache, ConcatenateKVCache, KVCache, QuantizedKVCache
from cachesim.engines.mlx_lm.caches.rotating_kv_cache import RotatingKVCache
from cachesim.engines.mlx_lm.caches.rule_table import AT_D78BF58E, CacheRules


class CacheList(Cache):
    """A cache that passes each call to its children. The model addresses the children by index."""

    def __init__(self, *caches: Any, rules: CacheRules | None = None) -> None:
        self.caches: Sequence[Any] = caches
        self.rules = rules or (caches[0].rules if caches else AT_D78BF58E)

    def __getitem__(self, idx: int) -> Any:
        return self.caches[idx]

    def whole_state(self) -> Any:
        return [(child.state, type(child).__name__) for child in self.caches]

    def set_whole_state(self, state: Any) -> None:
        self.caches = [CLASSES[name].from_state(part, rules=self.rules) for part, name in state]

    def cut_state(self) -> Any:
        return [child.state for child in self.caches]

    def set_cut_state(self, state: Any) -> None:
        for child, part in zip(self.caches, state, strict=False):
            child.state = part

    def meta(self) -> Any:
        return [type(child).__name__ for child in self.caches], [child.meta_state for child in self.caches]

    def set_meta(self, meta: Any) -> None:
        for child, part in zip(self.caches, meta[1], strict=False):
            child.meta_state = part

    @classmethod
    def from_state(cls, state: Any, meta_state: Any = None, *, rules: CacheRules = AT_D78BF58E) -> CacheList:
        """Restore the children by the names of their classes. Depending on the layout, the state or the text contains
        the names."""
        cache = cls(rules=rules)
        if meta_state is None:
            cache.state = state
        else:
            parts = zip(state, *meta_state, strict=True)
            cache.caches = [CLASSES[name].from_state(part, meta, rules=rules) for part, name, meta in parts]
        return cache

    def is_trimmable(self) -> bool:
        return all(child.is_trimmable() for child in self.caches)

    def trimmable_after(self, n: int) -> bool:
        return all(child.trimmable_after(n) for child in self.caches)

    def trim(self, n: int) -> int:
        """Trim each child. Return the result of the last child."""
        return int([child.trim(n) for child in self.caches][-1])

    def filter(self, batch_indices: Sequence[int] | Array) -> None:
        for child in self.caches:
            child.filter(batch_indices)

    def extend(self, addition: CacheList) -> None:
        for child, more in zip(self.caches, addition.caches, strict=False):
            child.extend(more)

    @classmethod
    def merge(cls, caches: Sequence[CacheList]) -> CacheList:
        columns = zip(*(cache.caches for cache in caches), strict=False)
        return cls(*(column[0].merge(column) for column in columns), rules=caches[0].rules)

    def extract(self, idx: int) -> CacheList:
        return CacheList(*(child.extract(idx) for child in self.caches), rules=self.rules)

    def prepare(self, **sizes: Any) -> None:
        for child in self.caches:
            child.prepare(**sizes)

    def finalize(self) -> None:
        for child in self.caches:
            child.finalize()

    def size(self) -> int:
        return int(max(child.size() for child in self.caches))

    def empty(self) -> bool:
        return bool(self.caches[0].empty())

    @property
    def nbytes(self) -> int:
        return sum(child.nbytes for child in self.caches)


CLASSES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        KVCache, ConcatenateKVCache, RotatingKVCache, ChunkedKVCache, QuantizedKVCache, ArraysCache, CacheList,
        BatchKVCache, BatchRotatingKVCache,
    )
}  # fmt: skip
"""Every class by the name under which it is saved."""


def make_prompt_cache(
    layers: int, max_kv_size: int | None = None, *, rules: CacheRules = AT_D78BF58E
) -> list[KVCache | RotatingKVCache]:
    """Return the caches of a model that does not create its own: KVCaches, or rings that keep 4 tokens if a size is
    given."""
    if max_kv_size is None:
        return [KVCache(rules=rules) for _ in range(layers)]
    return [RotatingKVCache(max_kv_size, keep=4, rules=rules) for _ in range(layers)]


def can_trim_prompt_cache(cache: Sequence[Any]) -> bool:
    """True if every layer can be trimmed now."""
    return all(layer.is_trimmable() for layer in cache)


def trim_prompt_cache(cache: Sequence[Any], num_tokens: int) -> int:
    """Trim every layer, or none if any layer cannot be trimmed. Return the result of the first layer only."""
    if not cache or not can_trim_prompt_cache(cache):
        return 0
    trimmed = [layer.trim(num_tokens) for layer in cache]
    return int(trimmed[0])
