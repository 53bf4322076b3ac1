"""The worker: zeroes and copies blocks, evaluates a step, and moves states between columns.

Its block tables only grow: a column that the scheduler empties or moves keeps the old block here. Source: vLLM
vllm/v1/worker/gpu_model_runner.py, mamba_utils.py (0.33.0).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Mapping, Sequence

import numpy as np

from cachesim.base.keyed_tokens import IDS
from cachesim.base.tokens import TokenList
from cachesim.engines.base import Output
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.engines.shared.kv_rows import read_rows, write_rows
from cachesim.engines.shared.vocab import WRONG, CountingSampler, forced_draft
from cachesim.engines.vllm.events import DraftRowsWrong
from cachesim.engines.vllm.memory.contents import Contents, Span, StepStore
from cachesim.engines.vllm.row import Row
from cachesim.engines.vllm.scheduler import Part, Scheduler, Step
from cachesim.events import Decoded
from cachesim.model import Rows, Spec
from cachesim.model.hash_mixing import MASK


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
        tokens = sum(part.n for part in step.parts.values())
        before = sum((part.start + part.n) * part.n for part in step.parts.values())
        self.log.spend(*cost_of(self.model, tokens, max(1, tokens), before))
        if self.model is None or not step.parts:
            return
        self.emit(Decoded(tokens))
        self.memory.zero(step.zeroed)
        for source, copy in step.copies:
            self.memory.copy_block(source, copy)
        for part in step.parts.values():
            self._prepare_states(part)
        store = StepStore(self.memory, [span for part in step.parts.values() for span in self._spans(part)])
        said = self.model.forward(store.runs(), store)
        for run, (span, hidden) in enumerate(zip(store.spans, said, strict=True)):
            store.finish(run)
            part, x = span.part, None
            if not part.speaks or (span.draft <= part.accepted and not span.inside):
                if part.speaks and hidden.x is not None:
                    x = self.model.readout(hidden.x[-1:])[0]
                part.outputs.append(Output(span.start + len(span.tokens) - 1, int(hidden.digest[-1]), x))
        for part in step.parts.values():
            self._settle_states(part)
            self._mark_drafts(part)
        for part in step.parts.values():
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
        request, k, held = row.task.request, self.opts.num_speculative_tokens, len(row.text) - 1
        right = next((one.accepted for one in request.drafts if one.at == held), request.draft_else)
        return forced_draft(self.sampler, row.text, request, len(row.text) - row.prompt, min(k, right), k)

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
        row = part.row
        moved = False
        for group in self.memory.states:
            now = -(-(part.start + part.n) // group.block) - 1
            before = row.running_column.get(group.number, self.rules.start_column(
                part.start, group.block, self.layout.smallest))  # fmt: skip
            if before not in (-1, now):
                self.memory.copy_state(row, group, before, now, row.accepted - 1)
                moved = True
            row.running_column[group.number] = now
        if moved:
            row.accepted = 1

    def _spans(self, part: Part) -> list[Span]:
        """Divide a part where its states are kept: inside the chunk, and before each draft token."""
        row, end = part.row, part.start + part.n
        base = end - len(part.drafts)
        key = row.key * IDS
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
        if reset:
            row.accepted = 1

    # Rows of the drafter, which also depend on the next token: kept as marks.

    def _check_drafts(self, part: Part) -> None:
        row = part.row
        for group in self.drafted:
            first = max(0, part.start - group.size + 1) if group.size else 0
            want = self._prefix_marks(row, first, part.start)
            have = read_rows(self.memory.rows[-1 - group.number], row.cells[group.number][first : part.start]).digest
            for at in np.flatnonzero(want != have)[:1].tolist():
                block = row.columns[group.number][(first + at) // group.block]
                self.emit(DraftRowsWrong(row.id, group.number, first + at, block))

    def _mark_drafts(self, part: Part) -> None:
        row, start = part.row, part.start
        stop = min(start + part.n - len(part.drafts) + part.accepted, len(row.text) - 1)
        for group in self.drafted:
            marks = Rows(self._prefix_marks(row, start, stop), None, None)
            write_rows(self.memory.rows, -1 - group.number, row.cells[group.number][start:stop], marks)

    @staticmethod
    def _prefix_marks(row: Row, start: int, stop: int) -> np.ndarray:
        """Return a number for each position that stands for all tokens up to the next one."""
        marks = row.marks
        for token in row.text[len(marks) - 1 : stop + 1]:
            marks.append((marks[-1] * 0x5851F42D4C957F2D + token + 1) & MASK)
        return np.array(marks[start + 2 : stop + 2], np.uint64)
