"""Recorder of the cells of a shared cache after each request of a judged run."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.scenarios.runner import SilentObserver
from cachesim.scenarios.schema import Action
from cachesim.tools.picture.block_cells import Cells
from cachesim.tools.picture.tree_cells import Tree

REQUESTS = 24                         # requests after which cells are drawn, at most


class CellHistory(NamedTuple):
    """Parts of a server's memory, and the cells that requests share after each of the first steps, by its number."""

    parts: frozenset[str] = frozenset()         # "base" and "swa" for K/V rows, "idx" for index rows, "state"
    ratios: Sequence[int] = ()                  # tokens that a compressed row stands for, ascending
    blocks: Mapping[int, Cells] = {}            # used blocks of a pool
    nodes: Mapping[int, Tree] = {}              # nodes of a radix tree, of a server without a pool of blocks

    @property
    def strips(self) -> int:
        """Number of lines that index rows and compressed rows need in a picture."""
        return len(self.ratios) + 1 if "idx" in self.parts else len(self.ratios)


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
        parts |= {layer.attention.chooser.part for layer in layers if layer.attention and layer.attention.chooser}
        ratios = sorted({layer.ratio for layer in layers if layer.ratio})
        return CellHistory(frozenset(parts), ratios, blocks=dict(sorted(self.blocks.items())),
                           nodes=dict(sorted(self.nodes.items())))  # fmt: skip
