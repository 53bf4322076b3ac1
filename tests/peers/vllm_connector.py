"""vLLM's offloading connector behind the real scheduler: its settings, its transfers, and its CPU memory.

No worker runs: whoever drives the scheduler says when a transfer ends.
"""

from __future__ import annotations

from types import SimpleNamespace

from vllm.distributed.kv_transfer.kv_connector.v1.offloading import scheduler
from vllm.distributed.kv_transfer.kv_connector.v1.offloading.common import OffloadingWorkerMetadata
from vllm.v1.kv_offload.base import get_offload_block_hash, get_offload_group_idx
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec
from vllm.v1.outputs import KVConnectorOutput

ROW = 2 * 4                  # bytes of a token of a group: key and value, one number each


def connect(settings, config):
    """Add the connector of a header to the settings of the scheduler."""
    told = config["offload"]
    page = sum(ROW * group["block_size"] for group in config["groups"]) * told["blocks_per_chunk"]
    page += -page % CPUOffloadingSpec.BLOCK_SIZE_ALIGNMENT
    extra = {**told, "cpu_bytes_to_use": told["num_cpu_chunks"] * page}
    settings.kv_transfer_config = SimpleNamespace(
        kv_connector="OffloadingConnector", kv_connector_module_path=None, engine_id="one", is_kv_consumer=True,
        is_kv_producer=True, kv_load_failure_policy="recompute", kv_connector_extra_config=extra)  # fmt: skip
    settings.scheduler_config.disable_hybrid_kv_cache_manager = False
    vars(settings.parallel_config).update(
        rank=0, world_size=1, tensor_parallel_size=1, data_parallel_rank_local=None, nnodes_within_dp=1,
        distributed_executor_backend="uni")  # fmt: skip
    vars(settings.model_config).update(use_mla=False, model="m", dtype="float32", get_total_num_kv_heads=lambda: 1)
    vars(settings.cache_config).update(
        cache_dtype="auto", kv_cache_layout=None, prefix_cache_retention_interval=config["retention"])
    return settings


def copies(blocks, places, per_chunk):
    """Return the copies of a transfer: a block of the pool, and a block of CPU memory of which a chunk has several."""
    pairs, ids, places = [], iter(blocks.block_ids.tolist()), iter(places.block_ids.tolist())
    for size, first in zip(blocks.group_sizes, blocks.block_indices, strict=True):
        for at in range(first, first + size):
            if at == first or at % per_chunk == 0:
                place = next(places)
            pairs.append([next(ids), place * per_chunk + at % per_chunk])
    return pairs


class InOrder(set):
    """A set that is iterated in the order in which it was made."""

    def __init__(self, items=()):
        """Contain these items."""
        self.made = list(items)
        super().__init__(self.made)

    def __iter__(self):
        return iter(dict.fromkeys([*(one for one in self.made if one in self), *super().__iter__()]))


# 0.30.0 lets chunks of a transfer make room in the order of a set of bytes, which is another one in every process.
scheduler.set = InOrder


class Jobs:
    """The transfers of a server that have not ended: number -> request that loads, None for a store; ``flush``: those
    that the worker ends with the last step."""

    def __init__(self, scheduler, per_chunk):
        """Begin without transfers."""
        self.scheduler, self.per_chunk, self.open, self.flush = scheduler, per_chunk, {}, set()

    def take(self, output):
        """Return what a step says about transfers: loads, stores, and the order of the requests that ended."""
        meta = output.kv_connector_metadata
        self.flush = {*(meta.jobs_to_flush or ())}
        self.open |= {number: job.req_id for number, job in meta.load_jobs.items()}
        self.open |= dict.fromkeys(meta.store_jobs)
        found = {
            "loads": [copies(job.dst_spec, job.src_spec, self.per_chunk) for job in meta.load_jobs.values()],
            "stores": [copies(job.src_spec, job.dst_spec, self.per_chunk) for job in meta.store_jobs.values()],
            "ended": [int(name) for name in output.finished_req_ids],
        }
        return {name: value for name, value in found.items() if value}

    def loads(self):
        """True if a request loads, or has loaded: vLLM then raises if a reset preempts the others."""
        held = getattr(self.scheduler, "kv_holding_waiting", None) or getattr(self.scheduler, "skipped_waiting", ())
        return any(self.open.values()) or bool(held)

    def drawn(self, rng, late):
        """Return the numbers of the transfers that end now: each is late with this probability, unless flushed."""
        return [number for number in self.open if number in self.flush or rng.random() >= late]

    def end(self, numbers):
        """Return the worker's report that these transfers ended."""
        loaded = [name for name in dict.fromkeys(self.open.pop(number) for number in numbers) if name is not None]
        return KVConnectorOutput(
            finished_recving=loaded, kv_connector_worker_meta=OffloadingWorkerMetadata(dict.fromkeys(numbers, 1)))

    def memory(self, number):
        """Return each chunk of CPU memory: place, number of its hash, group and users."""
        policy = self.scheduler.connector.connector_scheduler.manager._policy
        known = sorted((policy.get(key).chunk_id, key, policy.get(key).ref_cnt) for key in keys_of(policy))
        return [[place, number(get_offload_block_hash(key)), get_offload_group_idx(key), users]
                for place, key, users in known]  # fmt: skip


def keys_of(policy):
    """Return the keys of the chunks that a policy holds."""
    return [key for name in ("chunks", "t1", "t2") for key in getattr(policy, name, ())]
