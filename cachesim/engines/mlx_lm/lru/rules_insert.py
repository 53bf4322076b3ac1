"""What becomes of what is stored when something new comes in?

Lengths are tokens. Layers are the caches of one entry. Queues are named by their place in the table's ``kinds``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, Sequence

from cachesim.engines.mlx_lm.source_files import CACHE, SERVER, mlx_lm
from cachesim.engines.rule import Role, rule
from cachesim.tokens import Tokens


class Present(NamedTuple):
    """What happens under a key that is there: is the new object taken, how many owners come on top."""

    take_new: bool
    owners: int = 0


@rule("ML-LRU-PRESENT.replace", Role.STORE, mlx_lm(CACHE, "LRUPromptCache.insert_cache", "4d3af3ce"), since="#1019")
def present_replace() -> Present:
    """The new object replaces the old one."""
    return Present(True)


@rule("ML-LRU-PRESENT.keep", Role.STORE, mlx_lm(SERVER, "LRUPromptCache.insert_cache", "2105aaf9"), since="#911")
def present_keep() -> Present:
    """The old object and its bytes stay; the key goes to the end of the queue."""
    return Present(False)


@rule("ML-LRU-PRESENT.count", Role.STORE, mlx_lm(SERVER, "LRUPromptCache.insert_cache", "321e764e"))
def present_count() -> Present:
    """The old object stays and has one owner more."""
    return Present(False, owners=1)


@rule("ML-LRU-PRESENT.replace_count", Role.STORE, mlx_lm("", "LRUPromptCache.insert_cache", "c30598cf", pull=923))
def present_replace_count() -> Present:
    """The new object replaces the old one and has its owners and one more."""
    return Present(True, owners=1)


@rule("ML-LRU-PREFIX.none", Role.DROP, mlx_lm(SERVER, "LRUPromptCache.insert_cache", "321e764e"))
def prune_none(layers: Sequence[Any], key: int, prefixes: Sequence[int]) -> list[int]:
    """Entries under prefixes of the new key stay."""
    return []


@rule("ML-LRU-PREFIX.all", Role.DROP, mlx_lm("", "PromptTrie.pop_prefixes", "2105aaf9"), since="#911, #1078")
def prune_all(layers: Sequence[Any], key: int, prefixes: Sequence[int]) -> list[int]:
    """Entries under proper prefixes go if the new one can go back to them."""
    return list(prefixes) if all(layer.is_trimmable() for layer in layers) else []


@rule("ML-LRU-PREFIX.but_last", Role.DROP,
      mlx_lm("", "PromptTrie.pop_prefixes", "4d3af3ce"), since="#1019", until="#1078")
def prune_but_last(layers: Sequence[Any], key: int, prefixes: Sequence[int]) -> list[int]:
    """The same, but the prefix that is one token shorter stays."""
    return [i for i in prune_all(layers, key, prefixes) if i < key - 1]


@rule("ML-LRU-PREFIX.reach", Role.DROP, mlx_lm("", "LRUPromptCache.insert_cache", "38e83982", pull=999))
def prune_within_reach(layers: Sequence[Any], key: int, prefixes: Sequence[int]) -> list[int]:
    """Those go to which the layer that holds least can go back."""
    if not all(layer.is_trimmable() for layer in layers):
        return []
    reach = min(layer.size() for layer in layers)
    return [i for i in prefixes if key - i <= reach]


@rule("ML-LRU-VICTIM.single", Role.DROP, mlx_lm(SERVER, "LRUPromptCache.insert_cache", "321e764e"))
def victim_single(queues: Sequence[int]) -> int:
    """The oldest of the one queue."""
    return 0


@rule("ML-LRU-VICTIM.two", Role.DROP, mlx_lm(SERVER, "CacheOrder.pop", "2105aaf9"), since="#911")
def victim_of_two(queues: Sequence[int]) -> int:
    """The oldest normal entry unless there are fewer of them than checkpoints."""
    return 0 if queues[0] >= queues[1] else 1


@rule("ML-LRU-VICTIM.three_blind", Role.DROP, mlx_lm(CACHE, "CacheOrder.pop", "4d3af3ce"), since="#1019")
def victim_blind(queues: Sequence[int]) -> int:
    """The first queue that is no shorter than the next, be it empty (then IndexError); else the last."""
    pairs = pairwise(queues)
    return next((i for i, (a, b) in enumerate(pairs) if a >= b), len(queues) - 1)


@rule("ML-LRU-VICTIM.three", Role.DROP, mlx_lm(CACHE, "CacheOrder.pop", "3f9d179f"), since="#1072")
def victim_of_three(queues: Sequence[int]) -> int:
    """The first queue that holds something and is no shorter than the next; else the last."""
    pairs = pairwise(queues)
    return next((i for i, (a, b) in enumerate(pairs) if a and a >= b), len(queues) - 1)


@rule("ML-LRU-COUNT.one", Role.DROP, mlx_lm(CACHE, "LRUPromptCache.insert_cache", "d78bf58e"))
def over_count_one(entries: int, max_size: int) -> int:
    """How many go for the limit of entries: one, however many are too many."""
    return int(entries > max_size)


@rule("ML-LRU-COUNT.all", Role.DROP, mlx_lm("", "LRUPromptCache.insert_cache", "c30598cf", pull=923))
def over_count_all(entries: int, max_size: int) -> int:
    """How many go for the limit of entries: all that are too many."""
    return max(0, entries - max_size)


@rule("ML-LRU-BYTES.all", Role.DROP, mlx_lm(CACHE, "LRUPromptCache.insert_cache", "4d3af3ce"), since="#1019")
def over_bytes(size: int, max_bytes: int, entries: int) -> bool:
    """Whether another entry has to go for the limit of bytes; the last and newest may be one."""
    return size > max_bytes


@rule("ML-LRU-BYTES.but_one", Role.DROP, mlx_lm(SERVER, "LRUPromptCache.insert_cache", "321e764e"))
def over_bytes_but_one(size: int, max_bytes: int, entries: int) -> bool:
    """Whether another entry has to go for the limit of bytes; one always stays."""
    return size > max_bytes and entries > 1


@rule("ML-LRU-MOVE.never", Role.DROP, mlx_lm(CACHE, "LRUPromptCache.insert_cache", "d78bf58e"))
def move_never(old_key: Tokens | None, key: Tokens) -> bool:
    """No entry is moved."""
    return False


@rule("ML-LRU-MOVE.old", Role.DROP, mlx_lm("", "LRUPromptCache.insert_cache", "c30598cf", pull=923))
def move_old(old_key: Tokens | None, key: Tokens) -> bool:
    """The entry from which the request came is deleted; KeyError if another request was faster."""
    return old_key is not None and old_key != key


@rule("ML-LRU-SNAP.none", Role.PLAN, mlx_lm(CACHE, "LRUPromptCache.insert_cache", "d78bf58e"))
def snap_none(key: int, boundaries: Sequence[int], interval: int) -> list[int]:
    """No copies under prefixes are made."""
    return []


@rule("ML-LRU-SNAP.interval", Role.PLAN, mlx_lm("", "LRUPromptCache._find_checkpoint_positions", "c30598cf", pull=923))
def snap_interval(key: int, boundaries: Sequence[int], interval: int) -> list[int]:
    """The last message boundary near each multiple of the interval below the key's length."""
    chosen: list[int] = []
    for mark in range(interval, key, interval):
        last = chosen[-1] if chosen else 0
        near = [b for b in boundaries if last < b < key and b <= mark + interval // 2]
        chosen += [max(near)] if near else []
    return chosen


@rule("ML-LRU-SNAP.last", Role.PLAN, mlx_lm("", "LRUPromptCache._find_checkpoint_positions", "c1c0d8ef", pull=929))
def snap_last(key: int, boundaries: Sequence[int], interval: int) -> list[int]:
    """The last boundary inside the key, and for keys longer than the interval those near its multiples."""
    inside = [b for b in boundaries if 0 < b < key]
    return sorted({*inside[-1:], *snap_interval(key, inside, interval)})


@rule("ML-LRU-SNAPTRIM.all_or_none", Role.PLAN,
      mlx_lm("", "LRUPromptCache._create_checkpoint_snapshot", "c30598cf", pull=923))
def snap_trim_together(trimmable: Sequence[bool]) -> list[bool]:
    """Which layers of a copy are cut to its prefix: all if all can be, else none."""
    return [all(trimmable)] * len(trimmable)


@rule("ML-LRU-SNAPTRIM.each", Role.PLAN, mlx_lm("", "LRUPromptCache._create_checkpoint_snapshot", "c1c0d8ef", pull=929))
def snap_trim_each(trimmable: Sequence[bool]) -> list[bool]:
    """Which layers of a copy are cut to its prefix: each that can be."""
    return list(trimmable)
