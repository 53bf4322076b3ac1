"""The worker: contents of the blocks, and the evaluation of a step.

Source: vLLM vllm/v1/worker/gpu_model_runner.py, mamba_utils.py (0.33.0).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Mapping, Sequence

import numpy as np

from cachesim.base.keyed_tokens import IDS
from cachesim.base.tokens import TokenList
from cachesim.engines.base import Output
from cachesim.engines.shared.kv_rows import read_rows, write_rows
from cachesim.engines.shared.vocab import WRONG, forced_draft
from cachesim.engines.vllm.kv_offload.offload_requests import Transfer
from cachesim.engines.vllm.row import DraftRowsWrong, Row
from cachesim.engines.vllm.scheduler import Part, Scheduler, Step
from cachesim.engines.vllm.worker.block_contents import BlockContents, BlockSpan, BlockStep
from cachesim.events import Decoded
from cachesim.model import Rows
from cachesim.model.hash_mixing import MASK


class Worker(Scheduler):
    """The memory of a server, and its evaluation."""

    def start_worker(self) -> None:
        """Create an empty memory."""
        ahead = self.layout.spec.ahead
        self.drafted = [group for group in self.groups if group.kind != "mamba" and group.eagle and ahead]
        states = [group for group in self.groups if group.kind == "mamba"]
        rows = [group for group in self.groups if group.kind != "mamba"]
        self.memory = BlockContents(self.kind, rows, states, self.drafted, self.slots)

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
                self.memory.change((), [pair if made.is_store else pair[::-1]])

    def _compute(self, step: Step) -> None:
        """Evaluate the tokens of a step."""
        assert self.model is not None
        self.emit(Decoded(sum(part.n for part in step.parts.values())))
        self.memory.change(step.zeroed, step.copies)
        for part in step.parts.values():
            self._prepare_states(part)
        store = BlockStep(self.memory, [span for part in step.parts.values() for span in self._spans(part)],
                          self.layout.aligned)  # fmt: skip
        for run, (span, hidden) in enumerate(zip(store.spans, self.model.forward(store.runs(), store), strict=True)):
            store.finish(run)
            part = step.parts[span.chunk.row.id]
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

    def _spans(self, part: Part) -> list[BlockSpan]:
        """Divide a part where its states are kept: inside the chunk, and before each draft token."""
        row, base, key = part.row, part.start + part.n - len(part.drafts), part.row.key * IDS
        text = [token + key for token in row.text[part.start : base]]
        edges = [part.start, *self._kept_inside_chunk(part), base]
        spans = [BlockSpan(part, at, text[at - part.start : to - part.start], 0, to != base)
                 for at, to in pairwise(edges)]  # fmt: skip
        for i, drafted in enumerate(part.drafts):
            token = part.said[i] if i < part.accepted else WRONG + i if drafted < 0 else drafted
            if i >= part.accepted and part.said[i : i + 1] == [token]:
                token = WRONG + i
            spans.append(BlockSpan(part, base + i, [token + key], i + 1, False))
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
        for group in self.memory.states if self.layout.aligned and self.opts.num_speculative_tokens else ():
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
