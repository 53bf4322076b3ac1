"""Rules for inserting an entry into mlx-lm's prompt cache: treatment of an entry with the same key, removal of entries
whose keys are prefixes of the new key, eviction, and trimmed copies of the new entry under a prefix (snapshots).

Lengths are in tokens. Layers are the caches of an entry, one per layer of the model. Each kind of entry has a queue;
arguments and results number the queues in the order of ``kinds`` in ``rule_table.py``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm.source_files import CACHE, SERVER, mlx_lm
from cachesim.engines.rule import Role, rule


class StoredKeyTreatment(NamedTuple):
    """Treatment of a key that is already stored: True if the new object replaces the old, and the number of added
    owners."""

    take_new: bool
    owners: int = 0


class EvaluatedLength(int):
    """Length of a prefix that is evaluated in caches of its own; any other length stands for a trimmed copy."""


@rule("ML-LRU-PRESENT.replace", Role.STORE, mlx_lm(CACHE, "LRUPromptCache.insert_cache", "4d3af3ce"), since="#1019")
def present_replace() -> StoredKeyTreatment:
    """Replace the cache stored under a key that is present."""
    return StoredKeyTreatment(True)


@rule("ML-LRU-PRESENT.keep", Role.STORE, mlx_lm(SERVER, "LRUPromptCache.insert_cache", "2105aaf9"), since="#911")
def present_keep() -> StoredKeyTreatment:
    """Keep the cache (and its size) stored under a key that is present; the key moves to the end of the queue."""
    return StoredKeyTreatment(False)


@rule("ML-LRU-PRESENT.count", Role.STORE, mlx_lm(SERVER, "LRUPromptCache.insert_cache", "321e764e"))
def present_count() -> StoredKeyTreatment:
    """Keep the cache stored under a key that is present, and add an owner."""
    return StoredKeyTreatment(False, owners=1)


@rule("ML-LRU-PRESENT.replace_count", Role.STORE, mlx_lm("", "LRUPromptCache.insert_cache", "c30598cf", pull=923))
def present_replace_count() -> StoredKeyTreatment:
    """Replace the cache stored under a key that is present, and add an owner to those of the old cache."""
    return StoredKeyTreatment(True, owners=1)


@rule("ML-LRU-PRESENT.only", Role.STORE, mlx_lm(SERVER, "reset_prompt_cache", "0.28.3"), until="#625")
def present_only() -> StoredKeyTreatment:
    """Replace the only conversation, whatever its key."""
    return StoredKeyTreatment(True)


@rule("ML-LRU-PREFIX.none", Role.DROP, mlx_lm(SERVER, "LRUPromptCache.insert_cache", "321e764e"))
def prune_none(layers: Sequence[Any], key: int, prefixes: Sequence[int]) -> list[int]:
    """Keep all entries whose keys are prefixes of the new key."""
    return []


@rule("ML-LRU-PREFIX.all", Role.DROP, mlx_lm("", "PromptTrie.pop_prefixes", "2105aaf9"), since="#911, #1078")
def prune_all(layers: Sequence[Any], key: int, prefixes: Sequence[int]) -> list[int]:
    """Remove entries whose keys are proper prefixes of the new key if every layer of the new entry is trimmable."""
    return list(prefixes) if all(layer.is_trimmable() for layer in layers) else []


@rule("ML-LRU-PREFIX.but_last", Role.DROP,
      mlx_lm("", "PromptTrie.pop_prefixes", "4d3af3ce"), since="#1019", until="#1078")
def prune_but_last(layers: Sequence[Any], key: int, prefixes: Sequence[int]) -> list[int]:
    """Remove prefix entries as ``all`` does, except a prefix that is one token shorter than the new key."""
    return [i for i in prune_all(layers, key, prefixes) if i < key - 1]


@rule("ML-LRU-PREFIX.reach", Role.DROP, mlx_lm("", "LRUPromptCache.insert_cache", "38e83982", pull=999))
def prune_within_reach(layers: Sequence[Any], key: int, prefixes: Sequence[int]) -> list[int]:
    """Remove prefix entries to which every layer of the new entry can be trimmed: the smallest layer limits the
    distance."""
    if not all(layer.is_trimmable() for layer in layers):
        return []
    reach = min(layer.size() for layer in layers)
    return [i for i in prefixes if key - i <= reach]


@rule("ML-LRU-VICTIM.single", Role.DROP, mlx_lm(SERVER, "LRUPromptCache.insert_cache", "321e764e"))
def victim_single(queues: Sequence[int]) -> int:
    """Evict the oldest entry of the only queue."""
    return 0


@rule("ML-LRU-VICTIM.two", Role.DROP, mlx_lm(SERVER, "CacheOrder.pop", "2105aaf9"), since="#911")
def victim_of_two(queues: Sequence[int]) -> int:
    """Evict the oldest normal entry, unless there are fewer normal entries than checkpoints."""
    return 0 if queues[0] >= queues[1] else 1


@rule("ML-LRU-VICTIM.three_blind", Role.DROP, mlx_lm(CACHE, "CacheOrder.pop", "4d3af3ce"), since="#1019")
def victim_blind(queues: Sequence[int]) -> int:
    """Evict from the first queue that is not shorter than the next, even if it is empty (IndexError); else from the
    last."""
    pairs = pairwise(queues)
    return next((i for i, (a, b) in enumerate(pairs) if a >= b), len(queues) - 1)


@rule("ML-LRU-VICTIM.three", Role.DROP, mlx_lm(CACHE, "CacheOrder.pop", "3f9d179f"), since="#1072")
def victim_of_three(queues: Sequence[int]) -> int:
    """Evict from the first queue that has entries and is not shorter than the next; else from the last."""
    pairs = pairwise(queues)
    return next((i for i, (a, b) in enumerate(pairs) if a and a >= b), len(queues) - 1)


@rule("ML-LRU-COUNT.one", Role.DROP, mlx_lm(CACHE, "LRUPromptCache.insert_cache", "d78bf58e"))
def over_count_one(entries: int, max_size: int) -> int:
    """Return the number of entries to evict for the limit of entries: at most one, however far it is exceeded."""
    return int(entries > max_size)


@rule("ML-LRU-COUNT.all", Role.DROP, mlx_lm("", "LRUPromptCache.insert_cache", "c30598cf", pull=923))
def over_count_all(entries: int, max_size: int) -> int:
    """Return the number of entries to evict for the limit of entries: all above it."""
    return max(0, entries - max_size)


@rule("ML-LRU-BYTES.all", Role.DROP, mlx_lm(CACHE, "LRUPromptCache.insert_cache", "4d3af3ce"), since="#1019")
def over_bytes(size: int, max_bytes: int, entries: int) -> bool:
    """True if an entry must be evicted for the limit of bytes; even the last, newest entry is evicted."""
    return size > max_bytes


@rule("ML-LRU-BYTES.but_one", Role.DROP, mlx_lm(SERVER, "LRUPromptCache.insert_cache", "321e764e"))
def over_bytes_but_one(size: int, max_bytes: int, entries: int) -> bool:
    """True if an entry must be evicted for the limit of bytes; a single entry always stays."""
    return size > max_bytes and entries > 1


@rule("ML-LRU-COUNT.only", Role.DROP, mlx_lm(SERVER, "reset_prompt_cache", "0.28.3"), until="#625")
def over_count_only(entries: int, max_size: int) -> int:
    """Return the number of entries to evict: all but the newest, because there is a single conversation."""
    return entries - 1


@rule("ML-LRU-BYTES.unlimited", Role.DROP, mlx_lm(SERVER, "LRUPromptCache.insert_cache", "0.30.2"), until="#906")
def over_bytes_never(size: int, max_bytes: int, entries: int) -> bool:
    """Return False: this version does not count bytes."""
    return False


@rule("ML-LRU-MOVE.never", Role.DROP, mlx_lm(CACHE, "LRUPromptCache.insert_cache", "d78bf58e"))
def move_never(old_key: Tokens | None, key: Tokens) -> bool:
    """Return False: the entry that a request was fetched from is not moved."""
    return False


@rule("ML-LRU-MOVE.old", Role.DROP, mlx_lm("", "LRUPromptCache.insert_cache", "c30598cf", pull=923))
def move_old(old_key: Tokens | None, key: Tokens) -> bool:
    """True if insert deletes the entry that the request was fetched from: if its key differs. KeyError if
    another request deleted it first."""
    return old_key is not None and old_key != key


@rule("ML-LRU-MOVE.only", Role.DROP, mlx_lm(SERVER, "get_prompt_cache", "0.28.3"), until="#625")
def move_only(old_key: Tokens | None, key: Tokens) -> bool:
    """True if the only conversation gets another key: it is stored under all tokens that it now has."""
    return old_key is not None and old_key != key


@rule("ML-LRU-SNAP.none", Role.PLAN, mlx_lm(CACHE, "LRUPromptCache.insert_cache", "d78bf58e"))
def snap_none(key: int, boundaries: Sequence[int], interval: int) -> list[int]:
    """Store no copies under prefixes of a new key."""
    return []


@rule("ML-LRU-SNAP.interval", Role.PLAN, mlx_lm("", "LRUPromptCache._find_checkpoint_positions", "c30598cf", pull=923))
def snap_interval(key: int, boundaries: Sequence[int], interval: int) -> list[int]:
    """Store copies at the last message boundary near each multiple of the interval below the key's length."""
    chosen: list[int] = []
    for mark in range(interval, key, interval):
        last = chosen[-1] if chosen else 0
        near = [b for b in boundaries if last < b < key and b <= mark + interval // 2]
        chosen += [max(near)] if near else []
    return chosen


@rule("ML-LRU-SNAP.last", Role.PLAN, mlx_lm("", "LRUPromptCache._find_checkpoint_positions", "c1c0d8ef", pull=929))
def snap_last(key: int, boundaries: Sequence[int], interval: int) -> list[int]:
    """Store copies at the last message boundary within the key and, for keys longer than the interval, as ``interval``
    does."""
    inside = [b for b in boundaries if 0 < b < key]
    return sorted({*inside[-1:], *snap_interval(key, inside, interval)})


@rule("ML-LRU-SNAP.given", Role.PLAN, mlx_lm("", "LRUPromptCache.insert_cache", "ec281581", pull=923))
def snap_given(key: int, boundaries: Sequence[int], interval: int) -> list[int]:
    """Store an entry at every given boundary within the key."""
    return [b for b in boundaries if 0 < b < key]


@rule("ML-LRU-SNAPCOPY.copied", Role.STORE,
      mlx_lm("", "LRUPromptCache._create_checkpoint_snapshot", "c30598cf", pull=923))
def snap_copied(key: int, length: int, held: int) -> int | None:
    """Return by how many tokens the copy for a prefix is trimmed: the key's tokens after the prefix."""
    return key - length


@rule("ML-LRU-SNAPCOPY.shared", Role.STORE,
      mlx_lm("", "LRUPromptCache._insert_boundary_cache", "ec281581", pull=923))
def snap_shared(key: int, length: int, held: int) -> int | None:
    """Return None: the entry of a prefix is the very object of the whole key, with all its tokens."""
    return None


@rule("ML-LRU-SNAPTRIM.all_or_none", Role.PLAN,
      mlx_lm("", "LRUPromptCache._create_checkpoint_snapshot", "c30598cf", pull=923))
def snap_trim_together(trimmable: Sequence[bool]) -> list[bool]:
    """Return which layers of a copy are trimmed to its prefix: all if all are trimmable, else none."""
    return [all(trimmable)] * len(trimmable)


@rule("ML-LRU-SNAPTRIM.each", Role.PLAN, mlx_lm("", "LRUPromptCache._create_checkpoint_snapshot", "c1c0d8ef", pull=929))
def snap_trim_each(trimmable: Sequence[bool]) -> list[bool]:
    """Return which layers of a copy are trimmed to its prefix: each that is trimmable."""
    return list(trimmable)
