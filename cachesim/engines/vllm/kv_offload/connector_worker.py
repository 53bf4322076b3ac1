"""Worker side of the offloading connector: copies of blocks between the pool and CPU memory.

Source: vLLM vllm/distributed/kv_transfer/kv_connector/v1/offloading/worker.py (0.33.0).
"""

from __future__ import annotations

from typing import Iterable

from cachesim.engines.vllm.core.scheduler_output import OffloadingConnectorMetadata
from cachesim.engines.vllm.kv_offload.transfer_jobs import TransferJob
from cachesim.engines.vllm.worker.block_contents import BlockContents


class OffloadingConnectorWorker:
    """Copies of blocks. Blocks of CPU memory are numbered from the end of the pool. A load ends with its step, a store
    with the next one. ``kv_caches``: the contents, None = nothing is computed."""

    def __init__(self, kv_caches: BlockContents | None, num_gpu_blocks: int) -> None:
        self.kv_caches = kv_caches
        self.num_gpu_blocks = num_gpu_blocks
        self.delayed_stores: list[int] = []         # of the last step
        self.running_jobs: list[int] = []

    def start_kv_transfers(self, metadata: OffloadingConnectorMetadata) -> None:
        """Copy what comes before the evaluation of a step."""
        self._copy(metadata.jobs_to_flush)
        self._copy(metadata.load_jobs)
        self.running_jobs += self.delayed_stores
        self.running_jobs += [job.job_id for job in metadata.load_jobs]
        self.delayed_stores = [job.job_id for job in metadata.jobs_to_flush]

    def prepare_store_kv(self, metadata: OffloadingConnectorMetadata) -> None:
        """Copy what the step computed."""
        self._copy(metadata.store_jobs)
        self.delayed_stores += [job.job_id for job in metadata.store_jobs]

    def get_finished(self) -> list[int]:
        """Return the transfers that ended."""
        finished = self.running_jobs
        self.running_jobs = []
        return finished

    def _copy(self, jobs: Iterable[TransferJob]) -> None:
        if self.kv_caches is None:
            return
        for job in jobs:
            for block, place in job.copies:
                inside = block
                outside = self.num_gpu_blocks + place
                self.kv_caches.change((), [(inside, outside) if job.is_store else (outside, inside)])
