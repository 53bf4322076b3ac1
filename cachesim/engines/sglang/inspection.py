"""Inspection of the server: contents of requests, nodes and states, and the nodes of the tree."""

from __future__ import annotations

from typing import Iterable, Sequence

import numpy as np

from cachesim.engines.inspection import (
    ExceededLimit,
    Key,
    ResumeUnit,
    RowsPart,
    StatePart,
    StoredContent,
    StoredObject,
    TokenPrefix,
    TreeCell,
)
from cachesim.engines.server_parts import CacheCells
from cachesim.engines.sglang.managers.req import Req
from cachesim.engines.sglang.managers.scheduler import Scheduler
from cachesim.engines.sglang.mem_cache.allocator import Slots
from cachesim.engines.sglang.mem_cache.pool_host import HostKVCache, MambaPoolHost
from cachesim.engines.sglang.mem_cache.unified_cache.component_type import FULL, MAMBA, PARTS, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_core import UnifiedTreeCore
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.runtime_context import RuntimeContext
from cachesim.engines.shared.kv_rows import read_rows
from cachesim.engines.shared.request_queue import RequestInspection, too_many


class Inspection(RequestInspection):
    """Contents of requests, nodes and states. ``slots``: all requests received so far."""

    slots: Sequence[Req]

    def __init__(self, context: RuntimeContext, slots: Sequence[Req], unfinished: Iterable[Req],
                 scheduler: Scheduler) -> None:  # fmt: skip
        super().__init__(slots, scheduler.tree_cache.points)
        self.unfinished = unfinished
        self.sliding_window_size = context.sliding_window_size
        self.supports_mamba = context.supports_mamba
        self.scheduler = scheduler
        self.tree_cache = scheduler.tree_cache
        self.pools = scheduler.pools
        self.tp_worker = scheduler.tp_worker

    @property
    def resume_unit(self) -> ResumeUnit:
        """The page of the tree."""
        return ResumeUnit(self.points.page, "page")

    def occupied_slots(self) -> list[int]:
        """Return the requests in progress: an ended request leaves only what others can find."""
        return [req.rid for req in self.unfinished]

    def exceeded_limits(self) -> list[ExceededLimit]:
        """Return an excess if more requests run than allowed."""
        return too_many(self.scheduler.num_running_reqs, self.scheduler.max_running_requests)

    def prefix_of(self, slot: int) -> TokenPrefix:
        """Return the computed tokens of a request, with their key, as a prefix of all that it has."""
        req = self.slots[slot]
        return TokenPrefix(req.text(), req.seq_len)

    def stored(self, key: Key, start: int = 0) -> StoredObject:
        """Return the content of a node or its state; for a slot, the content of a request's row."""
        kind, owner, _ = key
        if kind == "slot":
            return self._stored_by_request(self.slots[owner])
        node = self.tree_cache.tree_core.nodes_by_id[owner]
        content = self.content(key)
        if kind == "state":
            return StoredObject(kind, owner, node.text[: node.end], node.end, *content)
        text = node.text if node.start else node.text[: node.end]
        return StoredObject(kind, owner, text, node.end, *content, node.start)

    def content(self, key: Key, start: int = 0) -> StoredContent:
        """Return the rows or the state of a node; for a slot, the rows and states of a request."""
        kind, owner, _ = key
        if kind == "slot":
            return super().content(key, start)
        node = self.tree_cache.tree_core.nodes_by_id[owner]
        if kind == "state":
            return StoredContent((), self._state_of_node(node))
        return StoredContent(self._rows_of_node(node), None)

    def _stored_by_request(self, req: Req) -> StoredObject:
        """Return the content of a request's row."""
        kv = req.kv
        end = min(req.seq_len, kv.kv_allocated_len)
        found = StoredObject("slot", req.rid, (), resume=end, rows=(), state=self._state(kv.mamba_pool_idx, end))
        if not end:
            return found
        slots = self.pools.req_to_token_pool.read(req.rid, 0, end)
        parts = [self._rows(slots, 0)]
        window = self.sliding_window_size
        if window:
            first = max(end - window, 0)
            swa_slots = self.pools.swa_allocator.translate_loc_from_full_to_swa(slots[first:])
            parts.append(self._window_rows(swa_slots, first, window))
        return found._replace(rows=tuple(part for part in parts if part.rows))

    def _rows_of_node(self, node: UnifiedTreeNode) -> tuple[RowsPart, ...]:
        """Return the rows of a node, or of its copies. Its window is compared whole (0): a match may end inside it."""
        parts = [self._copied_rows(node, FULL) if node.evicted else self._rows(node.value[FULL], node.start)]
        if node.value[SWA] is not None:
            parts.append(self._window_rows(node.value[SWA], node.start, window=0))
        elif node.host_value[SWA] is not None:
            parts.append(self._copied_rows(node, SWA))
        return tuple(part for part in parts if part.rows)

    def _copied_rows(self, node: UnifiedTreeNode, part: int) -> RowsPart:
        """Return the copies of the rows of a node."""
        assert self.tree_cache.cache_controller is not None
        pool = self.tree_cache.cache_controller.mem_pool_host[part]
        assert isinstance(pool, HostKVCache)
        copied = {i: read_rows(kept, node.host_value[part]) for i, kept in pool.kv_buffer.items()}
        return RowsPart(0, np.arange(node.start, node.end), copied)

    def _state_of_node(self, node: UnifiedTreeNode) -> StatePart | None:
        """Return the state of a node, or its copy."""
        if not node.has_host_value_only(MAMBA):
            return self._state(node.value[MAMBA], node.end)
        assert self.tree_cache.cache_controller is not None
        pool = self.tree_cache.cache_controller.mem_pool_host[MAMBA]
        assert isinstance(pool, MambaPoolHost)
        return StatePart(node.end - 1, self.tp_worker.states_by_layer(pool.states.read(node.host_value[MAMBA])))

    def _rows(self, slots: Slots, start: int) -> RowsPart:
        """Return the rows of full attention in slots of positions from ``start`` on."""
        rows = self.pools.token_to_kv_pool.read(slots, window=False)
        return RowsPart(0, np.arange(start, start + len(slots)), rows)

    def _window_rows(self, swa_slots: Slots, start: int, window: int) -> RowsPart:
        """Return the rows in window slots of positions from ``start`` on."""
        rows = self.pools.token_to_kv_pool.read(swa_slots, window=True)
        return RowsPart(window, np.arange(start, start + len(swa_slots)), rows)

    def _state(self, slot: int | None, end: int) -> StatePart | None:
        """Return the states in a slot, after ``end`` tokens; None for a model without states."""
        if not self.supports_mamba:
            return None
        return StatePart(end - 1, self.tp_worker.read_states(slot))

    def checkpoints(self, slot: int) -> list[int]:
        """Return the lengths of all states, ascending: requests share them."""
        mamba = self.tree_cache.mamba
        return [] if mamba is None else mamba.lengths.in_order()

    def check(self) -> None:
        """Raise Crash unless sizes, leaves, recency lists and free slots agree with the nodes. Every slot is free, in
        the tree, or in one request's own part of its row."""
        pool = self.pools.req_to_token_pool
        own = list[Slots]()
        states = list[int]()
        for req in self.slots:
            kv = req.kv
            states += kv.mamba_slots
            if kv.kv_allocated_len:
                own.append(pool.read(req.rid, kv.cache_protected_len, kv.kv_allocated_len))
        self.tree_cache.check(own, states)


HOST_COPIES = ("copy in host memory", "window in host memory", "state in host memory")


class TreeCells(CacheCells):
    """The nodes of a tree, for pictures."""

    def __init__(self, context: RuntimeContext, tree_core: UnifiedTreeCore) -> None:
        self.parts = context.tree_components
        self.tree_core = tree_core

    def nodes(self) -> list[TreeCell]:
        """Return the nodes of the tree."""
        cells = list[TreeCell]()
        for node in self.tree_core.nodes():
            held = [PARTS[part] for part in self.parts if node.value[part] is not None]
            lacks = [PARTS[part] for part in self.parts if node.value[part] is None]
            held += [HOST_COPIES[part] for part in self.parts if node.host_value[part] is not None]
            assert node.parent is not None
            cells.append(TreeCell(node.id, node.parent.id, start=node.start, end=node.end, held=held, lacks=lacks,
                                  locks=node.lock_ref[FULL]))  # fmt: skip
        return cells
