"""Events of vLLM's cache classes: wraps the methods of one scheduler's objects."""

from __future__ import annotations

from collections import Counter

import vllm
from vllm.v1.core.kv_cache_utils import get_block_hash, get_group_id

UNCACHED_BACK = vllm.__version__.startswith("0.27.")          # without prefix caching, blocks join the back


class Recorder:
    """Events of one scheduler since the last `take`."""

    def __init__(self, scheduler, wraps=True):
        """Wrap the methods that decide, unless only the time counts."""
        self.events, self.hashes, self.removed = [], {}, []
        self.pool_, self.manager = scheduler.kv_cache_manager.block_pool, scheduler.kv_cache_manager
        for owner, name in (
            (self.manager, "get_computed_blocks"), (self.manager, "allocate_slots"), (self.pool_, "touch"),
            (self.pool_, "_remove_cached_block_hashes"),
            (self.pool_, "_maybe_evict_cached_block"), (self.pool_, "_insert_block_hash"),
            (self.pool_, "move_block_hashes"), (self.pool_, "free_blocks"), (scheduler, "_preempt_request"),
        ):  # fmt: skip
            if wraps and hasattr(owner, name):
                wrapper = getattr(self, name.strip("_"))
                setattr(owner, name, wrapper(getattr(owner, name)))

    def take(self):
        """Return the events and forget them."""
        events, self.events = self.events, []
        return events

    def number(self, block_hash):
        """Number a hash by its first appearance."""
        return self.hashes.setdefault(bytes(block_hash), len(self.hashes))

    def pool(self):
        """Return every keyed block with its keys."""
        rows = []
        for block in self.pool_.blocks:
            if block.block_hash is None:
                continue
            row = [block.block_id, block.ref_cnt, self.number(get_block_hash(block.block_hash)),
                   get_group_id(block.block_hash), block.block_hash_num_tokens]  # fmt: skip
            extra = self.pool_.cached_block_hashes_by_block.get(block.block_id, ())
            if extra:
                row.append(sorted([self.number(get_block_hash(key)), get_group_id(key)] for key in extra))
            rows.append(row)
        return rows

    def get_computed_blocks(self, method):
        """Record the result of a lookup."""

        def wrapped(request, *rest):
            found = method(request, *rest)
            blocks, hit, *more = found
            event = ["lookup", int(request.request_id), hit, *(more or [self.junction(hit)])]
            self.events.append([*event, [list(ids) for ids in blocks.get_block_ids()]] if hit else event)
            return found

        return wrapped

    def junction(self, hit):
        """Return the tokens that one group alone has, as the coordinator keeps them until 0.25.1, also for the next
        request if that reads no prefix; 0 = no more than the hit."""
        ahead = getattr(self.manager.coordinator, "num_uncached_common_prefix_tokens", 0)
        return hit + ahead if ahead else 0

    def allocate_slots(self, method):
        """Record an allocation before and after its events."""

        def wrapped(request, new, **more):
            self.events.append(["alloc", int(request.request_id), request.num_computed_tokens,
                                more.get("num_new_computed_tokens", 0), new, more["num_lookahead_tokens"]])  # fmt: skip
            blocks = got = method(request, new, **more)
            held = [0] * len(blocks.blocks) if blocks else []
            if blocks and more.get("num_external_computed_tokens"):         # those to be loaded are not returned
                got = self.manager.get_blocks(request.request_id)
                held = [len(found) for found in more["new_computed_blocks"].blocks]
            self.events.append(["no"] if blocks is None else
                               ["got", [list(ids)[n:] for ids, n in zip(got.get_block_ids(), held, strict=True)]])
            return blocks

        return wrapped

    def touch(self, method):
        """Record the hit blocks of a group."""

        def wrapped(blocks):
            ids = [block.block_id for block in blocks if not block.is_null]
            if ids:
                self.events.append(["touch", ids])
            method(blocks)

        return wrapped

    def remove_cached_block_hashes(self, method):
        """Remember the keys that a block loses."""

        def wrapped(block):
            self.removed = method(block)
            return self.removed

        return wrapped

    def maybe_evict_cached_block(self, method):
        """Record the keys that a block loses for a new use."""

        def wrapped(block):
            evicted = method(block)
            if evicted:
                hashes = [self.number(get_block_hash(key)) for key in self.removed]
                self.events.append(["evict", block.block_id, hashes])
            return evicted

        return wrapped

    def insert_block_hash(self, method):
        """Record a key that is new for its block."""

        def wrapped(key, block, num_tokens):
            known = self.pool_.cached_block_hash_to_block.contain(key, block.block_id)
            method(key, block, num_tokens)
            if not known:
                self.events.append(["key", block.block_id, self.number(get_block_hash(key)), get_group_id(key),
                                    num_tokens])  # fmt: skip

        return wrapped

    def move_block_hashes(self, method):
        """Record that keys move to a copy."""

        def wrapped(source, target):
            method(source, target)
            self.events.append(["move", source.block_id, target.block_id])

        return wrapped

    def free_blocks(self, method):
        """Record where each block goes."""

        def wrapped(blocks):
            blocks = [block for block in blocks if not block.is_null]
            refs = Counter({block.block_id: block.ref_cnt for block in blocks})
            event = [[], [], []]                      # to the front, to the back, still in use
            for block in blocks:
                refs[block.block_id] -= 1
                kept = block.block_hash is not None if self.pool_.enable_caching else UNCACHED_BACK
                event[2 if refs[block.block_id] else kept].append(block.block_id)
            method(blocks)
            if blocks:
                self.events.append(["free", *event[: 3 if event[2] else 2]])

        return wrapped

    def preempt_request(self, method):
        """Record a preemption."""

        def wrapped(request, *rest, **more):
            self.events.append(["preempt", int(request.request_id), request.num_computed_tokens])
            method(request, *rest, **more)

        return wrapped
