"""The server: every turn runs a prefill step for waiting requests, or a decode step for the running ones."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import numpy as np

from cachesim.base.errors import Crash
from cachesim.base.tokens import TokenList, Tokens
from cachesim.engines.inspection import Key, RowsPart, StatePart, Stored, TreeCell
from cachesim.engines.sglang.events import Turn
from cachesim.engines.sglang.request_row import Row
from cachesim.engines.sglang.scheduler import Part
from cachesim.engines.sglang.worker import Worker
from cachesim.engines.shared.kv_rows import read_rows
from cachesim.engines.shared.page_pool import NO_SLOTS, Slots
from cachesim.engines.shared.radix_node import Node
from cachesim.engines.shared.request_queue import ReceivedRequest, key_of
from cachesim.engines.shared.tree_points import FULL, STATE, SWA
from cachesim.model import Hidden, Rows


class Server(Worker):
    """A server of a given version. ``said``: number, tokens and output of each request of the last step."""

    said: Sequence[tuple[int, Tokens, Hidden | None]] = ()
    too_long = "The input ({n} tokens) is longer than the model's context length ({most} tokens)."

    def new_row(self, task: ReceivedRequest) -> Row:
        """Return a row for a received request, the next of ``slots``."""
        space = tuple(str(task.request.extra.get(name, "")) for name in ("extra_key", "cache_salt"))
        return Row(len(self.slots), task, TokenList(task.request.prompt), key_of(*space), space=space)

    def abort(self, row: Row) -> None:
        """End a request whose client left."""
        self.leave(row, "none", cancelled=True)

    def work(self) -> None:
        """Run a prefill step if a request can start or continue, else a decode step."""
        self.tree.settle()
        prefilled = self._prefill()
        self.stalled = not prefilled and not self.running
        if not prefilled and self.running:
            self._decode()

    def _prefill(self) -> bool:
        """Run a prefill step; return whether there was one."""
        verdicts: list[list[Any]] = []
        chosen = self.choose_prefill(verdicts)
        if chosen is None:
            return False
        queue = [row.id for row in self.queue_seen]
        parts = self.allocate_prefill(chosen) if chosen else []
        for row in chosen:
            self.record_launch(row, "node", row.prefix)
        self._evaluate(parts)
        self._settle_step([part.row for part in parts], self._end_chunk)
        self.emit(Turn("prefill", queue, verdicts, *_run(parts)))
        return bool(parts)

    def _decode(self) -> None:
        """Run a decode step."""
        retracted, oom = list[int](), list[int]()
        first = parts = self.prepare_decode(retracted, oom)
        while parts:
            self._evaluate(parts)
            parts = [self.decode_part(part.row) for part in first if part.row.computed < part.row.stop]
        run = [part._replace(stop=part.row.computed) for part in first]
        self._settle_step([part.row for part in first], self._ends)
        self.emit(Turn("decode", [], [], *_run(run), retracted, oom))

    def _evaluate(self, parts: list[Part]) -> None:
        """Evaluate the parts of a step. Right draft tokens behind the end of an answer are evaluated, too."""
        if not parts:
            return
        said = self.forward(parts)
        self.said = [(part.row.id, tuple(part.row.identities(0, part.stop)), hidden)
                     for part, hidden in zip(parts, said, strict=True)] if self.model is not None else []  # fmt: skip
        for part, hidden in zip(parts, said, strict=True):
            part.row.computed = part.stop
            self.decline_states(part)
            self._speak(part.row, hidden)

    def _speak(self, row: Row, hidden: Hidden | None) -> None:
        """Append the next token to a request whose tokens are all evaluated."""
        if row.computed < len(row.all):
            return
        if row.over:
            self.record_evaluated(row, hidden)
            row.all.append(self.sampler(row.all, row.task.request, len(row.all) - row.prompt))
            return
        self.record_output(row, hidden)
        row.over = row.left <= 0 or row.all[-1] in row.task.request.eog or len(row.all) >= self.longest

    def _settle_step(self, rows: list[Row], end: Callable[[Row], Any]) -> None:
        """End each request of a step, or what the step was for it."""
        for k in self.rules.settle_order([row is self.chunked for row in rows]):
            row = rows[k]
            end(row)
            at = row.task.request.cancel_at
            if row.busy and at is not None and row.computed >= at:
                self.abort(row)

    def _end_chunk(self, row: Row) -> None:
        """Insert what a chunk has computed; after the last chunk the request generates."""
        if row is self.chunked:
            self.full = False
        else:
            self.running.append(row)
            if self._ends(row):
                return
        self.checkpoint(row, row.stop)
        row.prefix = row.stop

    def _ends(self, row: Row) -> bool:
        """End the request if its answer is complete."""
        if row.over:
            self.leave(row, "limit")
        return row.over

    # Inspection.

    def stored(self, key: Key, start: int = 0) -> Stored:
        """Return the content of a node or its state; for a slot, the content of a request's row."""
        kind, owner, _ = key
        if kind == "slot":
            row = self.slots[owner]
            n = min(row.computed, row.allocated)
            slots, first = row.buffer[:n], max(n - self.window, 0)
            cells = self.kv.peer[slots[first:]] if self.window else None
            rows = self._rows(slots, 0, cells, first, self.window) if n else ()
            return Stored("slot", owner, (), n, rows, self._state(row.state, n))
        node = self.tree.arena[owner]
        if kind == "state":
            return Stored(kind, owner, node.text[: node.end], node.end, (), self._state(node.value[STATE], node.end))
        if node.value[FULL] is None and self.tree.host is not None:
            copied = {i: read_rows(kept, node.host) for i, kept in self.tree.host.rows.items()}
            parts: tuple[RowsPart, ...] = (RowsPart(0, np.arange(node.start, node.end), copied),)
        else:
            parts = self._rows(node.value[FULL], node.start, node.value[SWA], node.start, 0)
        text = node.text if node.start else node.text[: node.end]
        return Stored(kind, owner, text, node.end, parts, None, node.start)

    def _rows(self, slots: Slots, start: int, cells: Slots | None, first: int, window: int) -> tuple[RowsPart, ...]:
        """Return the rows in slots of positions from ``start`` on, and those in window cells from ``first`` on. The
        window of a node is compared whole (0): a match may end inside the node."""
        parts = [RowsPart(0, np.arange(start, start + len(slots)), self._read(slots, window=False))]
        if cells is not None:
            parts.append(RowsPart(window, np.arange(first, first + len(cells)), self._read(cells, window=True)))
        return tuple(part for part in parts if part.rows)

    def _read(self, cells: Slots, window: bool) -> dict[int, Rows]:
        layers = self.kind.layers
        return {i: read_rows(kept, cells) for i, kept in self.rows.items() if bool(layers[i].window) == window}

    def _state(self, slot: int | None, n: int) -> StatePart | None:
        if STATE not in self.parts:
            return None
        held = self.states.content.get(slot, {})
        layers = [i for i, layer in enumerate(self.kind.layers) if layer.recurrence]
        return StatePart(n - 1, {i: held.get(i) for i in layers})

    def nodes(self) -> list[TreeCell]:
        """Return the nodes of the tree."""
        return self.points.cells()

    def checkpoints(self, slot: int) -> list[int]:
        """Return the lengths of all states, ascending: requests share them."""
        return sorted(node.end for node in self.tree.nodes() if node.value[STATE] is not None)

    @property
    def at_work(self) -> int:
        """Number of requests that run, with the one that is evaluated in chunks."""
        return len(self.running) + (self.chunked is not None)

    def check(self) -> None:
        """Raise Crash unless sizes, leaves, recency lists and free slots agree with the nodes."""
        self.tree.check()
        self._check_slots(list(self.tree.nodes()))

    def _check_slots(self, nodes: list[Node]) -> None:
        """Every slot is free, in the tree, or in one request's own part of its row."""
        rows = [row for row in self.slots if row.allocated]
        own = [row.buffer[row.protected : row.allocated] for row in rows]
        held = [node.value[FULL] for node in nodes if node.value[FULL] is not None]
        slots = np.concatenate([*held, *own, NO_SLOTS])
        self.kv.full.check(slots)
        if self.tree.host is not None:
            self.tree.host.check(np.concatenate([NO_SLOTS, *(node.host for node in nodes if node.host is not None)]))
        if self.kv.window is not None:
            self.kv.window.check(self.kv.peer[slots])
        if STATE in self.parts:
            states = [node.value[STATE] for node in nodes if node.value[STATE] is not None]
            states += [slot for row in self.slots for slot in (row.state, *(row.track or ())) if slot is not None]
            if len(set(states)) < len(states):
                raise Crash("slots of states are used twice")
            self.states.check(np.array(states, np.int64))


def _run(parts: list[Part]) -> tuple[list[list[int]], list[int]]:
    """Return the parts of a step as a recording holds them, and the requests that it ended."""
    run = [[part.row.id, part.start, part.stop, *([] if part.track is None else [part.track])] for part in parts]
    return run, [part.row.id for part in parts if not part.row.busy]
