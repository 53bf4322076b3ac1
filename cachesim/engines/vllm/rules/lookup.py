"""Rules of the lookup: which prefix of a prompt the groups of layers have in common.

B     tokens of a block of the group          align   a hit is a multiple of so many tokens
unit  tokens of a hash                        drop    the last block found is not used, for the drafter's sake
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

from cachesim.engines.rule import Role, rule
from cachesim.engines.vllm.rules.sources import COORDINATOR, GROUPS, MANAGER, NOW, vllm

Tables = list[list[int]]


class Find(NamedTuple):
    """A prompt with these ``hashes`` is looked up in equal groups, for at most ``most`` tokens. ``get`` returns the
    block of each group that has a hash, None if one has none; ``size``: window or chunk [tokens]."""

    hashes: Sequence[int]
    unit: int
    block: int
    most: int
    align: int
    drop: bool
    size: int
    groups: int
    get: Callable[[int], list[int] | None]

    @property
    def fine(self) -> bool:
        """True if a hit may end inside a block."""
        return self.align < self.block and self.block % self.align == 0

    def at(self, block: int) -> list[int] | None:
        """Return the blocks at this place. Raises IndexError if no hash is known there."""
        return self.get(self.hashes[(block + 1) * (self.block // self.unit) - 1])


class Found(NamedTuple):
    """``n`` tokens in the blocks of each group."""

    n: int
    tables: Tables


class Sorted(NamedTuple):
    """Equal groups. ``find``: their rule; ``fine``: it finds hits that end inside a block."""

    groups: list[int]
    find: Callable[[Find], Found]
    full: bool
    state: bool
    block: int
    size: int
    drop: bool
    fine: bool


class Reconcile(NamedTuple):
    """A prompt is looked up in several groups; the first ones have full attention, if any has. ``known``: tokens with
    hashes; ``unit``: tokens of a hash if a hit may end inside a block, else 0."""

    most: int
    known: int
    unit: int
    kinds: Sequence[Sorted]
    find: Callable[[Sorted, int, bool], Found]


class Hit(NamedTuple):
    """Result of a lookup: tokens, blocks of each group, the most that one group has, and what each kind has."""

    n: int
    tables: dict[int, list[int]]
    longest: int
    lengths: dict[int, int]


@rule("V-LOOK-2", Role.PREFIX, vllm(MANAGER, "get_computed_blocks", NOW))
def most_tokens(n: int) -> int:
    """At least one token of a request is evaluated, whatever is cached."""
    return n - 1


@rule("V-LOOK-5", Role.PREFIX, vllm(COORDINATOR, "HybridKVCacheCoordinator.find_longest_cache_hit", NOW))
def drop_limit(most: int, known: int) -> int:
    """The block that a drafter's group drops may hold the last token."""
    return known


@rule("V-LOOK-5.LAST", Role.PREFIX, vllm(COORDINATOR, "HybridKVCacheCoordinator.find_longest_cache_hit", "0.31.0"))
def drop_limit_last(most: int, known: int) -> int:
    """The block that a drafter's group drops ends before the last token."""
    return most


@rule("V-LOOK-3", Role.LOAD, vllm(COORDINATOR, "HybridKVCacheCoordinator.find_longest_cache_hit", NOW))
def reconcile_all(ask: Reconcile) -> Hit:
    """The groups shorten the prefix in turn until all of them have it. A group with the drop checks the block behind
    it too; two kinds of which one is full attention need a single round."""
    hit, longest, tables, lengths, verified = ask.most, 0, dict[int, list[int]](), dict[int, int](), set[int]()
    while True:
        now = hit
        for i, kind in enumerate(ask.kinds):
            if kind.full and i in lengths:
                now = min(now, lengths[i])
                continue
            drop, most = kind.drop and i not in verified, now
            if drop and not kind.state:
                margin = ask.unit if ask.unit and kind.fine and kind.block > ask.unit else kind.block
                most = min(now + margin, ask.known)
            n, found = ask.find(kind, most, drop)
            if drop:
                verified.add(i)
            elif n < now:
                verified.clear()
            now = lengths[i] = n
            tables |= zip(kind.groups, found, strict=True)
            longest = max(longest, now)
        if now >= hit:
            break
        hit = now
        if len(ask.kinds) == 2 and ask.kinds[0].full:
            break
    return Hit(hit, cut_full(ask.kinds, tables, hit), longest, lengths)


def cut_full(kinds: Sequence[Sorted], tables: dict[int, list[int]], hit: int) -> dict[int, list[int]]:
    """Cut the blocks of full attention to the hit."""
    for kind in kinds:
        if kind.full:
            tables |= {group: tables[group][: -(-hit // kind.block)] for group in kind.groups}
    return tables


@rule("V-LOOK-4", Role.LOAD, vllm(COORDINATOR, "UnitaryKVCacheCoordinator.find_longest_cache_hit", NOW))
def look_up_one(ask: Reconcile) -> Hit:
    """A single group has the prefix that it has."""
    kind = ask.kinds[0]
    n, found = ask.find(kind, ask.most, kind.drop)
    return Hit(n, dict(zip(kind.groups, found, strict=True)), n, {0: n})


@rule("V-FULL-1", Role.PREFIX, vllm(GROUPS, "FullAttentionManager.find_longest_cache_hit", NOW))
def find_full(ask: Find) -> Found:
    """Full attention: the blocks from the start that are cached without a gap, and a part of the next one."""
    tables: Tables = [[] for _ in range(ask.groups)]
    scale, n = ask.block // ask.unit, 0
    for i in range(min(ask.most // ask.block, len(ask.hashes) // scale)):
        found = ask.at(i)
        if found is None:
            break
        n += ask.block
        for table, block in zip(tables, found, strict=True):
            table.append(block)
    if ask.fine:
        first = n // ask.align
        for i in range(min(first + scale - 1, ask.most // ask.align, len(ask.hashes)) - 1, first - 1, -1):
            if (found := ask.get(ask.hashes[i])) is not None:
                for table, block in zip(tables, found, strict=True):
                    table.append(block)
                n = (i + 1) * ask.align
                break
    if ask.drop and n:
        n -= min(ask.align, ask.block)
    n -= n % ask.align
    return Found(n, [table[: -(-n // ask.block)] for table in tables])


@rule("V-SWA-1", Role.PREFIX, vllm(GROUPS, "SlidingWindowManager.find_longest_cache_hit", NOW))
def find_window(ask: Find) -> Found:
    """Sliding window: from the right, the first run of cached blocks that covers a window and ends at a multiple of
    the alignment. Blocks left of it are not needed."""
    need, block, align = window_blocks(ask.size, ask.block, ask.drop), ask.block, ask.align
    last = ask.most // block
    tables, run, end = [[0] * last for _ in range(ask.groups)], 0, 0
    for i in range(last - 1, -1, -1):
        found = ask.at(i)
        if found is None:
            run = 0
            continue
        if not run and block != align and (i if ask.drop else i + 1) * block % align:
            continue
        for table, one in zip(tables, found, strict=True):
            table[i] = one
        run += 1
        end = i + run
        if run >= need:
            break
    else:
        end = run
        while block != align and end * block % align:
            end -= 1
    if ask.drop and end:
        end -= 1
        while block != align and end * block % align:
            end -= 1
    return Found(end * block, [table[:end] for table in tables])


def window_blocks(window: int, block: int, drop: bool) -> int:
    """Return the number of blocks that a window needs before a boundary."""
    return -(-(window - 1) // block) + drop


@rule("V-CHK-1", Role.PREFIX, vllm(GROUPS, "ChunkedLocalAttentionManager.find_longest_cache_hit", NOW))
def find_chunk(ask: Find) -> Found:
    """Chunked attention: blocks before the chunk of the last token count as present, those in it are looked up."""
    first = ask.most // ask.size * ask.size // ask.block
    tables = [[0] * first for _ in range(ask.groups)]
    for i in range(first, ask.most // ask.block):
        found = ask.at(i)
        if found is None:
            break
        for table, block in zip(tables, found, strict=True):
            table.append(block)
    return Found(len(tables[0]) * ask.block, tables)


@rule("V-MAM-1", Role.PREFIX, vllm(GROUPS, "MambaManager.find_longest_cache_hit", NOW))
def find_state(ask: Find) -> Found:
    """States: the first one from the right that ends at a multiple of the alignment, a part of a block if hits may end
    inside it."""
    if ask.fine:
        scale = ask.block // ask.align
        for i in range(min(ask.most // ask.align, len(ask.hashes)) - 1, -1, -1):
            if (found := ask.get(ask.hashes[i])) is not None:
                return Found((i + 1) * ask.align, [[0] * (i // scale) + [block] for block in found])
        return Found(0, [[] for _ in range(ask.groups)])
    for i in range(ask.most // ask.block - 1, -1, -1):
        found = ask.at(i)
        if found is not None and (i + 1) * ask.block % ask.align == 0:
            return Found((i + 1) * ask.block, [[0] * i + [block] for block in found])
    return Found(0, [[] for _ in range(ask.groups)])
