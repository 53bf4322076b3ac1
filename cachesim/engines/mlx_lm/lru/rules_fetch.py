"""Which stored entry does a query get, how much of it is kept, and does the entry stay?

Lengths and counts are tokens. A found walk is trie.SearchResult.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Sequence

from cachesim.engines.base import rule
from cachesim.engines.mlx_lm.lru.trie import SearchResult


class HandOut(NamedTuple):
    """How an entry is given to a request.

    "copy": a deep copy; "give": the object itself, the entry is gone; "lend": the object itself, the entry stays.
    ``count_down``: one owner less. ``old_key``: the request is told the entry's key, to have it moved on its return.
    """

    how: Literal["copy", "give", "lend"]
    count_down: bool = False
    old_key: bool = False


@rule("ML-LRU-EXACT.stored")
def exact_stored(found: SearchResult, query: int) -> bool:
    """The query itself is a key.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, PromptTrie.search; spec 2."""
    return found.exact


@rule("ML-LRU-EXACT.walked")
def exact_walked(found: SearchResult, query: int) -> bool:
    """The longest key on the way is as long as the query; an empty query always seems to be one, and finds nothing.
    Source: mlx-lm 321e764e, mlx_lm/server.py, LRUPromptCache._search; before #1078 (4d3af3ce); spec 4.2."""
    return found.known and found.at == query


@rule("ML-LRU-SHORTER")
def shorter_beyond_one(found: SearchResult) -> int:
    """Length of the longest key that is a prefix of the query, 0 = none. A key of one token never counts.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, PromptTrie.search; spec 2, 7.6."""
    return found.at if found.at > 1 else 0


@rule("ML-LRU-LONGER.more")
def longer_if_more(found: SearchResult, shorter: int) -> bool:
    """A key that shares more than the shorter one gives is tried first.
    Source: mlx-lm 2105aaf9 (#911), LRUPromptCache.fetch_nearest_cache; spec 2, 4.4."""
    return found.longer is not None and found.common > shorter


@rule("ML-LRU-LONGER.last")
def longer_without_shorter(found: SearchResult, shorter: int) -> bool:
    """A key that shares only its beginning is tried if no key is a prefix of the query.
    Source: mlx-lm 321e764e, mlx_lm/server.py, LRUPromptCache._search; spec 4.2."""
    return found.longer is not None and shorter == 0


@rule("ML-LRU-KEEP")
def keep_all_but_one(common: int, query: int) -> int:
    """Tokens of a longer entry that stay: the common ones, but one token of the query is left to process.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, LRUPromptCache.fetch_nearest_cache; spec 2."""
    return min(query - 1, common)


@rule("ML-LRU-USABLE")
def usable_if_trimmable(layers: Sequence[Any]) -> bool:
    """A longer entry can be used if every layer can go back now.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, can_trim_prompt_cache; spec 1.0, 2."""
    return all(layer.is_trimmable() for layer in layers)


@rule("ML-LRU-TRIMMED.any")
def trimmed_unchecked(trimmed: int, wanted: int) -> bool:
    """However much the first layer says it trimmed.
    Source: mlx-lm d78bf58e, mlx_lm/models/cache.py, LRUPromptCache.fetch_nearest_cache; spec 2, 7.8."""
    return True


@rule("ML-LRU-TRIMMED.enough")
def trimmed_enough(trimmed: int, wanted: int) -> bool:
    """Only if the first layer trimmed as much as was wanted.
    Source: ml-explore/mlx-lm#999 (38e83982), LRUPromptCache.fetch_nearest_cache; spec 4.5."""
    return trimmed >= wanted


@rule("ML-LRU-HAND.copy")
def hand_copy(how: str, count: int, snapshot: bool) -> HandOut:
    """A hit copies; the entry stays for others.
    Source: mlx-lm 2105aaf9 (#911), LRUPromptCache.fetch_nearest_cache; spec 2, 4.4."""
    return HandOut("copy")


@rule("ML-LRU-HAND.consume")
def hand_consume(how: str, count: int, snapshot: bool) -> HandOut:
    """The last owner takes the entry out of the cache; others get a copy.
    Source: mlx-lm 321e764e, mlx_lm/server.py, LRUPromptCache._extract; spec 4.2, 5.12."""
    return HandOut("give") if count == 1 else HandOut("copy", count_down=True)


@rule("ML-LRU-HAND.move")
def hand_move(how: str, count: int, snapshot: bool) -> HandOut:
    """The object itself is handed on: a plain prefix stays until it is moved, all else leaves with its last owner.
    Source: ml-explore/mlx-lm#923 (c30598cf), LRUPromptCache._extract; spec 4.3."""
    told = how == "exact" or not snapshot
    if count > 1:
        return HandOut("lend", count_down=True, old_key=told)
    if how == "shorter" and not snapshot:
        return HandOut("lend", old_key=True)
    return HandOut("give", old_key=told)
