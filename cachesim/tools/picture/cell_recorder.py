"""Recorder of the cells of a shared cache after each request of a judged run."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.scenarios.runner import SilentObserver
from cachesim.scenarios.schema import Action
from cachesim.tools.picture.block_cells import Cells
from cachesim.tools.picture.tree_cells import Tree

REQUESTS = 24                         # requests after which cells are drawn, at most


class CellHistory(NamedTuple):
    """Parts of a server's memory, and the cells that requests share after each of the first steps, by its number."""

    parts: frozenset[str] = frozenset()         # "base" and "swa" for K/V rows, "state"
    blocks: Mapping[int, Cells] = {}            # used blocks of a pool
    nodes: Mapping[int, Tree] = {}              # nodes of a radix tree, of a server without a pool of blocks


class CellRecorder(SilentObserver):
    """Observer that records the cells after each step."""

    server: Server

    def __init__(self) -> None:
        self.blocks, self.nodes = dict[int, Cells](), dict[int, Tree]()

    def started(self, server: Server) -> None:
        """Attach to a server that has started, also after a restart."""
        self.server = server

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """Record the cells after a completion."""
        self._record(number)

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        """Record the cells after a step that is not a completion."""
        self._record(number)

    def _record(self, number: int) -> None:
        if number >= REQUESTS:
            return
        cells = self.server.cache_cells
        if blocks := cells.blocks():
            self.blocks[number] = blocks
        else:
            self.nodes[number] = cells.nodes()

    def cells(self) -> CellHistory:
        """Return the record. Call it after the run."""
        layers = self.server.model.spec.layers if self.server.model is not None else ()
        parts = {layer.part for layer in layers} | {"state" for layer in layers if layer.recurrence}
        return CellHistory(frozenset(parts), dict(sorted(self.blocks.items())), dict(sorted(self.nodes.items())))
