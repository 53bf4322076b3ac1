"""What becomes of what is stored when something new comes in?

Lengths are tokens. Layers are the caches of one entry. Queues are named by their place in the table's ``kinds``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, Sequence

from cachesim.engines.base import rule
from cachesim.tokens import Tokens


class Present(NamedTuple):
    """What happens under a key that is there: is the new object taken, how many owners come on top."""

    take_new: bool
    owners: int = 0


@rule("ML-LRU-PRESENT.replace")
def present_replace() -> Present:
    """The new object replaces the old one.
    Source: mlx-lm #1019 (4d3af3ce), mlx_lm/models/cache.py, LRUPromptCache.insert_cache; spec 2."""
    return Present(True)


@rule("ML-LRU-PRESENT.keep")
def present_keep() -> Present:
    """The old object and its bytes stay; the key goes to the end of the queue.
    Source: mlx-lm 2105aaf9 (#911), mlx_lm/server.py, LRUPromptCache.insert_cache; spec 4.4."""
    return Present(False)


@rule("ML-LRU-PRESENT.count")
def present_count() -> Present:
    """The old object stays and has one owner more.
    Source: mlx-lm 321e764e, mlx_lm/server.py, LRUPromptCache.insert_cache; spec 4.2."""
    return Present(False, owners=1)


@rule("ML-LRU-PRESENT.replace_count")
def present_replace_count() -> Present:
    """The new object replaces the old one and has its owners and one more.
    Source: ml-explore/mlx-lm#923 (c30598cf), LRUPromptCache.insert_cache; spec 4.3."""
    return Present(True, owners=1)


@rule("ML-LRU-PREFIX.none")
def prune_none(layers: Sequence[Any], key: int, prefixes: Sequence[int]) -> list[int]:
    """Entries under prefixes of the new key stay.
    Source: mlx-lm 321e764e, mlx_lm/server.py, LRUPromptCache.insert_cache; spec 4.2."""
    return []


@rule("ML-LRU-PREFIX.all")
def prune_all(layers: Sequence[Any], key: int, prefixes: Sequence[int]) -> list[int]:
    """Entries under proper prefixes go if the new one can go back to them.
    Source: mlx-lm 2105aaf9 (#911); #1078, PromptTrie.pop_prefixes; spec 2, 4.4."""
    return list(prefixes) if all(layer.is_trimmable() for layer in layers) else []


@rule("ML-LRU-PREFIX.but_last")
def prune_but_last(layers: Sequence[Any], key: int, prefixes: Sequence[int]) -> list[int]:
    """The same, but the prefix that is one token shorter stays.
    Source: mlx-lm 4d3af3ce (#1019, before #1078), PromptTrie.pop_prefixes; spec 4.7."""
    return [i for i in prune_all(layers, key, prefixes) if i < key - 1]


@rule("ML-LRU-PREFIX.reach")
def prune_within_reach(layers: Sequence[Any], key: int, prefixes: Sequence[int]) -> list[int]:
    """Those go to which the layer that holds least can go back.
    Source: ml-explore/mlx-lm#999 (38e83982), LRUPromptCache.insert_cache; spec 4.5."""
    if not all(layer.is_trimmable() for layer in layers):
        return []
    reach = min(layer.size() for layer in layers)
    return [i for i in prefixes if key - i <= reach]


@rule("ML-LRU-VICTIM.single")
def victim_single(queues: Sequence[int]) -> int:
    """The oldest of the one queue.
    Source: mlx-lm 321e764e, mlx_lm/server.py, LRUPromptCache.insert_cache; spec 4.2."""
    return 0


@rule("ML-LRU-VICTIM.two")
def victim_of_two(queues: Sequence[int]) -> int:
    """The oldest normal entry unless there are fewer of them than checkpoints.
    Source: mlx-lm 2105aaf9 (#911), mlx_lm/server.py, CacheOrder.pop; spec 4.4."""
    return 0 if queues[0] >= queues[1] else 1


@rule("ML-LRU-VICTIM.three_blind")
def victim_blind(queues: Sequence[int]) -> int:
    """The first queue that is no shorter than the next, be it empty (then IndexError); else the last.
    Source: mlx-lm 4d3af3ce (#1019), mlx_lm/models/cache.py, CacheOrder.pop; spec 4.7."""
    pairs = pairwise(queues)
    return next((i for i, (a, b) in enumerate(pairs) if a >= b), len(queues) - 1)


@rule("ML-LRU-VICTIM.three")
def victim_of_three(queues: Sequence[int]) -> int:
    """The first queue that holds something and is no shorter than the next; else the last.
    Source: mlx-lm #1072 (3f9d179f), mlx_lm/models/cache.py, CacheOrder.pop; spec 2."""
    pairs = pairwise(queues)
    return next((i for i, (a, b) in enumerate(pairs) if a and a >= b), len(queues) - 1)


@rule("ML-LRU-COUNT.one")
def over_count_one(entries: int, max_size: int) -> int:
    """How many go for the limit of entries: one, however many are too many.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, LRUPromptCache.insert_cache; spec 2."""
    return int(entries > max_size)


@rule("ML-LRU-COUNT.all")
def over_count_all(entries: int, max_size: int) -> int:
    """How many go for the limit of entries: all that are too many.
    Source: ml-explore/mlx-lm#923 (c30598cf), LRUPromptCache.insert_cache; spec 4.3."""
    return max(0, entries - max_size)


@rule("ML-LRU-BYTES.all")
def over_bytes(size: int, max_bytes: int, entries: int) -> bool:
    """Whether another entry has to go for the limit of bytes; the last and newest may be one.
    Source: mlx-lm #1019 (4d3af3ce), mlx_lm/models/cache.py, LRUPromptCache.insert_cache; spec 2."""
    return size > max_bytes


@rule("ML-LRU-BYTES.but_one")
def over_bytes_but_one(size: int, max_bytes: int, entries: int) -> bool:
    """Whether another entry has to go for the limit of bytes; one always stays.
    Source: mlx-lm 321e764e, mlx_lm/server.py, LRUPromptCache.insert_cache; spec 4.2, 4.4."""
    return size > max_bytes and entries > 1


@rule("ML-LRU-MOVE.never")
def move_never(old_key: Tokens | None, key: Tokens) -> bool:
    """No entry is moved.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, LRUPromptCache.insert_cache."""
    return False


@rule("ML-LRU-MOVE.old")
def move_old(old_key: Tokens | None, key: Tokens) -> bool:
    """The entry from which the request came is deleted; KeyError if another request was faster.
    Source: ml-explore/mlx-lm#923 (c30598cf), LRUPromptCache.insert_cache; spec 4.3, 5.4."""
    return old_key is not None and old_key != key


@rule("ML-LRU-SNAP.none")
def snap_none(key: int, boundaries: Sequence[int], interval: int) -> list[int]:
    """No copies under prefixes are made.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, LRUPromptCache.insert_cache."""
    return []


@rule("ML-LRU-SNAP.interval")
def snap_interval(key: int, boundaries: Sequence[int], interval: int) -> list[int]:
    """The last message boundary near each multiple of the interval below the key's length.
    Source: ml-explore/mlx-lm#923 (c30598cf), LRUPromptCache._find_checkpoint_positions; spec 4.3."""
    chosen: list[int] = []
    for mark in range(interval, key, interval):
        last = chosen[-1] if chosen else 0
        near = [b for b in boundaries if last < b < key and b <= mark + interval // 2]
        chosen += [max(near)] if near else []
    return chosen


@rule("ML-LRU-SNAP.last")
def snap_last(key: int, boundaries: Sequence[int], interval: int) -> list[int]:
    """The last boundary inside the key, and for keys longer than the interval those near its multiples.
    Source: ml-explore/mlx-lm#929 (c1c0d8ef), LRUPromptCache._find_checkpoint_positions; spec 4.3."""
    inside = [b for b in boundaries if 0 < b < key]
    return sorted({*inside[-1:], *snap_interval(key, inside, interval)})


@rule("ML-LRU-SNAPTRIM.all_or_none")
def snap_trim_together(trimmable: Sequence[bool]) -> list[bool]:
    """Which layers of a copy are cut to its prefix: all if all can be, else none.
    Source: ml-explore/mlx-lm#923 (c30598cf), LRUPromptCache._create_checkpoint_snapshot; spec 4.3, 5.3."""
    return [all(trimmable)] * len(trimmable)


@rule("ML-LRU-SNAPTRIM.each")
def snap_trim_each(trimmable: Sequence[bool]) -> list[bool]:
    """Which layers of a copy are cut to its prefix: each that can be.
    Source: ml-explore/mlx-lm#929 (c1c0d8ef), LRUPromptCache._create_checkpoint_snapshot; spec 4.3."""
    return list(trimmable)
