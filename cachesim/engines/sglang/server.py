"""The server: requests in, a step per round, tokens out; its inspection.

Source: sgl-project/sglang python/sglang/srt/managers/scheduler.py Scheduler.event_loop_normal (0.5.23).
"""

from __future__ import annotations

import numpy as np

from cachesim.base.tokens import TokenList
from cachesim.engines.inspection import Key, RowsPart, StatePart, Stored, TreeCell
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.managers.scheduler import Scheduler
from cachesim.engines.sglang.mem_cache.allocator import Slots
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.runtime_context import get_runtime_context
from cachesim.engines.shared.kv_rows import read_rows
from cachesim.engines.shared.request_queue import ReceivedRequest, RequestQueue, key_of


class Server(RequestQueue):
    """A server of a given version. ``slots``: all requests received so far."""

    too_long = "The input ({n} tokens) is longer than the model's context length ({most} tokens)."

    def start_memory(self) -> None:
        """Start the scheduler with an empty memory."""
        self.context = get_runtime_context(self.rules, self.kind, self.opts, self.log)
        self.scheduler = Scheduler(self.context, self.model, self.sampler)
        self.waiting = self.scheduler.waiting_queue
        self.running = self.scheduler.running_batch.reqs
        self.points = self.scheduler.tree_cache.points
        self.longest = self.scheduler.max_req_len
        self.most_running = self.scheduler.max_running_requests

    def new_row(self, task: ReceivedRequest) -> Req:
        """Return a received request, the next of ``slots``."""
        fields = task.request.extra
        names = (str(fields.get("extra_key", "")), str(fields.get("cache_salt", "")))
        return Req(len(self.slots), task, TokenList(task.request.prompt), extra_key=names, key=key_of(*names),
                   priority=int(fields.get("priority", 0)))  # fmt: skip

    def enqueue(self, row: Req) -> None:
        """Let a received request wait."""
        self.scheduler.add_request(row)

    def abort(self, row: Req) -> None:
        """End a request whose client left."""
        self.scheduler.abort_request(row)

    def work(self) -> None:
        """Run a step."""
        self.stalled = not self.scheduler.run_step()

    @property
    def at_work(self) -> int:
        """Number of requests that run, with the one that is evaluated in chunks."""
        return self.scheduler.num_running_reqs

    # Inspection.

    def stored(self, key: Key, start: int = 0) -> Stored:
        """Return the content of a node or its state; for a slot, the content of a request's row."""
        kind, owner, _ = key
        if kind == "slot":
            return self._stored_by_request(self.slots[owner])
        node = self.scheduler.tree_cache.tree_core.nodes_by_id[owner]
        if kind == "state":
            state = self._state(node.value[MAMBA], node.end)
            return Stored(kind, owner, node.text[: node.end], resume=node.end, rows=(), state=state)
        text = node.text if node.start else node.text[: node.end]
        return Stored(kind, owner, text, resume=node.end, rows=self._rows_of_node(node), state=None, start=node.start)

    def _stored_by_request(self, req: Req) -> Stored:
        """Return the content of a request's row."""
        kv = req.kv
        end = min(kv.kv_committed_len, kv.kv_allocated_len)
        found = Stored("slot", req.rid, (), resume=end, rows=(), state=self._state(kv.mamba_pool_idx, end))
        if not end:
            return found
        slots = self.scheduler.pools.req_to_token_pool.read(req.rid, 0, end)
        parts = [self._rows(slots, 0)]
        window = self.context.sliding_window_size
        if window:
            first = max(end - window, 0)
            swa_slots = self.scheduler.pools.swa_allocator.translate_loc_from_full_to_swa(slots[first:])
            parts.append(self._window_rows(swa_slots, first, window))
        return found._replace(rows=tuple(part for part in parts if part.rows))

    def _rows_of_node(self, node: UnifiedTreeNode) -> tuple[RowsPart, ...]:
        """Return the rows of a node, or of its copy. Its window is compared whole (0): a match may end inside it."""
        controller = self.scheduler.tree_cache.cache_controller
        if node.evicted and controller is not None:
            copied = {i: read_rows(kept, node.host_value) for i, kept in controller.mem_pool_host.kv_buffer.items()}
            return (RowsPart(0, np.arange(node.start, node.end), copied),)
        parts = [self._rows(node.value[FULL], node.start)]
        if node.value[SWA] is not None:
            parts.append(self._window_rows(node.value[SWA], node.start, window=0))
        return tuple(part for part in parts if part.rows)

    def _rows(self, slots: Slots, start: int) -> RowsPart:
        """Return the rows of full attention in slots of positions from ``start`` on."""
        rows = self.scheduler.pools.token_to_kv_pool.read(slots, window=False)
        return RowsPart(0, np.arange(start, start + len(slots)), rows)

    def _window_rows(self, swa_slots: Slots, start: int, window: int) -> RowsPart:
        """Return the rows in window slots of positions from ``start`` on."""
        rows = self.scheduler.pools.token_to_kv_pool.read(swa_slots, window=True)
        return RowsPart(window, np.arange(start, start + len(swa_slots)), rows)

    def _state(self, slot: int | None, end: int) -> StatePart | None:
        """Return the states in a slot, after ``end`` tokens; None for a model without states."""
        if not self.context.supports_mamba:
            return None
        return StatePart(end - 1, self.scheduler.tp_worker.read_states(slot))

    def nodes(self) -> list[TreeCell]:
        """Return the nodes of the tree."""
        return self.scheduler.tree_cache.points.cells()

    def checkpoints(self, slot: int) -> list[int]:
        """Return the lengths of all states, ascending: requests share them."""
        nodes = self.scheduler.tree_cache.tree_core.nodes()
        return sorted(node.end for node in nodes if node.value[MAMBA] is not None)

    def check(self) -> None:
        """Raise Crash unless sizes, leaves, recency lists and free slots agree with the nodes. Every slot is free, in
        the tree, or in one request's own part of its row."""
        pool = self.scheduler.pools.req_to_token_pool
        own = list[Slots]()
        states = list[int]()
        for req in self.slots:
            kv = req.kv
            states += kv.mamba_slots
            if kv.kv_allocated_len:
                own.append(pool.read(req.rid, kv.cache_protected_len, kv.kv_allocated_len))
        self.scheduler.tree_cache.check(own, states)
