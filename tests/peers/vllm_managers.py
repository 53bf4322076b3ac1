"""Our block tables under the names of vLLM's managers, see vllm_names."""

from __future__ import annotations

from collections.abc import MutableMapping

from vllm.v1.core.kv_cache_manager import KVCacheBlocks
from vllm.v1.core.kv_cache_utils import KVCacheBlockCopy
from vllm.v1.metrics.stats import PrefixCacheStats
from vllm.v1.request import RequestStatus

from cachesim.engines.vllm.profiles import V0_33_0
from cachesim.engines.vllm.rules.blocks import DENSE, PublicationMask
from cachesim.engines.vllm.rules.lookup import CacheHit, GroupQuery
from cachesim.engines.vllm.rules.schedule import Speculation
from tests.peers.vllm_names import KINDS, SIZES, Core, Named, NotSimulated, number, used


class ByRequest(MutableMapping):
    """The block tables of a group by request."""

    def __init__(self, core, group):
        self.core, self.group = core, group

    @property
    def tables(self):
        """The tables of our manager."""
        return self.core.managers[self.group].req_to_blocks

    def blocks_of(self, name):
        """Return our blocks of a request."""
        return self.tables.get(self.core.row(name).request_id, [])

    def __getitem__(self, name):
        shown = self.core.shown.setdefault((self.group, name), [])
        shown[:] = self.core.views(self.blocks_of(name))
        return shown

    def get(self, name, default=None):
        """Return a table."""
        return self[name] if name in self.core.rows else default

    def __contains__(self, name):
        return bool(self.get(name))

    def __setitem__(self, name, blocks):
        self.core.shown[self.group, name] = blocks
        self.tables[self.core.row(name).request_id] = [block.block_id for block in blocks]

    def __delitem__(self, name):
        self.core.shown.pop((self.group, name), None)

    def __iter__(self):
        return (name for name, row in self.core.rows.items() if self.tables.get(row.request_id))

    def __len__(self):
        return len([*self])


def sizes_of(kind, spec):
    """Return the window or chunk of a spec."""
    return getattr(spec, SIZES[kind][1]) if kind in SIZES else 0


class Manager(Named):
    """The tables of a group, in a server of its own or in that of a cache manager."""

    supports_fine_grained_hash_lookup = False

    def __init__(self, kv_cache_spec, block_pool, enable_caching=True, kv_cache_group_id=0, scheduler_block_size=0,
                 dcp_world_size=1, pcp_world_size=1, needs_kv_cache_zeroing=False,
                 max_admission_blocks_per_request=None):  # fmt: skip
        if kv_cache_group_id or dcp_world_size > 1:
            raise NotSimulated("a manager of its own for a later group or with parallel contexts")
        none = Speculation(0, 0, block_pool.num_hash_lookahead_tokens, False)
        core = Core([kv_cache_spec], [False], none, scheduler_block_size, block_pool.hash_block_size, block_pool,
                    caching=enable_caching)  # fmt: skip
        core.set_layout(cache_hit_alignment_tokens=scheduler_block_size)
        core.set_parts(max_admission_blocks_per_request=max_admission_blocks_per_request or 0)
        core.zeroes = needs_kv_cache_zeroing and core.managers[0].kv_cache_group.kind != "mamba"
        self.bind(core, 0, kv_cache_spec)

    def bind(self, core, at, spec):
        """Show a group of a server."""
        self.core, self.ours, self.at, self.kv_cache_spec = core, core.managers[at], at, spec
        self.req_to_blocks, self.block_pool, self.kv_cache_group_id = ByRequest(core, at), core.block_pool, at
        return self

    group = property(lambda self: self.ours.kv_cache_group)
    block_size = property(lambda self: self.group.block_size)
    _null_block = property(lambda self: self.block_pool.null_block)
    dcp_world_size = property(lambda self: self.group.block_size // self.kv_cache_spec.block_size)

    @property
    def use_eagle(self):
        """True if lookups of the group drop a block."""
        return self.ours.use_eagle

    @use_eagle.setter
    def use_eagle(self, drop):
        self.ours.use_eagle = drop

    records_new_block_ids = property(lambda self: self.core.zeroes)
    cache_hit_alignment_tokens = property(lambda self: self.ours.cache_hit_alignment_tokens,
                                          lambda self, n: self.core.set_layout(cache_hit_alignment_tokens=n))

    @property
    def drop_eagle_checkpoint_block(self):
        """True if lookups drop a block."""
        return self.core.layout.speculation.use_eagle_block_drop

    @drop_eagle_checkpoint_block.setter
    def drop_eagle_checkpoint_block(self, drop):
        speculation = self.core.layout.speculation
        self.core.set_layout(speculation=speculation._replace(use_eagle_block_drop=drop))

    def _by_request(self, kept):
        return {name: kept[row.request_id] for name, row in self.core.rows.items() if row.request_id in kept}

    num_cached_block = property(lambda self: self._by_request(self.ours.num_cached_block))
    _checkpoints = property(lambda self: self._by_request(self.ours.checkpoints))
    _allocated_block_reqs = property(lambda self: self._by_request(
        dict.fromkeys(self.ours.allocated_block_reqs, True)))  # fmt: skip

    def get_num_blocks_to_allocate(self, request_id, num_tokens, new_computed_blocks, total_computed_tokens,
                                   num_local_computed_tokens, num_tokens_main_model, apply_admission_cap=False,
                                   prefill_end=0):  # fmt: skip
        """Return the blocks that a request needs."""
        row = self.core.row(request_id)
        row.all_token_ids = [0] * max(len(row.all_token_ids), prefill_end)
        return self.ours.get_num_blocks_to_allocate(
            row, num_tokens, [one.block_id for one in new_computed_blocks], total_computed_tokens=total_computed_tokens,
            num_local_computed_tokens=num_local_computed_tokens, num_tokens_main_model=num_tokens_main_model,
            apply_admission_cap=apply_admission_cap)

    def add_local_computed_blocks(self, request_id, new_computed_blocks, num_local_computed_tokens,
                                  num_external_computed_tokens):  # fmt: skip
        """Attach found blocks."""
        if num_external_computed_tokens:
            raise NotSimulated("tokens of a connector")
        found = [one.block_id for one in new_computed_blocks]
        self.ours.add_local_computed_blocks(
            self.core.row(request_id).request_id, found, num_local_computed_tokens=num_local_computed_tokens,
            total_computed_tokens=num_local_computed_tokens + num_external_computed_tokens)
        self.core.refresh()

    def allocate_new_blocks(self, request_id, num_tokens, num_tokens_main_model):
        """Add blocks."""
        made = self.ours.allocate_new_blocks(self.core.row(request_id).request_id, num_tokens, num_tokens_main_model)
        self.core.refresh()
        return self.core.views(made)

    def take_new_block_ids(self):
        """Return the blocks to be zeroed."""
        taken = self.ours.take_new_block_ids()
        return taken if self.core.zeroes else []

    def remove_skipped_blocks(self, request_id, processed_computed_tokens, num_prompt_tokens=None):
        """Release blocks."""
        row = self.core.row(request_id)
        if self.group.kind == "rswa":
            row.num_prompt_tokens = 1 << 20 if num_prompt_tokens is None else num_prompt_tokens
        self.ours.remove_skipped_blocks(row, processed_computed_tokens)
        self.core.refresh()

    def cache_blocks(self, request, num_tokens, retention_interval=None, *, replay_boundaries):
        """Publish blocks."""
        core, row = self.core, self.core.row(request)
        core.retention = retention_interval
        self.ours.cache_blocks(row, num_tokens, replay_boundaries)

    def pop_blocks_for_free(self, request_id):
        """Forget a request and return its blocks without the leading null blocks."""
        row = self.core.row(request_id)
        blocks = self.ours.pop_blocks_for_free(row.request_id)
        shown = self.core.shown.pop((self.at, request_id), None)
        first = next((i for i, one in enumerate(blocks) if one), len(blocks))
        return self.core.views(blocks[first:]) if first or shown is None else shown

    def free(self, request_id):
        """Free a request."""
        self.core.manager.coordinator.free(self.core.row(request_id).request_id)
        self.core.shown.clear()

    def new_step_starts(self):
        """Begin a step."""
        self.ours.new_step_starts()

    def get_num_skipped_tokens(self, computed):
        """Return the tokens that are no longer read."""
        return self.ours.get_num_skipped_tokens(computed)

    @classmethod
    @used
    def find_longest_cache_hit(cls, block_hashes, max_length, kv_cache_group_ids, block_pool, kv_cache_spec,
                               drop_eagle_block, alignment_tokens, dcp_world_size=1, pcp_world_size=1):  # fmt: skip
        """Look hashes up."""
        kind = KINDS[type(kv_cache_spec).__name__]
        find = getattr(V0_33_0, f"find_{'full' if kind == 'rswa' else kind}")
        pool, ranks = block_pool.inner, dcp_world_size if kind != "mamba" else 1
        hashes = [number(one) for one in getattr(block_hashes, "block_hashes", block_hashes)]
        n, found = find(
            GroupQuery(
                hashes,
                block_pool.hash_block_size,
                kv_cache_spec.block_size * ranks,
                max_length,
                alignment_tokens,
                drop_eagle_block,
                sizes_of(kind, kv_cache_spec),
                len(kv_cache_group_ids),
                lambda digest: pool.get_cached_block(digest, kv_cache_group_ids),
            )
        )
        return tuple([block_pool.blocks[one] for one in table] for table in found), n

    @classmethod
    @used
    def reachable_block_mask(cls, start_block, end_block, alignment_tokens, kv_cache_spec, use_eagle,
                             retention_interval=None, reachable_boundaries=(), dcp_world_size=1,
                             final_segment_end_block=None):  # fmt: skip
        """Return which blocks are published."""
        if final_segment_end_block is not None:
            raise NotSimulated("the final segment of an offload")
        kind = KINDS[type(kv_cache_spec).__name__]
        keep = {"swa": V0_33_0.mask_swa, "mamba": V0_33_0.mask_mamba}.get(kind, V0_33_0.mask_full)
        block = kv_cache_spec.block_size * (dcp_world_size if kind != "mamba" else 1)
        interval = DENSE if retention_interval is None else retention_interval
        return keep(PublicationMask(start_block, end_block, block, alignment_tokens, interval, reachable_boundaries,
                                    sizes_of(kind, kv_cache_spec), use_eagle))  # fmt: skip


class FullAttentionManager(Manager):
    """Full attention."""

    supports_fine_grained_hash_lookup = True


class RSWAManager(FullAttentionManager):
    """Reference window."""


class SlidingWindowManager(Manager):
    """Sliding window."""


class ChunkedLocalAttentionManager(Manager):
    """Chunked attention."""


class MambaManager(Manager):
    """States."""

    supports_fine_grained_hash_lookup = True


MANAGERS = {"full": FullAttentionManager, "rswa": RSWAManager, "swa": SlidingWindowManager,
            "chunked": ChunkedLocalAttentionManager, "mamba": MambaManager}  # fmt: skip


class Coordinator(Named):
    """The groups of a cache manager."""

    def __init__(self, core, specs):
        self.core = core
        self.single_type_managers = tuple(
            Manager.bind(object.__new__(MANAGERS[group.kind]), core, at, spec)
            for at, (group, spec) in enumerate(zip(core.layout.kv_cache_groups, specs, strict=True))
        )

    enable_partial_hash_hits = property(lambda self: self.core.layout.enable_partial_hash_hits)
    scheduler_block_size = property(lambda self: self.core.layout.scheduler_block_size)
    hash_block_size = property(lambda self: self.core.layout.hash_block_size)
    _cache_hit_alignment_tokens = property(lambda self: self.core.layout.cache_hit_alignment_tokens)
    block_pool = property(lambda self: self.core.block_pool)
    retention_interval = property(lambda self: self.core.retention,
                                  lambda self, interval: setattr(self.core, "retention", interval))  # fmt: skip


class KVCacheManager(Named):
    """Our lookup, allocation, publication and release."""

    def __init__(self, kv_cache_config, max_model_len, scheduler_block_size, hash_block_size, max_in_flight_tokens=None,
                 enable_caching=True, use_eagle=False, num_hash_lookahead_tokens=0, num_prefill_lookahead=0,
                 log_stats=False, enable_kv_cache_events=False, dcp_world_size=1, pcp_world_size=1,
                 metrics_collector=None, watermark=0.0, enable_mamba_shared_prefix_checkpoint=False):  # fmt: skip
        if enable_kv_cache_events or metrics_collector:
            raise NotSimulated("events and metrics of blocks")
        groups = kv_cache_config.kv_cache_groups
        self.kv_cache_config, self.max_model_len, self.enable_caching = kv_cache_config, max_model_len, enable_caching
        self.log_stats, self.prefix_cache_stats = log_stats, PrefixCacheStats() if log_stats else None
        self.core = core = Core(
            [group.kv_cache_spec for group in groups], [group.is_eagle_group for group in groups],
            Speculation(0, num_prefill_lookahead, num_hash_lookahead_tokens, use_eagle), scheduler_block_size,
            hash_block_size, num_blocks=kv_cache_config.num_blocks, max_model_len=max_model_len,
            max_num_batched_tokens=max_in_flight_tokens or max_model_len, caching=enable_caching, watermark=watermark,
            retention=kv_cache_config.prefix_cache_retention_interval, dcp=dcp_world_size,
            shared_prefix_checkpoint=enable_mamba_shared_prefix_checkpoint,
        )  # fmt: skip
        self.block_pool = core.block_pool
        self.mamba_shared_prefix_checkpoint = core.layout.mamba_shared_prefix_checkpoint
        name = "Unitary" if len(groups) == 1 else "Hybrid"
        coordinator = type(f"{name}KVCacheCoordinator", (Coordinator,), {})
        self.coordinator = coordinator(core, [group.kv_cache_spec for group in groups])
        self.empty_kv_cache_blocks = KVCacheBlocks(tuple(() for _ in groups))

    usage = property(lambda self: self.block_pool.get_usage())

    def create_kv_cache_blocks(self, blocks):
        """Return blocks of each group."""
        return KVCacheBlocks(tuple(blocks)) if any(blocks) else self.empty_kv_cache_blocks

    def get_computed_blocks(self, request, max_cache_hit_length=None):
        """Look a request up."""
        if max_cache_hit_length is not None:
            raise NotSimulated("a limit of the hit")
        found = self.core.manager.get_computed_blocks(self.core.row(request))
        tables = map(self.core.views, found.tables.values())
        return self.create_kv_cache_blocks(list(tables)), found.n, found.junction

    def allocate_slots(self, request, num_new_tokens, num_new_computed_tokens=0, new_computed_blocks=None,
                       num_lookahead_tokens=0, full_sequence_must_fit=False, has_scheduled_reqs=True,
                       **more):  # fmt: skip
        """Allocate blocks for a request."""
        if any(more.values()):
            raise NotSimulated(", ".join(name for name, value in more.items() if value))
        if not num_new_tokens and not num_new_computed_tokens:
            raise ValueError("num_new_tokens must be greater than 0 when there are no computed tokens to adopt")
        found = (new_computed_blocks or self.empty_kv_cache_blocks).blocks
        tables = [[one.block_id for one in blocks] for blocks in found]
        hit = CacheHit(num_new_computed_tokens, dict(enumerate(tables)))
        self.core.set_parts(full_sequence_must_fit=full_sequence_must_fit)
        waits = request.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED)
        made = self.core.manager.allocate_slots(self.core.row(request), num_new_tokens, hit,
                                                num_lookahead_tokens=num_lookahead_tokens,
                                                has_scheduled_reqs=has_scheduled_reqs and waits)  # fmt: skip
        self.core.refresh()
        return None if made is None else self.create_kv_cache_blocks([self.core.views(one) for one in made])

    def free(self, request):
        """Free a request."""
        self.core.manager.free(self.core.row(request))
        self.core.rows.pop(request.request_id)
        self.core.shown.clear()

    def cache_blocks(self, request, num_computed_tokens):
        """Publish blocks."""
        if self.enable_caching:
            self.core.manager.cache_blocks(self.core.row(request), num_computed_tokens)

    def remove_skipped_blocks(self, request_id, processed_computed_tokens, num_prompt_tokens=None):
        """Release blocks."""
        self.core.manager.coordinator.remove_skipped_blocks(self.core.row(request_id), processed_computed_tokens)
        self.core.refresh()

    def get_blocks(self, request_id):
        """Return the block tables of a request."""
        return self.create_kv_cache_blocks([self.core.views(blocks) for blocks in
                                            self.core.manager.get_block_ids(self.core.row(request_id).request_id)])

    def get_block_ids(self, request_id):
        """Return the block tables of a request as numbers."""
        return self.get_blocks(request_id).get_block_ids()

    def take_kv_cache_block_copies(self):
        """Return the copies to be made and the blocks that they retain."""
        pairs = [pair for manager in self.core.managers for pair in manager.take_pending_cow_copies()]
        return [KVCacheBlockCopy(*pair) for pair in pairs], self.core.views(one for pair in pairs for one in pair)

    def take_new_block_ids(self):
        """Return the blocks to be zeroed."""
        return [one for manager in self.coordinator.single_type_managers for one in manager.take_new_block_ids()]

    def new_step_starts(self):
        """Begin a step."""
        self.core.manager.new_step_starts()

    def evict_blocks(self, ids):
        """Remove the keys of blocks."""
        self.block_pool.evict_blocks(ids)

    def reset_prefix_cache(self):
        """Remove all keys."""
        done = self.core.manager.reset_prefix_cache()
        if done and self.log_stats:
            self.prefix_cache_stats.reset = True
        return done
