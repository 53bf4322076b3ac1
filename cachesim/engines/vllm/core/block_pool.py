"""The pool of numbered blocks: the free queue, the users of each block, and the hashes under which blocks are found.

A key is a hash and a group of layers, in one number. Block 0, the null block, stands for positions without storage. A
block without users keeps its keys until it is taken again. Source: vLLM vllm/v1/core/block_pool.py (0.33.0).
"""

from __future__ import annotations

from collections import Counter
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Protocol, Sequence

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.engines.inspection import BlockCell
from cachesim.engines.shared.free_list import FreeList
from cachesim.engines.vllm.core.kv_cache_events import Evicted, Freed, Keyed, Moved, Touched
from cachesim.engines.vllm.request import Request
from cachesim.events import Declined, Event

NULL = 0
UNKEYED = -1
EVICTED = "evicted"
REPLACED = "replaced"
ERASED = "erased"
CLEARED = "cleared"
"""Causes of the loss of keys."""
FRONT, BACK = "front", "back"
"""Ends of the free queue."""


class EngineCoreDied(ProcessAborted):
    """An exception left the engine's core: the process ends. ``kind``: the function that raised it."""


class BlockMask(NamedTuple):
    """Which complete blocks of a request are published, None = all. ``rule`` leaves the others out; ``missing_rule`` is
    behind blocks without storage, "" = such blocks are not reported."""

    kept: Sequence[bool] | None
    rule: str
    missing_rule: str


class BlockReporter(Protocol):
    """Learns which blocks can be found."""

    def named(self, request: Request, keys: Sequence[int], blocks: Sequence[int], ends: Sequence[int]) -> None:
        """Note that blocks have these keys, as the ends of prefixes of a request."""

    def lost(self, block: int, keys: Sequence[int], cause: str) -> None:
        """Note that a block is about to lose its keys."""

    def moved(self, block: int, copy: int) -> None:
        """Note that the keys of a block now belong to its copy."""


class EventQueue(Protocol):
    """Learns which blocks can be found, for the events that other programs receive."""

    def full_blocks_stored(self, request: Request, *, columns: range, ends: Sequence[int], block_size: int,
                           kv_cache_group_id: int) -> None:
        """Note that complete blocks can be found: of these columns, those that end at ``ends`` [tokens]."""

    def partial_block_stored(self, request: Request, num_tokens: int, kv_cache_group_id: int) -> None:
        """Note that a prefix that ends inside a block can be found."""

    def block_removed(self, keys: Sequence[int]) -> None:
        """Note that a block lost its keys."""

    def all_blocks_cleared(self) -> None:
        """Note that all blocks lost their keys."""


class BlockHashToBlockMap:
    """Blocks by key. A key rarely has several blocks; a lookup finds the first of them."""

    def __init__(self) -> None:
        self.cache: dict[int, int | dict[int, None]] = {}

    def get_one_block(self, key: int) -> int | None:
        """Return the block that has had a key longest, None without one."""
        found = self.cache.get(key)
        return next(iter(found)) if isinstance(found, dict) else found

    def contain(self, key: int, block_id: int) -> bool:
        """True if a block has a key."""
        found = self.cache.get(key)
        return found == block_id or (isinstance(found, dict) and block_id in found)

    def insert(self, key: int, block_id: int) -> None:
        """Add a block that does not have the key."""
        known = self.cache.get(key)
        if known is None:
            self.cache[key] = block_id
        elif isinstance(known, dict):
            known[block_id] = None
        else:
            self.cache[key] = {known: None, block_id: None}

    def pop(self, key: int, block_id: int) -> None:
        """Remove a block that has the key."""
        known = self.cache[key]
        if isinstance(known, dict):
            del known[block_id]
        if not isinstance(known, dict) or not known:
            del self.cache[key]

    def items(self) -> Iterator[tuple[int, int]]:
        """Yield every key with each block that has it."""
        for key, found in self.cache.items():
            for block in found if isinstance(found, dict) else (found,):
                yield key, block

    def __len__(self) -> int:
        return len(self.cache)


class BlockPool:
    """A pool for several groups. ``free_side``: rule for the end of the free queue that a block joins, from whether it
    can be found. ``block_hash``: first key of each block, ``UNKEYED`` = none; further keys are rare.
    ``block_hash_num_tokens``: prefix that the first key stands for; ``ref_cnt``: users of each block."""

    null_block = NULL
    reporter: BlockReporter | None = None
    kv_event_queue: EventQueue | None = None

    def __init__(self, num_gpu_blocks: int, num_groups: int, *, enable_caching: bool, hash_block_size: int,
                 free_side: Callable[[bool], str], emit: Callable[[Event], None]) -> None:
        self.num_gpu_blocks = num_gpu_blocks
        self.num_groups = num_groups
        self.enable_caching = enable_caching
        self.hash_block_size = hash_block_size
        self.free_side = free_side
        self.emit = emit
        self.ref_cnt = [0] * num_gpu_blocks
        self.block_hash = [UNKEYED] * num_gpu_blocks
        self.block_hash_num_tokens = [0] * num_gpu_blocks
        self.free_block_queue = FreeList(num_gpu_blocks)
        self.free_block_queue.remove(NULL)
        self.cached_block_hash_to_block = BlockHashToBlockMap()
        self.cached_block_hashes_by_block: dict[int, list[int]] = {}        # further keys

    def get_cached_block(self, block_hash: int, kv_cache_group_ids: Sequence[int]) -> list[int] | None:
        """Return a block of each group for a hash, None if a group has none."""
        found = []
        for group_id in kv_cache_group_ids:
            block = self.cached_block_hash_to_block.get_one_block(block_hash * self.num_groups + group_id)
            if block is None:
                return None
            found.append(block)
        return found

    def keys_of(self, block: int) -> Sequence[int]:
        """Return the keys of a block, the first one first."""
        first = self.block_hash[block]
        return [] if first == UNKEYED else [first, *self.cached_block_hashes_by_block.get(block, ())]

    def ends_at(self, block: int, num_tokens: int) -> bool:
        """True if the first key of a block stands for a prefix of so many tokens."""
        return self.block_hash[block] != UNKEYED and self.block_hash_num_tokens[block] == num_tokens

    def cache_full_blocks(self, request: Request, blocks: Sequence[int], *, num_cached_blocks: int,
                          num_full_blocks: int, block_size: int, kv_cache_group_id: int, mask: BlockMask) -> None:
        """Let complete blocks of a request be found, except those that the mask leaves out."""
        chosen = list[int]()
        ends = list[int]()
        for at in range(num_cached_blocks, num_full_blocks):
            block = blocks[at]
            end = (at + 1) * block_size
            if block and (mask.kept is None or mask.kept[at - num_cached_blocks]):
                self.remove_cached_block_hashes(block, REPLACED)
                chosen.append(block)
                ends.append(end)
            elif block:
                self.emit(Declined(request.request_id, end, mask.rule))
            elif mask.missing_rule:             # a chunk passed a block that is missing
                self.emit(Declined(request.request_id, end, mask.missing_rule))
        self._insert_block_hashes(request, kv_cache_group_id, chosen, ends)
        if self.kv_event_queue is not None:
            self.kv_event_queue.full_blocks_stored(
                request, columns=range(num_cached_blocks, num_full_blocks), ends=ends, block_size=block_size,
                kv_cache_group_id=kv_cache_group_id)

    def cache_partial_block(self, request: Request, block: int, num_tokens: int, kv_cache_group_id: int,
                            replace_existing_hashes: bool = False) -> int | None:
        """Let a block be found for a prefix that ends inside it, unless it is the null block; return the key."""
        if not block:
            return None
        units = num_tokens // self.hash_block_size
        if not 0 < units <= len(request.block_hashes):
            raise EngineCoreDied("AssertionError: ", "_cache_partial_tail_block")
        key = request.block_hashes[units - 1] * self.num_groups + kv_cache_group_id
        shorter = self.block_hash[block] != UNKEYED and self.block_hash_num_tokens[block] < num_tokens
        known = self.cached_block_hash_to_block.contain(key, block)
        if replace_existing_hashes or (shorter and not known):
            self.remove_cached_block_hashes(block, REPLACED)
        self._insert_block_hashes(request, kv_cache_group_id, [block], [num_tokens])
        if self.kv_event_queue is not None and (replace_existing_hashes or not known):
            self.kv_event_queue.partial_block_stored(request, num_tokens, kv_cache_group_id)
        return key

    def remove_cached_block_hashes(self, block: int, cause: str) -> None:
        """Remove all keys of a block."""
        if self.block_hash[block] == UNKEYED:
            return
        if self.reporter is not None:
            self.reporter.lost(block, self.keys_of(block), cause)
        keys = self._pop_keys(block)
        if self.kv_event_queue is not None:
            self.kv_event_queue.block_removed(keys)
        if cause != REPLACED:
            self.emit(Evicted(block, [key // self.num_groups for key in keys]))

    def _pop_keys(self, block: int) -> Sequence[int]:
        keys = self.keys_of(block)
        self.block_hash[block] = UNKEYED
        self.cached_block_hashes_by_block.pop(block, None)
        for key in keys:
            self.cached_block_hash_to_block.pop(key, block)
        return keys

    def _insert_block_hashes(self, request: Request, group_id: int, blocks: Sequence[int],
                             ends: Sequence[int]) -> None:
        """Let blocks of a group be found, as the ends of prefixes of so many tokens of a request."""
        hashes = [request.block_hashes[end // self.hash_block_size - 1] for end in ends]
        keys = [block_hash * self.num_groups + group_id for block_hash in hashes]
        new = list[tuple[int, int, int]]()
        for block, key, block_hash, end in zip(blocks, keys, hashes, ends, strict=True):
            if not self.cached_block_hash_to_block.contain(key, block):
                self.insert_block_hash(key, block, end)
                new.append((block, block_hash, end))
        if new:
            new_blocks, new_hashes, new_ends = map(list, zip(*new, strict=True))
            self.emit(Keyed(group_id, new_blocks, new_hashes, new_ends))
        if self.reporter is not None:
            self.reporter.named(request, keys, blocks, ends)

    def insert_block_hash(self, key: int, block: int, num_tokens: int) -> None:
        """Add a key to a block that does not have it."""
        if self.block_hash[block] == UNKEYED:
            self.block_hash[block] = key
            self.block_hash_num_tokens[block] = num_tokens
        else:
            self.cached_block_hashes_by_block.setdefault(block, []).append(key)
        self.cached_block_hash_to_block.insert(key, block)

    def move_block_hashes(self, source_block: int, target_block: int) -> None:
        """Let the copy of a block be found in its place."""
        end = self.block_hash_num_tokens[source_block]
        for key in self._pop_keys(source_block):
            self.insert_block_hash(key, target_block, end)
            self.emit(Keyed(key % self.num_groups, [target_block], [key // self.num_groups], [end]))
        if self.reporter is not None:
            self.reporter.moved(source_block, target_block)
        self.emit(Moved(source_block, target_block))

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        """Take blocks from the front of the free queue; each loses its keys."""
        found = [self.free_block_queue.pop() for _ in range(num_blocks)]
        for block in found:
            self.remove_cached_block_hashes(block, EVICTED)
            self.ref_cnt[block] = 1
        return found

    def touch(self, blocks: Iterable[int]) -> None:
        """Add a user to each block."""
        real = [block for block in blocks if block]
        for block in real:
            if not self.ref_cnt[block]:
                self.free_block_queue.remove(block)
            self.ref_cnt[block] += 1
        if real:
            self.emit(Touched(real))

    def free_blocks(self, ordered_blocks: Iterable[int]) -> None:
        """Remove a user from each block, in the order in which they should be evicted."""
        front = list[int]()
        back = list[int]()
        used = list[int]()
        unkeyed_side = front if self.free_side(False) == FRONT else back
        keyed_side = front if self.free_side(self.enable_caching) == FRONT else back
        for block in ordered_blocks:
            if not block:
                continue
            self.ref_cnt[block] -= 1
            if self.ref_cnt[block]:
                used.append(block)
            elif self.block_hash[block] == UNKEYED:
                unkeyed_side.append(block)
            else:
                keyed_side.append(block)
        self.free_block_queue.prepend(front)
        self.free_block_queue.append(back)
        if front or back or used:
            self.emit(Freed(front, back, used))

    def reset_prefix_cache(self) -> bool:
        """Remove all keys, if no block is in use. Return whether it was done."""
        if self.get_num_free_blocks() != self.num_gpu_blocks - 1:
            return False
        for block in range(self.num_gpu_blocks):
            if self.block_hash[block] != UNKEYED:
                if self.reporter is not None:
                    self.reporter.lost(block, self.keys_of(block), CLEARED)
                self._pop_keys(block)
        if self.kv_event_queue is not None:
            self.kv_event_queue.all_blocks_cleared()
        return True

    def get_num_free_blocks(self) -> int:
        """Return the number of blocks without users."""
        return len(self.free_block_queue)

    def cells(self, owner: Mapping[int, int]) -> list[BlockCell]:
        """Return the blocks that a request took or that have a key or users, for pictures; ``owner``: request that last
        took a block."""
        place = {block: at for at, block in enumerate(self.free_block_queue)}
        found = []
        for block in range(1, self.num_gpu_blocks):
            if block not in owner and not self.ref_cnt[block] and self.block_hash[block] == UNKEYED:
                continue
            keys = self.keys_of(block)
            found.append(BlockCell(
                id=block, group=keys[0] % self.num_groups if keys else -1,
                tokens=self.block_hash_num_tokens[block] if keys else 0, owner=owner.get(block, -1),
                refs=self.ref_cnt[block], place=place.get(block, -1), keys=len(keys),
            ))  # fmt: skip
        return found

    def check(self, used: Iterable[int]) -> None:
        """Raise Crash unless the users of each block agree with the tables of all requests, and its keys with those
        under which blocks are found."""
        counts = Counter(used)
        free = set(self.free_block_queue)
        for block in range(1, self.num_gpu_blocks):
            users = self.ref_cnt[block]
            if counts[block] != users or (block in free) is (users > 0):
                raise Crash(f"block {block} has {users} users and is listed in {counts[block]} tables")
        keyed = {(key, block) for block in range(self.num_gpu_blocks) for key in self.keys_of(block)}
        if keyed != set(self.cached_block_hash_to_block.items()):
            raise Crash(f"{len(keyed)} keys of blocks differ from those under which blocks are found")
