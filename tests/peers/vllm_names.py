"""Our block pool, finders, managers and cache manager under vLLM's names, so that vLLM's own unit tests run on them.

The classes translate arguments and results; every decision is made by `cachesim.engines.vllm`. A name that our engine
does not simulate raises `NotSimulated`, which makes the test not applicable. Requests and specs are vLLM's own.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace
from functools import wraps
from itertools import pairwise
from types import SimpleNamespace

from vllm.v1.core.kv_cache_utils import get_block_hash, get_group_id, make_block_hash_with_group_id

from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer
from cachesim.engines.base import Request as ClientRequest
from cachesim.engines.shared.free_list import FreeList
from cachesim.engines.shared.request_queue import ReceivedRequest
from cachesim.engines.vllm import ENGINE, recordings
from cachesim.engines.vllm.core.block_pool import ERASED, EVICTED, BlockMask, EngineCoreDied
from cachesim.engines.vllm.core.block_pool import BlockPool as Pool
from cachesim.engines.vllm.profiles import V0_33_0
from cachesim.engines.vllm.request import Request
from cachesim.engines.vllm.rules.blocks import DENSE
from cachesim.events import Log

GROUPS, MOST = 1 << 10, 1 << 10
NUMBERS, HASHES = {}, []
KINDS = {
    "FullAttentionSpec": "full", "MLAAttentionSpec": "full", "RSWASpec": "rswa", "SlidingWindowSpec": "swa",
    "SlidingWindowMLASpec": "swa", "ChunkedLocalAttentionSpec": "chunked", "MambaSpec": "mamba",
}  # fmt: skip
SIZES = {"rswa": ("window", "rswa_window"), "swa": ("window", "sliding_window"),
         "chunked": ("chunk", "attention_chunk_size")}  # fmt: skip


class NotSimulated(AttributeError):
    """The test needs something that the engine does not simulate."""


USED = []


def used(function):
    """Note each call: a test without any says nothing about our engine."""

    @wraps(function)
    def noted(*args, **more):
        USED.append(function.__qualname__)
        return function(*args, **more)

    return noted


class Named:
    """Base of the classes with vLLM's names: other names are not simulated."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotSimulated(f"{type(self).__name__}.{name}")


def number(block_hash):
    """Return our number of a hash."""
    if block_hash not in NUMBERS:
        NUMBERS[block_hash] = len(HASHES)
        HASHES.append(block_hash)
    return NUMBERS[block_hash]


def ignore(*_):
    """Do nothing."""


def key_of(key, groups=GROUPS):
    """Return our key for a hash with its group."""
    return number(get_block_hash(key)) * groups + get_group_id(key)


class Block(Named):
    """A block of our pool."""

    def __init__(self, pool, block_id):
        self.pool, self.block_id, self.is_null = pool, block_id, block_id == 0

    ref_cnt = property(lambda self: self.pool.ref_cnt[self.block_id],
                       lambda self, n: self.pool.ref_cnt.__setitem__(self.block_id, n))  # fmt: skip

    @property
    def block_hash(self):
        """The primary key."""
        keys = self.pool.keys_of(self.block_id)
        return make_block_hash_with_group_id(HASHES[keys[0] // GROUPS], keys[0] % GROUPS) if keys else None

    @property
    def block_hash_num_tokens(self):
        """The prefix that the primary key stands for [tokens]."""
        return self.pool.block_hash_num_tokens[self.block_id] if self.pool.keys_of(self.block_id) else None


class BlockMap(MutableMapping, Named):
    """The keys of our pool."""

    def __init__(self, pool):
        self.pool, self._cache = pool.inner, self
        self.blocks = pool.blocks

    def __getitem__(self, key):
        found = self.pool.cached_block_hash_to_block.cache[key_of(key)]
        return {one: self.blocks[one] for one in found} if isinstance(found, dict) else self.blocks[found]

    def __setitem__(self, key, block):
        value = dict.fromkeys(block) if isinstance(block, dict) else block.block_id
        self.pool.cached_block_hash_to_block.cache[key_of(key)] = value

    def __delitem__(self, key):
        del self.pool.cached_block_hash_to_block.cache[key_of(key)]

    def __iter__(self):
        return (make_block_hash_with_group_id(HASHES[key // GROUPS], key % GROUPS)
                for key in self.pool.cached_block_hash_to_block.cache)

    def __len__(self):
        return len(self.pool.cached_block_hash_to_block.cache)

    def __copy__(self):
        return dict(self)

    def get_one_block(self, key):
        """Return a block with this key."""
        found = self.pool.get_cached_block(key_of(key) // GROUPS, [key_of(key) % GROUPS])
        return self.blocks[found[0]] if found else None

    def contain(self, key, block_id):
        """True if the block has this key."""
        return key_of(key) in self.pool.keys_of(block_id)

    def insert(self, key, block):
        """Let the block be found."""
        self.pool.insert_block_hash(key_of(key), block.block_id, 0)

    def pop(self, key, *block_id):
        """Forget a key."""
        found = self.get(key)
        if found is not None:
            del self[key]
        return found


class FreeKVCacheBlockQueue(Named):
    """Our free list of these blocks; ``free`` is the list of a pool, None = a new one with all of them."""

    @used
    def __init__(self, blocks, free=None):
        self.blocks, self.free = list(blocks), free
        if free is None:
            self.free = FreeList(MOST)
            for one in range(len(blocks), MOST):
                self.free.remove(one)
        self.head, self.tail = SimpleNamespace(), SimpleNamespace()
        self._link()

    def _link(self):
        """Show our links in the blocks."""
        places = [self.head, *self.get_all_free_blocks(), self.tail]
        for before, after in pairwise(places):
            before.next_free_block, after.prev_free_block = after, before

    def _places(self, blocks):
        for block in blocks:
            if not any(one is block for one in self.blocks):
                self.blocks.append(block)
        return [next(i for i, one in enumerate(self.blocks) if one is block) for block in blocks]

    def __getattr__(self, name):
        ends = {"fake_free_list_head": "head", "fake_free_list_tail": "tail"}
        if name not in ends:
            return super().__getattr__(name)
        self._link()
        return getattr(self, ends[name])

    num_free_blocks = property(lambda self: len(self.free))

    def get_all_free_blocks(self):
        """Return the free blocks in order."""
        return [self.blocks[one] for one in self.free]

    def popleft(self):
        """Take the first block."""
        return self.popleft_n(1)[0]

    def popleft_n(self, n):
        """Take the first blocks."""
        if n > len(self.free):
            raise ValueError("No free blocks available")
        taken = [self.blocks[self.free.pop()] for _ in range(n)]
        for block in taken:
            block.prev_free_block = block.next_free_block = None
        self._link()
        return taken

    def remove(self, block):
        """Remove a block from the middle."""
        if block.next_free_block is None:
            raise RuntimeError(f"remove() called on an invalid block: {block}")
        self.free.remove(self._places([block])[0])
        block.prev_free_block = block.next_free_block = None
        self._link()

    def append(self, block):
        """Add a block at the end."""
        self.append_n([block])

    def append_n(self, blocks):
        """Add blocks at the end."""
        self.free.append(self._places(blocks))
        self._link()

    def prepend_n(self, blocks):
        """Add blocks at the front."""
        self.free.prepend(self._places(blocks))
        self._link()


class BlockPool(Named):
    """Our pool."""

    @used
    def __init__(self, num_gpu_blocks, enable_caching, hash_block_size, enable_kv_cache_events=False,
                 metrics_collector=None, num_hash_lookahead_tokens=0, inner=None):  # fmt: skip
        if enable_kv_cache_events or metrics_collector:
            raise NotSimulated("events and metrics of blocks")
        self.inner = inner or Pool(num_gpu_blocks, GROUPS, enable_caching=enable_caching, emit=ignore,
                                   hash_block_size=hash_block_size, free_side=V0_33_0.free_side)  # fmt: skip
        self.blocks = [Block(self.inner, one) for one in range(self.inner.num_gpu_blocks)]
        self.null_block = self.blocks[0]
        self.free_block_queue = FreeKVCacheBlockQueue(self.blocks, self.inner.free_block_queue)
        self.cached_block_hash_to_block = BlockMap(self)
        self.num_gpu_blocks, self.enable_caching, self.hash_block_size = num_gpu_blocks, enable_caching, hash_block_size
        self.num_hash_lookahead_tokens = num_hash_lookahead_tokens

    @property
    def cached_block_hashes_by_block(self):
        """The further keys of blocks."""
        return {block: {*keys} for block, keys in self.inner.cached_block_hashes_by_block.items()}

    def get_num_free_blocks(self):
        """Return the number of free blocks."""
        return self.inner.get_num_free_blocks()

    def get_usage(self):
        """Return the share of the pool in use."""
        return 1.0 - self.inner.get_num_free_blocks() / (self.inner.num_gpu_blocks - 1)

    def get_new_blocks(self, n):
        """Take blocks."""
        if n > self.inner.get_num_free_blocks():
            raise ValueError(f"Cannot get {n} free blocks from the pool")
        return [self.blocks[one] for one in self.inner.get_new_blocks(n)]

    def get_cached_block(self, block_hash, kv_cache_group_ids):
        """Find a block of each group."""
        found = self.inner.get_cached_block(number(block_hash), kv_cache_group_ids)
        return [self.blocks[one] for one in found] if found else None

    def touch(self, blocks):
        """Add a user to each block."""
        self.inner.touch(block.block_id for block in blocks)

    def free_blocks(self, blocks):
        """Remove a user from each block."""
        self.inner.free_blocks([block.block_id for block in blocks])

    def evict_blocks(self, ids):
        """Remove the keys of blocks."""
        for one in ids:
            self.inner.remove_cached_block_hashes(one, ERASED)

    def _maybe_evict_cached_block(self, block):
        keyed = bool(self.inner.keys_of(block.block_id))
        self.inner.remove_cached_block_hashes(block.block_id, EVICTED)
        return keyed

    def move_block_hashes(self, source, copy):
        """Move the keys of a block."""
        self.inner.move_block_hashes(source.block_id, copy.block_id)

    def reset_prefix_cache(self):
        """Remove all keys."""
        return self.inner.reset_prefix_cache()

    def cache_full_blocks(self, request, blocks, num_cached_blocks, num_full_blocks, block_size, kv_cache_group_id,
                          block_mask=None):  # fmt: skip
        """Publish complete blocks."""
        if not all(isinstance(block, Block) for block in blocks):
            raise NotSimulated("blocks outside the pool")
        self.inner.cache_full_blocks(
            hashed(request), [block.block_id for block in blocks], num_cached_blocks=num_cached_blocks,
            num_full_blocks=num_full_blocks, block_size=block_size, kv_cache_group_id=kv_cache_group_id,
            mask=BlockMask(block_mask, "", ""))

    def cache_partial_block(self, request, block, num_tokens, kv_cache_group_id, block_size,
                            replace_existing_hashes=False):  # fmt: skip
        """Publish a part of a block."""
        assert num_tokens % self.hash_block_size == 0 and block_size % self.hash_block_size == 0
        try:
            key = self.inner.cache_partial_block(hashed(request), block.block_id, num_tokens, kv_cache_group_id,
                                                 replace_existing_hashes)  # fmt: skip
        except EngineCoreDied as end:
            raise AssertionError(str(end)) from end
        return key and make_block_hash_with_group_id(HASHES[key // GROUPS], key % GROUPS)


def hashed(request):
    """Return a request with our hashes."""
    return SimpleNamespace(request_id=0, block_hashes=[number(block_hash) for block_hash in request.block_hashes])


class Hasher:
    """Leaves the hashes of requests to vLLM."""

    def extend(self, request):
        """Do nothing."""


class Core:
    """A server of ours and the requests that it knows."""

    @used
    def __init__(self, specs, eagle, spec, step, unit, pool=None, **given):
        """Start a server with these groups. ``spec``: what drafts need; ``step``, ``unit``: sizes [tokens]."""
        groups = []
        for one, drafts in zip(specs, eagle, strict=True):
            kind = KINDS.get(type(one).__name__)
            if kind is None:
                raise NotSimulated(type(one).__name__)
            if given.get("dcp", 1) > 1 and kind != "mamba" and not one.dcp_sharded:
                raise NotSimulated("groups that parallel contexts do not share")
            groups.append({"kind": kind, "block_size": one.block_size, "eagle": drafts})
            if kind in SIZES:
                groups[-1][SIZES[kind][0]] = getattr(one, SIZES[kind][1])
        states = [one for one, group in zip(specs, groups, strict=True) if group["kind"] == "mamba"]
        config = {
            "groups": groups, "num_blocks": 512, "max_model_len": 1 << 20, "max_num_batched_tokens": 1 << 20,
            "max_num_seqs": 128, "long_prefill_token_threshold": 0, "caching": True, "policy": "fcfs", "watermark": 0.0,
            "reserve_full": False, "async_scheduling": False, "num_spec": 0, "shared_prefix_checkpoint": False,
            "dcp": 1, "spec": None, "retention": 0, "prefix_match_unit": None,
            "ckpt_align": states[0].prefill_checkpoint_alignment if states and states[0].num_prefill_checkpoint_blocks
            else None,
        } | given  # fmt: skip
        rules = replace(V0_33_0, speculation=lambda *_: spec, scheduler_block=lambda _: step,
                        hash_block_size=lambda *_: unit)  # fmt: skip
        model, flags = recordings.setup(config)
        try:
            self.engine = ENGINE.serve(rules, model, flags, "none", Log())
        except BadInput as refused:
            raise ValueError(str(refused)) from refused
        self.scheduler = self.engine.scheduler
        self.manager = self.scheduler.kv_cache_manager
        self.managers = self.manager.coordinator.single_type_managers
        own = self.manager.block_pool
        own.reporter = None
        own.num_groups = GROUPS
        self.rows, self.shown, self.hasher = {}, {}, Hasher()
        self.block_pool = pool or BlockPool(own.num_gpu_blocks, config["caching"], unit, inner=own,
                                            num_hash_lookahead_tokens=spec.num_hash_lookahead_tokens)  # fmt: skip
        self.set_parts(block_pool=self.block_pool.inner)
        scratch = states[0].num_speculative_blocks if states else 0
        aligned = [getattr(spec, "mamba_cache_mode", "") == "align" for spec in specs]
        for manager, align in zip(self.managers, aligned, strict=True):
            manager.num_speculative_blocks = scratch
            if manager.kv_cache_group.kind == "mamba":
                manager.align = align
                manager.missing_block_rule = V0_33_0.split.rule if align else ""
        self.set_layout(need_mamba_block_aligned_split=any(aligned))
        self.scheduler._get_new_block_ids_to_zero = self.manager.take_new_block_ids
        self.zeroes = True

    def set_parts(self, **changes):
        """Change an attribute of all parts that have it."""
        for part in (self.scheduler, self.manager, self.manager.coordinator, *self.managers):
            for name, value in changes.items():
                if hasattr(part, name):
                    setattr(part, name, value)

    def set_layout(self, **changes):
        """Change sizes."""
        config = self.scheduler.vllm_config
        layout = config.kv_cache_config._replace(**changes)
        self.set_parts(vllm_config=config._replace(kv_cache_config=layout), kv_cache_config=layout, **changes)

    @property
    def layout(self):
        """The groups, and sizes."""
        return self.scheduler.vllm_config.kv_cache_config

    def set_options(self, **changes):
        """Change options."""
        config = self.scheduler.vllm_config
        self.set_parts(vllm_config=config._replace(options=replace(config.options, **changes)))

    @property
    def retention(self):
        """Tokens between published states, None = dense."""
        interval = self.managers[0].retention_interval
        return None if interval == DENSE else interval

    @retention.setter
    def retention(self, interval):
        self.set_parts(retention_interval=DENSE if interval is None else interval)

    def row(self, request):
        """Return our request for one of vLLM's, or for the name of one."""
        name = getattr(request, "request_id", request)
        row = self.rows.get(name)
        if row is None:
            task = ReceivedRequest(len(self.rows), ClientRequest((0,)), Answer(0))
            row = self.rows[name] = Request(len(self.rows), task, [0], self.hasher)
            self.scheduler.requests[row.request_id] = row
        if name is not request:
            row.all_token_ids = list(request.all_token_ids)
            row.block_hashes = [number(block_hash) for block_hash in request.block_hashes]
            row.num_computed_tokens = request.num_computed_tokens
            row.num_in_flight_tokens = request.num_in_flight_tokens
            row.shared_prefix_boundary = request.shared_prefix_boundary
            row.num_prompt_tokens = request.num_prompt_tokens
            row.task.request = ClientRequest(tuple(request.prompt_token_ids or (0,)),
                                             cache_prompt=not request.skip_reading_prefix_cache)  # fmt: skip
        return row

    def views(self, blocks):
        """Return blocks with vLLM's names."""
        return [self.block_pool.blocks[one] for one in blocks]

    def refresh(self):
        """Show the current block tables in the lists that a test holds."""
        for (group, name), shown in self.shown.items():
            shown[:] = self.views(self.managers[group].req_to_blocks.get(self.row(name).request_id, ()))
