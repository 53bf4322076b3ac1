"""The worker: contents of the blocks, and the evaluation of a step.

A row is in the cell of its position in the block that the worker's table names; a state is in a block of its own. The
tables only grow: a column that the scheduler empties or moves keeps the old block here. Source: vLLM
vllm/v1/worker/gpu_model_runner.py, mamba_utils.py (0.33.0).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.keyed_tokens import IDS
from cachesim.base.tokens import TokenList
from cachesim.engines.base import Output
from cachesim.engines.shared.block_pool import NULL
from cachesim.engines.shared.block_rows import BlockRows, cells_of
from cachesim.engines.shared.cell_step import CellRun, CellStep
from cachesim.engines.shared.kv_rows import read_rows, write_rows
from cachesim.engines.shared.offload_requests import Transfer
from cachesim.engines.shared.vocab import WRONG, CountingSampler, forced_draft
from cachesim.engines.vllm.layout import Group
from cachesim.engines.vllm.row import DraftRowsWrong, Row
from cachesim.engines.vllm.scheduler import Part, Scheduler, Step
from cachesim.events import Decoded
from cachesim.model import LayerState, Rows, Spec
from cachesim.model.hash_mixing import MASK


class Contents(BlockRows):
    """Rows and states of all blocks. The rows of the drafter in group g are those of layer -1 - g. ``windows``,
    ``matrices``: of each layer and block the windows of the convolution, by draft token, and the state with its
    matrix."""

    def __init__(self, kind: Spec, groups: Sequence[Group], drafted: Sequence[Group], slots: Sequence[Row]) -> None:
        self.home = {layer: group for group in groups if group.kind != "mamba" for layer in group.layers}
        self.home |= {-1 - group.number: group for group in drafted}
        super().__init__(kind, {layer: group.block for layer, group in self.home.items()})
        self.groups, self.slots = groups, slots
        self.states = [group for group in groups if group.kind == "mamba"]
        self.state_home = {layer: group for group in self.states for layer in group.layers}
        self.windows: dict[tuple[int, int], list[LayerState]] = {}
        self.matrices: dict[tuple[int, int], LayerState] = {}

    def change(self, zeroed: Sequence[int], copies: Sequence[tuple[int, int]]) -> None:
        """Zero the rows in blocks; copy rows and states of blocks to others."""
        self.zero(zeroed)
        for source, copy in copies:
            self.copy(source, copy)
            for layer in self.state_home:
                self.put(layer, copy, self.windows.get((layer, source)), self.matrices.get((layer, source)))

    def put(self, layer: int, block: int, windows: list[LayerState] | None, matrix: LayerState | None) -> None:
        """Overwrite both parts of a state; None = nothing was ever there."""
        for kept, value in ((self.windows, windows), (self.matrices, matrix)):
            kept.pop((layer, block), None)
            if value is not None:
                kept[layer, block] = value  # type: ignore[assignment]

    def copy_state(self, row: Row, group: Group, source: int, target: int, shift: int) -> None:
        """Copy the state between two columns, see ``state_in``."""
        for layer in group.layers:
            found = self.state_in(layer, row.columns[group.number], source, shift)
            self.put(layer, row.columns[group.number][target], found and [found], found)

    def state_in(self, layer: int, columns: Sequence[int], column: int, shift: int) -> LayerState | None:
        """Return the state in a column, its convolution window shifted by so many tokens, its matrix from as many
        columns further. The null block is beyond the last column."""
        first, last = (columns[at] if at < len(columns) else NULL for at in (column, column + shift))
        windows, matrix = self.windows.get((layer, first)), self.matrices.get((layer, last))
        window = windows[shift] if windows and shift < len(windows) else None
        if window is None or matrix is None:
            return window or matrix
        return LayerState(window.conv, matrix.hash, window.conv_x, matrix.h)

    def learn(self, row: Row, added: list[list[int]], whole: bool) -> None:
        """Add blocks of each group to the worker's tables of a request; ``whole``: it has no others."""
        if whole:
            row.columns, row.cells = [[] for _ in added], [np.zeros(0, np.int64) for _ in added]
        for group, blocks in zip(self.groups, added, strict=True):
            row.columns[group.number] += blocks
            if blocks and group.kind != "mamba":
                row.cells[group.number] = np.concatenate((row.cells[group.number], cells_of(blocks, group.block)))

    def cells(self, layer: int, request: int, start: int, stop: int) -> np.ndarray:
        """Return the cells of a layer for positions start .. stop - 1 of a request."""
        return self.slots[request].cells[self.home[layer].number][start:stop]


class Span(NamedTuple):
    """Tokens of a part from position ``start`` on. ``draft``: number of the draft token, 0 = none; ``inside``: their
    state is kept inside a chunk."""

    part: Part
    start: int
    tokens: Sequence[int]
    draft: int
    inside: bool


class StepStore(CellStep):
    """Store of a step of the model: a run for each span. The states that a step writes are put into the memory by
    ``finish``, in the order in which the kernels write."""

    def __init__(self, contents: Contents, spans: list[Span]) -> None:
        super().__init__(contents, [CellRun(span.part.row.id, span.start, span.tokens, {}) for span in spans])
        self.contents, self.spans = contents, spans

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the state before a span: of the span before, or of the column in which the last chunk ended."""
        span, group = self.spans[run], self.contents.state_home[layer].number
        if span.start > span.part.start:
            return self.after[run - 1][layer]
        if not span.start:
            return None
        row = span.part.row
        return self.contents.state_in(layer, row.columns[group], row.running_column[group], row.accepted - 1)

    def finish(self, run: int) -> None:
        """Write the states of a span: first the convolution at the end of the chunk, last the matrix there."""
        memory, span = self.contents, self.spans[run]
        for layer, group in memory.state_home.items():
            columns, now = span.part.row.columns[group.number], span.part.row.running_column[group.number]
            state = self.after[run][layer]
            if span.inside:
                column = (-(-(span.part.start + span.part.n) // group.block) - 2 if group.align
                          else (span.start + len(span.tokens)) // group.block - 1)
                memory.windows[layer, columns[now]] = [self.after[run + 1][layer]]
                memory.put(layer, columns[column], [state], state)
            elif span.draft:
                memory.windows[layer, columns[now]].append(state)
                memory.matrices[layer, columns[now + span.draft]] = state
            else:
                if span.start == span.part.start:
                    memory.windows[layer, columns[now]] = [state]
                memory.matrices[layer, columns[now]] = state


class Worker(Scheduler):
    """The memory of a server, and its evaluation."""

    kind: Spec
    sampler: CountingSampler

    def start_worker(self) -> None:
        """Create an empty memory."""
        ahead = self.layout.spec.ahead
        self.drafted = [group for group in self.groups if group.kind != "mamba" and group.eagle and ahead]
        self.memory = Contents(self.kind, self.groups, self.drafted, self.slots)

    def evaluate(self, step: Step, accepted: Mapping[int, int] | None = None) -> None:
        """Evaluate a step. ``accepted``: number of right draft tokens by request, None = as the requests state."""
        for part in step.parts.values():
            self._learn(part)
            if part.speaks:
                self._speak(part, None if accepted is None else accepted.get(part.row.id, 0))
        self.spend([(part.start, part.start + part.n) for part in step.parts.values()])
        if self.model is None:
            return
        self._copy_chunks([*step.flushed, *step.loads])
        if step.parts:
            self._compute(step)
        self._copy_chunks(step.stores)

    def _copy_chunks(self, transfers: Sequence[Transfer]) -> None:
        """Copy blocks of chunks: those of CPU memory are numbered from the end of the pool."""
        for made in transfers:
            for block, place in made.copies:
                pair = (block, self.pool.n + place)
                self.memory.copy(*(pair if made.is_store else pair[::-1]))

    def _compute(self, step: Step) -> None:
        """Evaluate the tokens of a step."""
        assert self.model is not None
        self.emit(Decoded(sum(part.n for part in step.parts.values())))
        self.memory.change(step.zeroed, step.copies)
        for part in step.parts.values():
            self._prepare_states(part)
        store = StepStore(self.memory, [span for part in step.parts.values() for span in self._spans(part)])
        for run, (span, hidden) in enumerate(zip(store.spans, self.model.forward(store.runs(), store), strict=True)):
            store.finish(run)
            part = span.part
            if not part.speaks or (span.draft <= part.accepted and not span.inside):
                x = self.model.readout(hidden.x[-1:])[0] if part.speaks and hidden.x is not None else None
                part.outputs.append(Output(span.start + len(span.tokens) - 1, int(hidden.digest[-1]), x))
        for part in step.parts.values():
            self._settle_states(part)
            self._mark_drafts(part)
        for part in step.parts.values() if self.drafted else ():
            self._check_drafts(part)

    def _learn(self, part: Part) -> None:
        """Take over the blocks that the scheduler added, and the text of a request that starts again."""
        row = part.row
        self.memory.learn(row, part.added, part.whole)
        if part.whole:
            row.text, row.running_column, row.accepted, row.marks = TokenList(row.all), {}, 1, [row.key & MASK]
            return
        part.start = min(part.start, len(row.text) - 1)         # without the drafts that a step in flight rejected
        if part.drafts and self.opts.async_scheduling:
            part.drafts = self.draft(row)[: len(part.drafts)]

    def draft(self, row: Row) -> list[int]:
        """Return the drafted tokens behind the last one: as many right ones as the request states."""
        request, k = row.task.request, self.opts.num_speculative_tokens
        right = min(k, request.right_drafts(len(row.text) - 1))
        return forced_draft(self.sampler, row.text, request, len(row.text) - row.prompt, right, k)

    def _speak(self, part: Part, accepted: int | None) -> None:
        """Choose the new tokens of a request: after each right draft token one more."""
        row, request = part.row, part.row.task.request
        while True:
            token = self.sampler(row.text, request, len(row.text) - row.prompt)
            row.text.append(token)
            part.said.append(token)
            at = len(part.said) - 1
            right = part.drafts[at : at + 1] == [token] if accepted is None else at < accepted
            if at >= len(part.drafts) or not right:
                part.accepted = at
                return

    # States.

    def _prepare_states(self, part: Part) -> None:
        """Copy the state from the column in which the last chunk ended to that in which this one ends."""
        row, moved = part.row, False
        for group in self.memory.states:
            now = -(-(part.start + part.n) // group.block) - 1
            before = row.running_column.get(group.number, self.rules.start_column(
                part.start, group.block, self.layout.smallest))  # fmt: skip
            if before not in (-1, now):
                self.memory.copy_state(row, group, before, now, row.accepted - 1)
                moved = True
            row.running_column[group.number] = now
        row.accepted = 1 if moved else row.accepted

    def _spans(self, part: Part) -> list[Span]:
        """Divide a part where its states are kept: inside the chunk, and before each draft token."""
        row, base, key = part.row, part.start + part.n - len(part.drafts), part.row.key * IDS
        text = [token + key for token in row.text[part.start : base]]
        edges = [part.start, *self._kept_inside_chunk(part), base]
        spans = [Span(part, at, text[at - part.start : to - part.start], 0, to != base) for at, to in pairwise(edges)]
        for i, drafted in enumerate(part.drafts):
            token = part.said[i] if i < part.accepted else WRONG + i if drafted < 0 else drafted
            if i >= part.accepted and part.said[i : i + 1] == [token]:
                token = WRONG + i
            spans.append(Span(part, base + i, [token + key], i + 1, False))
        return spans

    def _kept_inside_chunk(self, part: Part) -> Sequence[int]:
        """Return the lengths whose states the kernels keep inside a chunk: one, which the worker chooses without
        knowing what the scheduler reserved, or those at the ends of blocks."""
        grid, layout, end = self.opts.mamba_prefill_checkpoint_alignment, self.layout, part.start + part.n
        group = next((group for group in self.groups if group.kind == "mamba"), None)
        if group is None or not self.opts.enable_prefix_caching:
            return ()
        if not group.align:
            return range((part.start // layout.step + 1) * layout.step, end, layout.step)
        at = self.checkpoint(end)
        here = grid and not part.drafts and self.rules.exports_inside(part.row.tables[group.number].inside is not None)
        return [at] if here and self.can_keep_inside(part.start, end, at, group.block) else ()

    def _settle_states(self, part: Part) -> None:
        """After drafts, keep the state at a block boundary that the accepted tokens passed."""
        row, reset = part.row, False
        row.accepted = max(1, len(part.said))
        for group in self.memory.states:
            if not group.align or not self.opts.num_speculative_tokens:
                continue
            run = part.start + part.n - len(part.drafts)
            end = (run + row.accepted - 1) // group.block * group.block
            source, target = row.running_column[group.number], end // group.block - 1
            if end >= run:
                reset = reset or source == target
                if source != target or end > run:
                    self.memory.copy_state(row, group, source, target, end - run)
        row.accepted = 1 if reset else row.accepted

    # Rows of the drafter, which also depend on the next token: kept as marks.

    def _check_drafts(self, part: Part) -> None:
        row = part.row
        for group in self.drafted:
            first = max(0, part.start - group.size + 1) if group.size else 0
            want = row.prefix_marks(first, part.start)
            have = read_rows(self.memory.rows[-1 - group.number], row.cells[group.number][first : part.start]).digest
            for at in np.flatnonzero(want != have)[:1].tolist():
                block = row.columns[group.number][(first + at) // group.block]
                self.emit(DraftRowsWrong(row.id, group.number, first + at, block))

    def _mark_drafts(self, part: Part) -> None:
        row, start = part.row, part.start
        stop = min(start + part.n - len(part.drafts) + part.accepted, len(row.text) - 1)
        for group in self.drafted:
            cells, marks = row.cells[group.number][start:stop], Rows(row.prefix_marks(start, stop), None, None)
            write_rows(self.memory.rows, -1 - group.number, cells, marks)
