"""The worker: zeroes and copies blocks, evaluates a step, and moves states between columns.

Its block tables only grow: a column that the scheduler empties or moves keeps the old block here. Source: vLLM
vllm/v1/worker/gpu_model_runner.py, mamba_utils.py (0.33.0).
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.keyed_tokens import IDS
from cachesim.engines.base import Output
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.engines.shared.kv_rows import copy_rows, empty_rows, read_rows, write_rows
from cachesim.engines.shared.vocab import WRONG, CountingSampler
from cachesim.engines.vllm.events import DraftRowsWrong
from cachesim.engines.vllm.layout import Group
from cachesim.engines.vllm.row import Row
from cachesim.engines.vllm.rules.blocks import Inside
from cachesim.engines.vllm.scheduler import Part, Scheduler, Step
from cachesim.events import Decoded
from cachesim.model import LayerState, Rows, Spec, TokenRun
from cachesim.model.attention_mask import ByPosition
from cachesim.model.grid import Positions
from cachesim.model.hash_mixing import MASK


class Span(NamedTuple):
    """Tokens start .. start + len(tokens) - 1 of a part. ``column``: where the state after them goes, for each group
    of states; ``draft``: number of the draft token, 0 = none; ``inside``: the state is kept inside a chunk."""

    part: Part
    start: int
    tokens: Sequence[int]
    draft: int
    inside: bool


class Worker(Scheduler):
    """The memory of a server, and its evaluation."""

    kind: Spec
    sampler: CountingSampler

    def start_worker(self) -> None:
        """Create an empty memory."""
        attention = [group for group in self.groups if group.kind != "mamba"]
        self.home = {layer: group for group in attention for layer in group.layers}
        self.rows = empty_rows(self.home)
        self.marks = empty_rows(group.number for group in attention if group.eagle and self.layout.spec.ahead)
        self.state_home = {layer: group for group in self.groups if group.kind == "mamba" for layer in group.layers}
        # Of each layer and block: windows of the convolution by draft token, and the state with its matrix.
        self.windows: dict[tuple[int, int], list[LayerState]] = {}
        self.matrices: dict[tuple[int, int], LayerState] = {}
        parts = {layer.part: 0 for layer in self.kind.layers if layer.part}
        for layer in self.kind.layers:
            if layer.part:
                parts[layer.part] = max(parts[layer.part], layer.window)
        self.reach = parts

    def evaluate(self, step: Step, accepted: Mapping[int, int] | None = None) -> None:
        """Evaluate a step. ``accepted``: number of right draft tokens by request, None = as the requests state."""
        for part in step.parts.values():
            self._learn(part)
            if part.speaks:
                self._speak(part, None if accepted is None else accepted.get(part.row.id, 0))
        tokens = sum(part.n for part in step.parts.values())
        before = sum((part.start + part.n) * part.n for part in step.parts.values())
        self.log.spend(*cost_of(self.model, tokens, max(1, tokens), before))
        if self.model is None or not step.parts:
            return
        self.emit(Decoded(tokens))
        self._zero(step.zeroed)
        for source, copy in step.copies:
            self._copy_block(source, copy)
        for part in step.parts.values():
            self._prepare_states(part)
        store = StepStore(self, [span for part in step.parts.values() for span in self._spans(part)])
        said = self.model.forward(store.runs(), store)
        for span, hidden in zip(store.spans, said, strict=True):
            store.finish(span)
            part = span.part
            if part.speaks and span.draft <= part.accepted and not span.inside:
                x = self.model.readout(hidden.x[-1:])[0] if hidden.x is not None else None
                part.outputs.append(Output(span.start + len(span.tokens) - 1, int(hidden.digest[-1]), x))
            elif not span.draft:
                part.outputs.append(Output(span.start + len(span.tokens) - 1, int(hidden.digest[-1]), None))
        for part in step.parts.values():
            self._settle_states(part)
            self._mark_drafts(part)
        for part in step.parts.values():
            self._check_drafts(part)

    def _learn(self, part: Part) -> None:
        """Take over the blocks that the scheduler added, and the text of a request that starts again."""
        row = part.row
        if part.whole:
            row.columns, row.text, row.running_column, row.accepted = part.added, list(row.all), {}, 1
            row.marks = [row.key & MASK]
        else:
            for columns, added in zip(row.columns, part.added, strict=True):
                columns += added

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

    # Blocks.

    def _zero(self, blocks: Sequence[int]) -> None:
        for kept in (self.rows, self.marks):
            for layer in kept if blocks else ():
                cells = self._cells(blocks, layer, kept is self.marks)
                digest, k, v = read_rows(kept[layer], cells)
                k, v = (None if one is None else np.zeros_like(one) for one in (k, v))
                write_rows(kept, layer, cells, Rows(np.zeros_like(digest), k, v))

    def _cells(self, blocks: Sequence[int], layer: int, mark: bool) -> np.ndarray:
        size = (self.groups[layer] if mark else self.home[layer]).block
        return (np.array(blocks, np.int64)[:, None] * size + np.arange(size)).ravel()

    def _copy_block(self, source: int, copy: int) -> None:
        for kept in (self.rows, self.marks):
            for layer in kept:
                rows = copy_rows(read_rows(kept[layer], self._cells([source], layer, kept is self.marks)))
                write_rows(kept, layer, self._cells([copy], layer, kept is self.marks), rows)
        for layer in self.state_home:
            self._put(layer, copy, self.windows.get((layer, source)), self.matrices.get((layer, source)))

    def _put(self, layer: int, block: int, windows: list[LayerState] | None, matrix: LayerState | None) -> None:
        """Overwrite both parts of a state; None = nothing was ever there."""
        for kept, value in ((self.windows, windows), (self.matrices, matrix)):
            kept.pop((layer, block), None)
            if value is not None:
                kept[layer, block] = value  # type: ignore[assignment]

    # States.

    def _prepare_states(self, part: Part) -> None:
        """Copy the state from the column in which the last chunk ended to that in which this one ends."""
        row = part.row
        moved = False
        for group in {one.number: one for one in self.state_home.values()}.values():
            now = -(-(part.start + part.n) // group.block) - 1
            before = row.running_column.get(group.number, (part.start - 1) // group.block)
            if before not in (-1, now):
                self._copy_state(row, group, before, now, row.accepted - 1)
                moved = True
            row.running_column[group.number] = now
        if moved:
            row.accepted = 1

    def _copy_state(self, row: Row, group: Group, source: int, target: int, shift: int) -> None:
        columns = row.columns[group.number]
        for layer in group.layers:
            found = self.state_in(layer, columns, source, shift)
            windows = None if found is None else [found]
            self._put(layer, columns[target], windows, found)

    def state_in(self, layer: int, columns: Sequence[int], column: int, shift: int) -> LayerState | None:
        """Return the state in a column, its convolution window shifted by so many tokens, its matrix from as many
        columns further."""
        windows = self.windows.get((layer, columns[column]))
        matrix = self.matrices.get((layer, columns[column + shift]))
        window = windows[shift] if windows and shift < len(windows) else None
        if window is None or matrix is None:
            return window or matrix
        return LayerState(window.conv, matrix.hash, window.conv_x, matrix.h)

    def _spans(self, part: Part) -> list[Span]:
        """Divide a part where its states are kept: inside the chunk, and before each draft token."""
        row, end = part.row, part.start + part.n
        base = end - len(part.drafts)
        key = row.key * IDS
        text = [token + key for token in row.text[part.start : base]]
        cut = self._state_inside(part) - part.start
        spans = [Span(part, part.start, text[:cut], 0, True), Span(part, part.start + cut, text[cut:], 0, False)] \
            if cut > 0 else [Span(part, part.start, text, 0, False)]
        for i, drafted in enumerate(part.drafts):
            token = part.said[i] if i < part.accepted else WRONG + i if drafted < 0 else drafted
            if i >= part.accepted and part.said[i : i + 1] == [token]:
                token = WRONG + i
            spans.append(Span(part, base + i, [token + key], i + 1, False))
        return spans

    def _state_inside(self, part: Part) -> int:
        """Return the length whose state the kernels export inside a chunk, 0 = none. The worker does not know what the
        scheduler reserved."""
        grid, layout = self.opts.mamba_prefill_checkpoint_alignment, self.layout
        if not grid or not self.aligned or part.drafts:
            return 0
        end = part.start + part.n
        at = self._checkpoint(end, layout.align)
        block = next(group.block for group in self.groups if group.align)
        return at if self.rules.state_inside(Inside(part.start, end, at, layout.unit, block, grid)) else 0

    def _settle_states(self, part: Part) -> None:
        """After drafts, keep the state at a block boundary that the accepted tokens passed."""
        row, reset = part.row, False
        row.accepted = max(1, len(part.said))
        for group in {one.number: one for one in self.state_home.values()}.values():
            if not group.align or not self.opts.num_speculative_tokens:
                continue
            run = part.start + part.n - len(part.drafts)
            end = (run + row.accepted - 1) // group.block * group.block
            source, target = row.running_column[group.number], end // group.block - 1
            if end >= run:
                reset = reset or source == target
                if source != target or end > run:
                    self._copy_state(row, group, source, target, end - run)
        if reset:
            row.accepted = 1

    # Rows of the drafter, which also depend on the next token: kept as marks.

    def _check_drafts(self, part: Part) -> None:
        for index in self.marks:
            group, row = self.groups[index], part.row
            first = max(0, part.start - group.size + 1) if group.size else 0
            want = self._prefix_marks(row, first, part.start)
            have = read_rows(self.marks[index], self.cells(row, group, first, part.start)).digest
            for at in np.flatnonzero(want != have)[:1].tolist():
                self.emit(DraftRowsWrong(row.id, index, first + at, row.columns[index][(first + at) // group.block]))

    def _mark_drafts(self, part: Part) -> None:
        end = part.start + part.n - len(part.drafts) + part.accepted
        for index in self.marks:
            stop = min(end, len(part.row.text) - 1)
            marks = self._prefix_marks(part.row, part.start, stop)
            write_rows(self.marks, index, self.cells(part.row, self.groups[index], part.start, stop),
                       Rows(marks, None, None))  # fmt: skip

    @staticmethod
    def _prefix_marks(row: Row, start: int, stop: int) -> np.ndarray:
        """Return a number for each position that stands for all tokens up to the next one."""
        marks = row.marks
        for token in row.text[len(marks) - 1 : stop + 1]:
            marks.append((marks[-1] * 0x5851F42D4C957F2D + token + 1) & MASK)
        return np.array(marks[start + 2 : stop + 2], np.uint64)

    def cells(self, row: Row, group: Group, start: int, stop: int) -> np.ndarray:
        """Return the cells of positions start .. stop - 1 of a request in a group."""
        if stop <= start:
            return np.zeros(0, np.int64)
        first, last = start // group.block, -(-stop // group.block)
        blocks = np.array(row.columns[group.number][first:last], np.int64)
        pos = np.arange(start, stop)
        return blocks[pos // group.block - first] * group.block + pos % group.block


class StepStore(ByPosition):
    """Store of a step of the model: a run for each span. The states that a step writes are put into the memory by
    ``finish``, in the order in which the kernels write."""

    def __init__(self, worker: Worker, spans: list[Span]) -> None:
        self.worker, self.spans = worker, spans
        self.made: dict[tuple[int, int], LayerState] = {}       # by layer and run

    def runs(self) -> list[TokenRun]:
        """Return the spans as runs of the model."""
        return [TokenRun(k, span.start, span.tokens) for k, span in enumerate(self.spans)]

    def positions(self, part: str, run: int) -> Positions:
        """Return the positions that the layers of a part can see."""
        return np.arange(*self._seen(part, run))

    def _seen(self, part: str, run: int) -> tuple[int, int]:
        span, size = self.spans[run], self.worker.reach[part]
        first = span.start // size * size if part == "chunk" else max(0, span.start - size + 1) if size else 0
        return first, span.start + len(span.tokens)

    def put_rows(self, layer: int, run: int, rows: Rows) -> None:
        """Write the new rows to their blocks."""
        worker, span = self.worker, self.spans[run]
        cells = worker.cells(span.part.row, worker.home[layer], span.start, span.start + len(span.tokens))
        write_rows(worker.rows, layer, cells, rows)

    def get_rows(self, layer: int, run: int) -> Rows:
        """Return all rows of the request that a layer of its part can see."""
        worker = self.worker
        part = worker.kind.layers[layer].part
        cells = worker.cells(self.spans[run].part.row, worker.home[layer], *self._seen(part, run))
        return read_rows(worker.rows[layer], cells)

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the state before a span: of the span before, or of the column in which the last chunk ended."""
        span = self.spans[run]
        if span.start > span.part.start:
            return self.made[layer, run - 1]
        if not span.start:
            return None
        row, group = span.part.row, self.worker.state_home[layer]
        columns, now = row.columns[group.number], row.running_column[group.number]
        return self.worker.state_in(layer, columns, now, row.accepted - 1)

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Keep the state after a span."""
        self.made[layer, run] = state

    def finish(self, span: Span) -> None:
        """Write the states of a span: the convolution at the chunk's end before the state inside the chunk, and that
        before the matrix at the end."""
        worker, run = self.worker, self.spans.index(span)
        for layer, group in worker.state_home.items():
            columns, now = span.part.row.columns[group.number], span.part.row.running_column[group.number]
            state = self.made[layer, run]
            if span.inside:
                end = -(-(span.part.start + span.part.n) // group.block) - 2
                worker.windows[layer, columns[now]] = [self.made[layer, run + 1]]
                worker._put(layer, columns[end], [state], state)
            elif span.draft:
                worker.windows[layer, columns[now]].append(state)
                worker.matrices[layer, columns[now + span.draft]] = state
            else:
                if not (span.start > span.part.start):
                    worker.windows[layer, columns[now]] = [state]
                worker.matrices[layer, columns[now]] = state
