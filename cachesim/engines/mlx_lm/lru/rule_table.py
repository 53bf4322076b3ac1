"""Rules of the prompt cache by version, newest first. Each table is derived from its neighbour."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Callable, Sequence

from cachesim.engines.base import Immutable
from cachesim.engines.mlx_lm.lru import rules_fetch as fetch
from cachesim.engines.mlx_lm.lru import rules_insert as insert
from cachesim.engines.mlx_lm.lru import rules_repaired as repaired

if TYPE_CHECKING:
    from cachesim.base.tokens import Tokens
    from cachesim.engines.mlx_lm.lru.prompt_trie import SearchResult



@dataclass(frozen=True)
class LruRules(Immutable):
    """Rules of a version, in the order in which a request meets them. The defaults are those of commit d78bf58e."""

    asked: Callable[[int], int] = fetch.query_whole
    exact: Callable[[SearchResult, int], bool] = fetch.exact_stored
    shorter: Callable[[SearchResult], int] = fetch.shorter_beyond_one
    longer: Callable[[SearchResult, int], bool] = fetch.longer_if_more
    keep: Callable[[int, int], int] = fetch.keep_all_but_one
    usable: Callable[[Sequence[Any]], bool] = fetch.usable_if_trimmable
    untrimmable: Callable[[int], int] = fetch.untrimmable_refused
    trim_in: Callable[[], bool] = fetch.trim_a_copy
    trimmed: Callable[[int, int], bool] = fetch.trimmed_unchecked
    hand_out: Callable[[str, int, bool], fetch.HandOut] = fetch.hand_copy
    move: Callable[[Tokens | None, Tokens], bool] = insert.move_never
    present: Callable[[], insert.StoredKeyTreatment] = insert.present_replace
    prune: Callable[[Sequence[Any], int, Sequence[int]], list[int]] = insert.prune_all
    snapshots: Callable[[int, Sequence[int], int], list[int]] = insert.snap_none
    snapshot_copy: Callable[[int, int, int], int | None] = insert.snap_copied
    snapshot_trim: Callable[[Sequence[bool]], list[bool]] = insert.snap_trim_together
    over_count: Callable[[int, int], int] = insert.over_count_one
    over_bytes: Callable[[int, int, int], bool] = insert.over_bytes
    victim: Callable[[Sequence[int]], int] = insert.victim_of_three
    kinds: tuple[str, ...] = ("assistant", "user", "system")    # queues; the first is the default


LRU_HEAD = LruRules()
"""Also 0.32.2 and v0.31.3."""

LRU_M1072 = LRU_HEAD

LRU_M1019 = replace(LRU_HEAD, exact=fetch.exact_walked, prune=insert.prune_but_last, victim=insert.victim_blind)

LRU_BASE1006 = replace(
    LRU_M1019,
    present=insert.present_keep,
    prune=insert.prune_all,
    over_bytes=insert.over_bytes_but_one,
    victim=insert.victim_of_two,
    kinds=("normal", "checkpoint"),
)

LRU_V911 = LRU_BASE1006

LRU_PR999 = replace(LRU_BASE1006, trimmed=fetch.trimmed_enough, prune=insert.prune_within_reach)

LRU_BASE923 = replace(
    LRU_BASE1006,
    longer=fetch.longer_without_shorter,
    hand_out=fetch.hand_consume,
    present=insert.present_count,
    prune=insert.prune_none,
    victim=insert.victim_single,
    kinds=("normal",),
)

LRU_PR923 = replace(
    LRU_BASE923,
    hand_out=fetch.hand_move,
    move=insert.move_old,
    present=insert.present_replace_count,
    snapshots=insert.snap_interval,
    over_count=insert.over_count_all,
)

LRU_PR923_REPAIRED = replace(LRU_PR923, snapshots=repaired.snap_evaluated)

LRU_PR923_SHARED = replace(
    LRU_BASE923, hand_out=fetch.hand_keep_prefix, snapshots=insert.snap_given, snapshot_copy=insert.snap_shared
)
LRU_PR923_OWN = replace(LRU_PR923_SHARED, snapshot_copy=repaired.snap_own)

LRU_PR1186 = replace(LRU_HEAD, untrimmable=fetch.untrimmable_continued)

LRU_0_30_2 = replace(LRU_BASE923, over_bytes=insert.over_bytes_never)

LRU_0_28_3 = replace(
    LRU_0_30_2,
    asked=fetch.query_but_last,
    exact=fetch.exact_stored,
    shorter=fetch.shorter_any,
    keep=fetch.keep_common,
    trim_in=fetch.trim_in_place,
    hand_out=fetch.hand_own,
    move=insert.move_only,
    present=insert.present_only,
    over_count=insert.over_count_only,
)
"""A single conversation, in the terms of the later cache: an entry under the tokens that it holds."""

LRU_0_24_1 = replace(LRU_0_28_3, asked=fetch.query_prompt)

LRU_PR929 = replace(LRU_PR923, snapshots=insert.snap_last, snapshot_trim=insert.snap_trim_each)
