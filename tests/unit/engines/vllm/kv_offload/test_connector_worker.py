"""The worker's copies of blocks: when each is made, and when its transfer ends."""

from __future__ import annotations

import pytest

from cachesim.engines.vllm.core.scheduler_output import OffloadingConnectorMetadata
from cachesim.engines.vllm.kv_offload.connector_worker import OffloadingConnectorWorker
from cachesim.engines.vllm.kv_offload.transfer_jobs import RequestOffloadState, TransferJob


class Contents:
    """Records copies."""

    def __init__(self):
        self.copies = []

    def change(self, zeroed, copies):
        assert not zeroed
        self.copies += copies


def job(number, *copies, is_store):
    return TransferJob(number, RequestOffloadState(1), (), copies, is_store)


STORE, LAST, LOAD = (job(0, (3, 0), (4, 1), is_store=True), job(1, (5, 2), is_store=True),
                     job(2, (6, 0), is_store=False))  # fmt: skip
METADATA = OffloadingConnectorMetadata(load_jobs=[LOAD], store_jobs=[STORE], jobs_to_flush=[LAST])


def test_last_chunks_and_loads_come_before_the_step_and_stores_after_it():
    """Blocks of CPU memory are numbered behind the ten of the pool."""
    contents = Contents()
    worker = OffloadingConnectorWorker(contents, 10)
    worker.start_kv_transfers(METADATA)
    assert contents.copies == [(5, 12), (10, 6)]
    worker.prepare_store_kv(METADATA)
    assert contents.copies == [(5, 12), (10, 6), (3, 10), (4, 11)]


@pytest.mark.parametrize("contents", [None, Contents()])
def test_a_load_ends_with_its_step_and_a_store_with_the_next_one(contents):
    worker = OffloadingConnectorWorker(contents, 10)
    found = []
    for metadata in (METADATA, OffloadingConnectorMetadata(), OffloadingConnectorMetadata()):
        worker.start_kv_transfers(metadata)
        worker.prepare_store_kv(metadata)
        found.append(worker.get_finished())
    assert found == [[2], [1, 0], []]
