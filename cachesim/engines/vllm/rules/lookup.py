"""Rules of the lookup: which prefix of a prompt the groups of layers have in common.

The last block found may be dropped: its rows of the drafter depend on a token that the hash does not cover.
"""

from __future__ import annotations

from itertools import takewhile
from math import lcm
from typing import Callable, Mapping, NamedTuple, Sequence

from cachesim.engines.rule import Role, rule
from cachesim.engines.shared.rule_set import instead_of
from cachesim.engines.vllm.rules.sources import coordinator, groups, manager, scheduler

NOT_FINE = "SlidingWindowManager does not support fine-grained (partial) cache hits"        # as the server logs it


class GroupQuery(NamedTuple):
    """Lookup of a prompt in equal groups of layers."""

    block_hashes: Sequence[int]   # hashes of the prompt, one for each ``hash_block_size`` tokens
    hash_block_size: int          # tokens of a hash
    block_size: int               # tokens of a block
    max_length: int               # most tokens to find
    alignment_tokens: int         # a hit is a multiple of so many tokens
    drop_eagle_block: bool        # the last block found is not used
    window: int                   # window or chunk [tokens]
    num_groups: int
    get_cached_block: Callable[[int], list[int] | None]     # returns each group's block of a hash, None = one has none

    @property
    def fine(self) -> bool:
        """True if a hit may end inside a block."""
        return self.alignment_tokens < self.block_size and self.block_size % self.alignment_tokens == 0

    def at(self, block: int) -> list[int] | None:
        """Return the blocks at this place. Raise IndexError if no hash is known there."""
        return self.get_cached_block(self.block_hashes[(block + 1) * (self.block_size // self.hash_block_size) - 1])

    def run(self, first: int, last: int) -> list[list[int]]:
        """Return the blocks at places first .. last - 1, up to the first place without blocks."""
        return [*takewhile(bool, map(self.at, range(first, last)))]  # type: ignore[list-item]

    def found(self, n: int, places: Sequence[Sequence[int]]) -> GroupMatch:
        """Return n tokens with the blocks at each place."""
        return GroupMatch(n, [[blocks[group] for blocks in places] for group in range(self.num_groups)])


class GroupMatch(NamedTuple):
    """Tokens, and the blocks of each group that hold them."""

    n: int
    tables: list[list[int]]


class SpecGroup(NamedTuple):
    """Groups of equal kind, size and block, which are looked up together."""

    group_ids: list[int]
    is_full_attention: bool   # the groups keep all rows
    is_mamba: bool            # the groups keep states
    block_size: int           # tokens of a block
    window: int               # window or chunk [tokens]
    use_eagle: bool           # a lookup drops a block


GroupLookup = Callable[[SpecGroup, int, bool], GroupMatch]
"""Looks equal groups up, for at most so many tokens, with or without the drop."""


class PromptQuery(NamedTuple):
    """A prompt that is looked up."""

    max_cache_hit_length: int               # most tokens to find
    max_peek_length: int                    # last token that a group with the drop may look at
    partial_hit_unit: int                   # tokens of a hash if a hit may end inside a block, else 0
    attention_groups: Sequence[SpecGroup]   # kinds of groups, full attention first


class CacheHit(NamedTuple):
    """Result of a lookup: tokens, blocks of each group, the most that one group has, and what each kind has."""

    n: int
    tables: Mapping[int, list[int]]
    longest: int = 0
    lengths: Mapping[int, int] = {}

    @property
    def junction(self) -> int:
        """Tokens that one group alone has, 0 = no more than the hit."""
        return self.longest if self.longest > self.n else 0


@rule("VL-LOOKUP-MOST", Role.PREFIX, manager("get_computed_blocks", spec="V-LOOK-2"))
def most_tokens(n: int) -> int:
    """Return the most tokens that a lookup may find: at least one token of a request is evaluated, whatever is
    cached."""
    return n - 1


@rule("VL-LOOKUP-COUNT", Role.TOLD, scheduler("schedule prefill_stats"))
def count_once() -> bool:
    """True if the reply counts the cached tokens of the last start before the first token: it counts those of the first
    one, also if the request was preempted."""
    return False


@rule("VL-LOOKUP-COUNT.AGAIN", Role.TOLD, scheduler("schedule prefill_stats", "0.25.1"), until="#48535")
def count_again() -> bool:
    """True if the reply counts the cached tokens of the last start before the first token: a preempted request is
    counted again."""
    return True


@rule("VL-LOOKUP-JUNCTION", Role.PREFIX, manager("get_computed_blocks shared_prefix_boundary"))
def no_junction(last: int) -> int:
    """Return the tokens that another prompt shares with a request that reads no prefix: 0, none is known. ``last``:
    those that a single group had for the request before it."""
    return 0


@rule("VL-LOOKUP-JUNCTION.LAST", Role.PREFIX,
      coordinator("HybridKVCacheCoordinator.num_uncached_common_prefix_tokens", "0.25.1"), until="#47782")
def last_junction(last: int) -> int:
    """Return the tokens that another prompt shares with a request that reads no prefix: those of the request that was
    looked up before it, whatever they have in common."""
    return last


@rule("VL-LOOKUP-RECONCILE", Role.LOAD, coordinator("HybridKVCacheCoordinator.find_longest_cache_hit", spec="V-LOOK-3"))
def reconcile_all(ask: PromptQuery, look: GroupLookup) -> CacheHit:
    """Return the prefix that all groups have; the groups shorten it in turn. A group with the drop also checks the
    block after it. Two kinds, one of them full attention, need a single round."""
    found = reconcile_untruncated(ask, look)
    full = [kind for kind in ask.attention_groups if kind.is_full_attention]
    return found._replace(tables=_truncated(found.tables, full, found.n))


def _known(now: int, found: int, block: int) -> int:
    """Return the tokens of a prefix that full attention has: no more than its lookup found."""
    return min(now, found)


def _whole_blocks(now: int, found: int, block: int) -> int:
    """Return the tokens of a prefix in whole blocks of full attention, whatever its lookup found."""
    return now // block * block


def reconcile_untruncated(ask: PromptQuery, look: GroupLookup,
                          again: Callable[[int, int, int], int] = _known) -> CacheHit:
    """Return the prefix that all groups have, with all blocks that the groups found. ``again``: tokens that full
    attention leaves of a prefix after its only lookup."""
    kinds = ask.attention_groups
    hit = ask.max_cache_hit_length
    longest = 0
    tables = dict[int, list[int]]()
    lengths = dict[int, int]()
    verified = set[int]()
    while True:
        now = hit
        for i, kind in enumerate(kinds):
            if kind.is_full_attention and i in lengths:
                now = again(now, lengths[i], kind.block_size)
                continue
            drop = kind.use_eagle and i not in verified
            far = now
            if drop and not kind.is_mamba:
                fine = 0 < ask.partial_hit_unit < kind.block_size and kind.is_full_attention
                far = min(now + (ask.partial_hit_unit if fine else kind.block_size), ask.max_peek_length)
            n, found = look(kind, far, drop)
            if drop:
                verified.add(i)
            elif n < now:
                verified.clear()
            now = lengths[i] = n
            tables |= zip(kind.group_ids, found, strict=True)
            longest = max(longest, now)
        if now >= hit:
            break
        hit = now
        if len(kinds) == 2 and kinds[0].is_full_attention:
            break
    return CacheHit(hit, tables, longest, lengths)


def _truncated(tables: Mapping[int, list[int]], kinds: Sequence[SpecGroup], hit: int) -> dict[int, list[int]]:
    """Return block tables without the blocks behind a prefix in the groups of these kinds."""
    found = dict(tables)
    for kind in kinds:
        found |= {group: tables[group][: -(-hit // kind.block_size)] for group in kind.group_ids}
    return found


@rule("VL-LOOKUP-RECONCILE.ONE", Role.LOAD,
      coordinator("HybridKVCacheCoordinator.find_longest_cache_hit", "0.28.0", spec="V-LOOK-3"), until="#50493")
def reconcile_one(ask: PromptQuery, look: GroupLookup) -> CacheHit:
    """Return the prefix that all groups have, like `VL-LOOKUP-RECONCILE`. Of groups with full attention and blocks of
    different sizes, only the first kind gives up its blocks behind the prefix; the others stay in the request."""
    return _first_truncated(ask, reconcile_untruncated(ask, look))


def _first_truncated(ask: PromptQuery, found: CacheHit) -> CacheHit:
    """Return what was found without the blocks of the first kind behind the prefix, if it is full attention."""
    first = [kind for kind in ask.attention_groups[:1] if kind.is_full_attention]
    return found._replace(tables=_truncated(found.tables, first, found.n))


@rule("VL-LOOKUP-RECONCILE.STATES", Role.LOAD,
      coordinator("HybridKVCacheCoordinator.find_longest_cache_hit", "0.25.1", spec="V-LOOK-3"), until="#46384")
def reconcile_with_states(ask: PromptQuery, look: GroupLookup) -> CacheHit:
    """Return the prefix that all groups have, like `VL-LOOKUP-RECONCILE.ONE`. States of a group with the drop are also
    looked up one block further, although none is dropped, so that the prefix may grow again, beyond the blocks that
    full attention has found."""
    kinds = [kind._replace(is_mamba=False) for kind in ask.attention_groups]
    found = reconcile_untruncated(ask._replace(attention_groups=kinds), look, _whole_blocks)
    return _first_truncated(ask, found)


@rule("VL-LOOKUP-RECONCILE.MOST", Role.PREFIX,
      coordinator("HybridKVCacheCoordinator.find_longest_cache_hit", spec="V-LOOK-3"))
def look_at_all(most: int, known: int) -> int:
    """Return the most tokens that a group looks up: all that are asked for, of which only the first ``known`` have
    hashes."""
    return most


@rule("VL-LOOKUP-RECONCILE.MOST.KNOWN", Role.PREFIX, instead_of(look_at_all))
def look_at_known(most: int, known: int) -> int:
    """Return the most tokens that a group looks up: only those with hashes, so that long drafts do not end the
    process."""
    return min(most, known)


@rule("VL-LOOKUP-RECONCILE.REACH", Role.PREFIX,
      coordinator("HybridKVCacheCoordinator.find_longest_cache_hit", spec="V-LOOK-3"))
def reach_known(most: int, known: int) -> int:
    """Return the last token that a dropped block after a prefix may hold: any with a hash."""
    return known


@rule("VL-LOOKUP-RECONCILE.REACH.PROMPT", Role.PREFIX,
      coordinator("HybridKVCacheCoordinator.find_longest_cache_hit", "0.31.0", spec="V-LOOK-3"))
def reach_prompt(most: int, known: int) -> int:
    """Return the last token that a dropped block after a prefix may hold: it must also end before the prompt's last
    token."""
    return most


@rule("VL-LOOKUP-ONE-GROUP", Role.LOAD,
      coordinator("UnitaryKVCacheCoordinator.find_longest_cache_hit", spec="V-LOOK-4"))
def look_up_one(ask: PromptQuery, look: GroupLookup) -> CacheHit:
    """Return the prefix that a single group has."""
    kind = ask.attention_groups[0]
    n, [table] = look(kind, ask.max_cache_hit_length, kind.use_eagle)
    return CacheHit(n, {0: table}, n, {0: n})


@rule("VL-LOOKUP-FULL", Role.PREFIX, groups("FullAttentionManager.find_longest_cache_hit", spec="V-FULL-1"))
def find_full(ask: GroupQuery) -> GroupMatch:
    """Return the match of full attention: the blocks from the start that are cached without a gap, and a part of the
    next one."""
    scale = ask.block_size // ask.hash_block_size
    places = ask.run(0, min(ask.max_length // ask.block_size, len(ask.block_hashes) // scale))
    n = len(places) * ask.block_size
    if ask.fine:
        first = n // ask.alignment_tokens
        stop = min(first + scale - 1, ask.max_length // ask.alignment_tokens, len(ask.block_hashes))
        for i in range(stop - 1, first - 1, -1):
            if (found := ask.get_cached_block(ask.block_hashes[i])) is not None:
                places.append(found)
                n = (i + 1) * ask.alignment_tokens
                break
    if ask.drop_eagle_block and n:
        n -= min(ask.alignment_tokens, ask.block_size)
    n -= n % ask.alignment_tokens
    return ask.found(n, places[: -(-n // ask.block_size)])


@rule("VL-LOOKUP-WINDOW", Role.PREFIX, groups("SlidingWindowManager.find_longest_cache_hit", spec="V-SWA-1"))
def find_window(ask: GroupQuery) -> GroupMatch:
    """Return the match of a sliding window: from the right, the first run of cached blocks that covers a window and
    ends at a multiple of the alignment. Blocks left of it are not needed."""
    need = window_blocks(ask.window, ask.block_size, ask.drop_eagle_block)
    step = lcm(ask.block_size, ask.alignment_tokens) // ask.block_size
    last = ask.max_length // ask.block_size
    run = 0
    places: list[Sequence[int]] = [[0] * ask.num_groups] * last
    for i in range(last - 1, -1, -1):
        found = ask.at(i)
        if found is None:
            run = 0
            continue
        if not run and (i if ask.drop_eagle_block else i + 1) % step:
            continue
        places[i] = found
        run += 1
        end = i + run
        if run >= need:
            break
    else:
        end = run // step * step
    if ask.drop_eagle_block and end:
        end = (end - 1) // step * step
    return ask.found(end * ask.block_size, places[:end])


@rule("VL-LOOKUP-WINDOW.WHOLE", Role.PREFIX,
      groups("SlidingWindowManager.find_longest_cache_hit", "0.27.1", spec="V-SWA-1"))
def find_window_whole(ask: GroupQuery) -> GroupMatch:
    """Return the match of a sliding window. The process ends if a hit may end inside one of its blocks."""
    if ask.alignment_tokens % ask.block_size != 0:
        raise AssertionError(NOT_FINE)
    return find_window(ask)


def window_blocks(window: int, block: int, drop: bool) -> int:
    """Return the number of blocks that a window needs before a boundary."""
    blocks = -(-(window - 1) // block)
    return blocks + 1 if drop else blocks


@rule("VL-LOOKUP-CHUNKED", Role.PREFIX, groups("ChunkedLocalAttentionManager.find_longest_cache_hit", spec="V-CHK-1"))
def find_chunk(ask: GroupQuery) -> GroupMatch:
    """Return the match of chunked attention: blocks before the chunk of the last token count as present, those in it
    are looked up."""
    first = ask.max_length // ask.window * ask.window // ask.block_size
    places = [[0] * ask.num_groups] * first + ask.run(first, ask.max_length // ask.block_size)
    return ask.found(len(places) * ask.block_size, places)


@rule("VL-LOOKUP-STATE", Role.PREFIX, groups("MambaManager.find_longest_cache_hit", spec="V-MAM-1"))
def find_state(ask: GroupQuery) -> GroupMatch:
    """Return the match of states: the first one from the right that ends at a multiple of the alignment."""
    unit = ask.alignment_tokens if ask.fine else ask.block_size
    n = min(ask.max_length // unit, len(ask.block_hashes)) if ask.fine else ask.max_length // unit
    for i in range(n - 1, -1, -1):
        found = ask.get_cached_block(ask.block_hashes[i]) if ask.fine else ask.at(i)
        if found is not None and (i + 1) * unit % ask.alignment_tokens == 0:
            return ask.found((i + 1) * unit, [[0] * ask.num_groups] * (i * unit // ask.block_size) + [found])
    return ask.found(0, ())
