"""Rules for the lookup in the prompt cache: choice of the entry, number of reused tokens, fate of the entry.

Lengths and counts are tokens. ``found`` is the SearchResult of a walk.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Sequence

from cachesim.engines.mlx_lm.lru.prompt_trie import SearchResult
from cachesim.engines.mlx_lm.source_files import CACHE, SERVER, mlx_lm
from cachesim.engines.rule import Role, rule


class HandOut(NamedTuple):
    """How an entry is given to a request.

    "copy": a deep copy; "give": the object itself, and the entry is removed; "lend": the object itself, and the entry
    stays. ``count_down``: the entry loses an owner. ``old_key``: the request gets the entry's key, so that its insert
    can move the entry.
    """

    how: Literal["copy", "give", "lend"]
    count_down: bool = False
    old_key: bool = False


@rule("ML-LRU-QUERY.whole", Role.LOAD, mlx_lm(SERVER, "LRUPromptCache.fetch_nearest_cache", "321e764e to 0.32.2"))
def query_whole(query: int) -> int:
    """Return how many tokens of a prompt are looked up: all."""
    return query


@rule("ML-LRU-QUERY.prompt", Role.LOAD, mlx_lm(SERVER, "get_prompt_cache", "0.24.1"), until="#183")
def query_prompt(query: int) -> int:
    """Return how many tokens of a prompt are compared with the only conversation: all, so that a repeated prompt
    leaves nothing to evaluate."""
    return query


@rule("ML-LRU-QUERY.but_last", Role.LOAD, mlx_lm(SERVER, "get_prompt_cache", "064c75d7"), since="#183", until="#625")
def query_but_last(query: int) -> int:
    """Return how many tokens of a prompt are compared with the only conversation: all but the last, which is always
    evaluated."""
    return query - 1


@rule("ML-LRU-EXACT.stored", Role.LOAD, mlx_lm(CACHE, "PromptTrie.search", "d78bf58e"))
def exact_stored(found: SearchResult, query: int) -> bool:
    """True if the query itself is a key."""
    return found.exact


@rule("ML-LRU-EXACT.walked", Role.LOAD, mlx_lm(SERVER, "LRUPromptCache._search", "321e764e"), until="#1078 (4d3af3ce)")
def exact_walked(found: SearchResult, query: int) -> bool:
    """True if the longest key on the path is as long as the query. This is also True for an empty query, which
    finds nothing."""
    return found.known and found.at == query


@rule("ML-LRU-SHORTER", Role.LOAD, mlx_lm(CACHE, "PromptTrie.search", "d78bf58e"))
def shorter_beyond_one(found: SearchResult) -> int:
    """Return the length of the longest key that is a prefix of the query, or 0 without such a key. A key of length 1
    never counts."""
    return found.at if found.at > 1 else 0


@rule("ML-LRU-SHORTER.any", Role.LOAD, mlx_lm(SERVER, "get_prompt_cache", "0.28.3"), until="#625")
def shorter_any(found: SearchResult) -> int:
    """Return the length of the only conversation if it is a prefix of the query, else 0."""
    return found.at


@rule("ML-LRU-LONGER.more", Role.LOAD, mlx_lm("", "LRUPromptCache.fetch_nearest_cache", "2105aaf9"), since="#911")
def longer_if_more(found: SearchResult, shorter: int) -> bool:
    """True if a longer key is tried: a key that shares more with the query than the shorter key has."""
    return found.longer is not None and found.common > shorter


@rule("ML-LRU-LONGER.last", Role.LOAD, mlx_lm(SERVER, "LRUPromptCache._search", "321e764e"))
def longer_without_shorter(found: SearchResult, shorter: int) -> bool:
    """True if a longer key is tried: only if no key is a prefix of the query."""
    return found.longer is not None and shorter == 0


@rule("ML-LRU-KEEP", Role.LOAD, mlx_lm(CACHE, "LRUPromptCache.fetch_nearest_cache", "d78bf58e"))
def keep_all_but_one(common: int, query: int) -> int:
    """Return the length to which a longer entry is trimmed: the common prefix, but at least one token of the query
    stays unevaluated."""
    return min(query - 1, common)


@rule("ML-LRU-KEEP.common", Role.LOAD, mlx_lm(SERVER, "get_prompt_cache", "0.28.3"), until="#625")
def keep_common(common: int, query: int) -> int:
    """Return the length to which the only conversation is trimmed: the common prefix."""
    return common


@rule("ML-LRU-TRIM-IN.copy", Role.LOAD, mlx_lm(SERVER, "LRUPromptCache.fetch_nearest_cache", "321e764e to 0.32.2"))
def trim_a_copy() -> bool:
    """Return False: a longer entry is copied, and the copy is trimmed."""
    return False


@rule("ML-LRU-TRIM-IN.place", Role.LOAD, mlx_lm(SERVER, "get_prompt_cache", "0.28.3"), until="#625")
def trim_in_place() -> bool:
    """Return True: the only conversation itself is trimmed; what is cut off is lost."""
    return True


@rule("ML-LRU-UNTRIMMABLE.refused", Role.LOAD, mlx_lm(CACHE, "LRUPromptCache.fetch_nearest_cache", "d78bf58e"))
def untrimmable_refused(common: int) -> int:
    """Return how many tokens count as reused from a longer entry that cannot be trimmed: 0, it is not used."""
    return 0


@rule("ML-LRU-UNTRIMMABLE.continued", Role.LOAD,
      mlx_lm("", "LRUPromptCache.fetch_nearest_cache", "c83dedf3", pull=1186))
def untrimmable_continued(common: int) -> int:
    """Return how many tokens count as reused from a longer entry that cannot be trimmed: the common prefix, although
    the copy still holds every token of the longer key."""
    return common


@rule("ML-LRU-USABLE", Role.LOAD, mlx_lm(CACHE, "can_trim_prompt_cache", "d78bf58e"))
def usable_if_trimmable(layers: Sequence[Any]) -> bool:
    """True if a longer entry can be used: if every layer is trimmable now."""
    return all(layer.is_trimmable() for layer in layers)


@rule("ML-LRU-TRIMMED.any", Role.LOAD, mlx_lm(CACHE, "LRUPromptCache.fetch_nearest_cache", "d78bf58e"))
def trimmed_unchecked(trimmed: int, wanted: int) -> bool:
    """Return True: the number of tokens that the first layer trimmed is not checked."""
    return True


@rule("ML-LRU-TRIMMED.enough", Role.LOAD, mlx_lm("", "LRUPromptCache.fetch_nearest_cache", "38e83982", pull=999))
def trimmed_enough(trimmed: int, wanted: int) -> bool:
    """True if the first layer trimmed as much as requested; else the longer entry is not used."""
    return trimmed >= wanted


@rule("ML-LRU-HAND.copy", Role.HAND, mlx_lm("", "LRUPromptCache.fetch_nearest_cache", "2105aaf9"), since="#911")
def hand_copy(how: str, count: int, snapshot: bool) -> HandOut:
    """Hand out a deep copy; the entry stays in the prompt cache."""
    return HandOut("copy")


@rule("ML-LRU-HAND.consume", Role.HAND, mlx_lm(SERVER, "LRUPromptCache._extract", "321e764e"))
def hand_consume(how: str, count: int, snapshot: bool) -> HandOut:
    """Remove the entry from the prompt cache for its last owner; other owners get a copy."""
    return HandOut("give") if count == 1 else HandOut("copy", count_down=True)


@rule("ML-LRU-HAND.move", Role.HAND, mlx_lm("", "LRUPromptCache._extract", "c30598cf", pull=923))
def hand_move(how: str, count: int, snapshot: bool) -> HandOut:
    """Hand out the entry itself. A plain prefix stays until it is moved; every other entry is removed with its last
    owner."""
    told = how == "exact" or not snapshot
    if count > 1:
        return HandOut("lend", count_down=True, old_key=told)
    if how == "shorter" and not snapshot:
        return HandOut("lend", old_key=True)
    return HandOut("give", old_key=told)


@rule("ML-LRU-HAND.own", Role.HAND, mlx_lm(SERVER, "get_prompt_cache", "0.28.3"), until="#625")
def hand_own(how: str, count: int, snapshot: bool) -> HandOut:
    """Hand out the only conversation itself; it stays, and gets its new key when the request ends."""
    return HandOut("lend", old_key=True)


@rule("ML-LRU-HAND.keep_prefix", Role.HAND, mlx_lm("", "LRUPromptCache._extract", "ec281581", pull=923))
def hand_keep_prefix(how: str, count: int, snapshot: bool) -> HandOut:
    """Copy an entry that is a prefix of the query; an exact entry is removed with its last owner."""
    if how == "exact":
        return HandOut("give") if count == 1 else HandOut("copy", count_down=True)
    return HandOut("copy", count_down=count > 1)
