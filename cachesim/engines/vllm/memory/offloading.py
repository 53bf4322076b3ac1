"""CPU offload: requests load chunks from CPU memory before they start, and store those that they computed.

A load begins before its step is evaluated, and a store after it; an ended request stores in the step that follows,
before others write in its blocks. Source: vLLM vllm/v1/core/sched/scheduler.py,
vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py, worker.py (0.33.0).
"""

from __future__ import annotations

from typing import Iterable, Sequence

from cachesim.engines.vllm.kv_offload.cpu_offload import Offload
from cachesim.engines.vllm.kv_offload.offload_requests import Transfer, Transfers
from cachesim.engines.vllm.memory.tables import Tables
from cachesim.engines.vllm.row import Row
from cachesim.engines.vllm.rules.lookup import Hit


class Offloading(Tables):
    """The CPU memory of a server. ``ended``: requests that ended since the last step; ``aborted``: those whose blocks a
    load still writes; ``delayed``: stores of the last step, which the worker begins with the next one."""

    skipped: list[Row]

    def start_offload(self) -> None:
        """Create an empty CPU memory."""
        opts, self.ended, self.aborted, self.delayed = self.opts, list[Row](), list[Row](), list[Transfer]()
        chunks = Offload(opts.num_cpu_chunks, opts.eviction_policy, opts.store_threshold)
        self.transfers = Transfers(chunks, [group.block for group in self.groups], opts.blocks_per_chunk,
                                   self.layout.unit, opts.enable_prefix_caching)  # fmt: skip

    def loadable(self, row: Row, local: int) -> int | None:
        """Return the tokens that a request can load behind ``local`` tokens of the pool; None = it waits."""
        found: int | None = 0
        if self.opts.num_cpu_chunks:
            reads = row.task.request.cache_prompt
            found = self.transfers.match(row.offload, row.hashes, local, len(row.all), reads)
            starts = self.decide(self.rules.wait_for_chunks(found is None), row)
            found = self.decide(self.rules.load_chunks(found or 0, local), row) or 0 if starts else None
        row.found = row.found if row.launched else local + (found or 0)
        return found

    def begin_load(self, loads: list[Transfer], row: Row, hit: Hit, tokens: int) -> bool:
        """Begin to load tokens behind a cached prefix; return whether enough blocks are free."""
        others = [one for one in (*self.running, *self.skipped, *self.waiting)
                  if (one.prefill if one.running else one.computed)]
        reserved = self.rules.reserve_for_prompts([*map(self.needed_at_last, others)])
        if self.allocate(row, 0, hit, 0, bool(self.running), tokens, reserved) is None:
            return False
        row.computed, row.loading = hit.n + tokens, True
        loads.append(self.transfers.load(row.offload, [table.blocks for table in row.tables], tokens))
        return True

    def is_loading(self, row: Row) -> bool:
        """Return whether a request waits for its load. After the load its blocks are published."""
        if row.loading and not row.offload.transfers:
            row.loading = False
            if self.opts.enable_prefix_caching:
                self.publish(row, row.computed)
            row.computed = min(row.computed, self.rules.most_tokens(len(row.all)))
        return row.loading

    def offer(self, scheduled: Iterable[Row]) -> tuple[list[Transfer], list[Transfer]]:
        """Begin to store the complete chunks of ended requests, and of scheduled ones."""
        stores: tuple[list[Transfer], list[Transfer]] = [], []
        if not self.opts.num_cpu_chunks:
            return stores
        for row in scheduled:
            row.offload.tables = [table.blocks for table in row.tables]
            self._store(row, stores[1])
        for row in self.ended:
            self._store(row, stores[0])
        while self.ended:
            self.transfers.offload.finish(self.ended.pop(0).offload.access)
        return stores

    def _store(self, row: Row, stores: list[Transfer]) -> None:
        tokens = self.rules.offered(row.computed, row.prompt, self.opts.offload_prompt_only)
        offer, n = self.transfers.offer(row.offload, row.hashes, tokens), 0
        if offer.missing:
            n = self.decide(self.rules.store_chunks(len(offer.missing), offer.free, len(offer.idle)), row)
        if n is not None and (made := self.transfers.store(offer, n)):
            stores.append(made)

    def leave(self, row: Row) -> None:
        """Free the blocks of an ended request, or let its load end first."""
        if self.opts.num_cpu_chunks:
            self.ended.append(row)
        if row.offload.transfers and row.loading:
            self.aborted.append(row)
        else:
            self.free_row(row)

    def end_transfers(self, numbers: Sequence[int]) -> None:
        """End transfers, in the order in which the worker reports them."""
        for number in numbers:
            self.transfers.end(number)
        for row in [row for row in self.aborted if not row.offload.transfers]:
            self.aborted.remove(row)
            self.free_row(row)
