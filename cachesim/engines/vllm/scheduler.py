"""The scheduler: which requests get tokens in a step, and what the results of a step change.

Source: vLLM vllm/v1/core/sched/scheduler.py Scheduler.schedule, update_from_output (0.33.0).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import chain

from cachesim.engines.base import Output
from cachesim.engines.vllm.core.table_events import Preempted
from cachesim.engines.vllm.kv_offload.offload_requests import Transfer
from cachesim.engines.vllm.memory.offloading import Offloading
from cachesim.engines.vllm.row import Row
from cachesim.engines.vllm.rules.schedule import Split


@dataclass(slots=True)
class Part:
    """A request in a step: tokens start .. start + n - 1, the last ``drafts`` of them drafted. ``speaks``: its output
    is a new token; ``added``: blocks of each group that the worker learns, all of them if ``whole``. ``accepted``,
    ``said`` and ``outputs`` are filled in by the worker."""

    row: Row
    start: int
    n: int
    drafts: list[int]
    added: list[list[int]]
    whole: bool
    speaks: bool = False
    accepted: int = 0
    said: list[int] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)


@dataclass(slots=True)
class Step:
    """A scheduled step; stores of ended requests (``flushed``), ``zeroed`` blocks, block ``copies`` and ``loads`` come
    before its evaluation, other ``stores`` after it."""

    parts: dict[int, Part] = field(default_factory=dict)
    zeroed: list[int] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)
    flushed: list[Transfer] = field(default_factory=list)
    loads: list[Transfer] = field(default_factory=list)
    stores: list[Transfer] = field(default_factory=list)
    budget: int = 0
    preempted: bool = False
    prefill: bool = False

    def add(self, part: Part) -> None:
        """Add a request to the step."""
        self.parts[part.row.id] = part
        self.budget -= part.n


class Scheduler(Offloading):
    """The scheduling of a server. ``slots``: all requests received so far."""

    skipped: list[Row]          # passed over in this step
    flying: deque[Step]         # scheduled steps that are not processed
    short = 0                   # blocks that the last refused request needed

    def schedule(self) -> Step:
        """Schedule a step."""
        self.promised.clear()
        self.skipped = []
        step = Step(budget=self.opts.max_num_batched_tokens)
        threshold = self.rules.prefill_cap(self.opts.long_prefill_token_threshold,
                                           len(self.running) + len(self.waiting))
        at = 0
        while 0 <= at < len(self.running) and step.budget > 0:
            at = self._continue(step, at, threshold)
        more = not step.preempted
        while more and self.waiting and step.budget > 0 and len(self.running) < self.opts.max_num_seqs:
            more = self._admit(step, threshold)
        self.waiting[:0] = self.skipped
        self._close(step)
        return step

    def _continue(self, step: Step, at: int, threshold: int) -> int:
        """Schedule the running request at this place; return the next place, -1 = none."""
        row, layout = self.running[at], self.layout
        if self.rules.surely_ends(row.pending, row.computed, len(row.all) + row.left):
            return at + 1
        new = len(row.all) + len(row.drafts) + row.pending - row.computed
        new = min(new, threshold or new, step.budget, self.longest - row.computed - 1)
        new = self._split(row, row.computed, new)
        new = self.rules.leave_lookahead(len(row.all) - row.computed - new, new, layout.spec.ahead)
        if not new:
            return at + 1
        while (added := self.allocate(row, new, None, layout.spec.slots, True)) is None:
            gone = self._preempt(step)
            at -= gone < at
            if not row.running:
                return at if self.rules.goes_on(self.opts.scheduling_policy) else -1
        step.prefill |= row.prefill
        drafted = max(0, new + row.computed - len(row.all) - row.pending)
        step.add(Part(row, row.computed, new, row.drafts[:drafted], added, False))
        row.drafts = []
        return at + 1

    def _split(self, row: Row, start: int, new: int) -> int:
        """Return the tokens of the next chunk of a request."""
        if not self.layout.aligned:
            return new
        opts, layout, end = self.opts, self.layout, row.prefill_end
        most, block = opts.max_num_batched_tokens, layout.smallest
        most = min(most, opts.long_prefill_token_threshold or most)
        inside = start + new >= end and self.can_keep_inside(start, start + new, self.checkpoint(end), block)
        tail = self.last_boundary(row.prompt, layout.unit) if layout.partial else 0
        split = self.rules.split(Split(start, start + new, end, row.prompt, block, most,
                                       self.last_boundary(len(row.all), block), tail, inside, row.junction,
                                       layout.shared_checkpoint))  # fmt: skip
        return int(self.decide(split, row) if start < end else split.value)

    def _preempt(self, step: Step) -> int:
        """Preempt a running request; return its place."""
        policy, step.preempted = self.opts.scheduling_policy, True
        at: int = self.decide(self.rules.preempt(policy, [row.order for row in self.running], self.short,
                                                 len(self.pool.free)), None)
        row = self.running.pop(at)
        if part := step.parts.pop(row.id, None):
            step.budget += part.n
        self.put_back(row, drop=False)
        return at

    def put_back(self, row: Row, drop: bool) -> None:
        """Take the blocks of a preempted request; it waits first. ``drop``: its tokens in flight are not delivered."""
        self.emit(Preempted(row.id, row.computed))
        self.free_row(row)
        row.drop_stale = drop or (row.drop_stale and row.stale > 0)
        row.running, row.computed, row.stale, row.pending, row.drafts = False, 0, row.in_flight, 0, []
        row.preemptions += 1
        self.waiting.insert(0, row)

    def _admit(self, step: Step, threshold: int) -> bool:
        """Admit the waiting request that is next; return whether others may follow."""
        opts, spec, k = self.opts, self.layout.spec, self.opts.num_speculative_tokens
        queue, held = [row.order for row in self.waiting], [row.computed > 0 for row in self.waiting]
        at: int = self.decide(self.rules.next_waiting(opts.scheduling_policy, queue, held), None)
        row = self.waiting[at]
        if (row.stale and not row.drop_stale) or self.is_loading(row):
            return self._pass_over(at)
        hit = self.nothing if row.computed else self.look_up(row)
        load = 0 if row.computed else self.loadable(row, hit.n)
        if load != 0:
            return (load is None or self.begin_load(step.loads, row, hit, load)) and self._pass_over(at)
        start, row.junction = row.computed + hit.n, hit.junction
        new = len(row.all) - start
        warm = start > 0 or not all(part.whole for part in step.parts.values())
        padded = self.rules.pad_drafts(new, k, step.prefill, warm, start + k + 2 <= self.longest)
        if padded and 1 + k > step.budget:
            return False
        new = 1 + k if padded else new
        new = self._split(row, start, min(new, threshold or new, step.budget))
        if not new:
            return False
        if padded and new != 1 + k:
            new, padded = 1, False
        new = self.rules.leave_lookahead(len(row.all) - start - new, new, spec.ahead)
        if not new:
            return self.rules.passes_over() and self._pass_over(at)
        if self.allocate(row, new, hit, spec.slots, bool(self.running)) is None:
            return False
        self.waiting.pop(at)
        self.running.append(row)
        loaded = row.computed and start - row.offload.local
        row.running, row.computed, row.prefill = True, start, start + new < len(row.all)
        self.record_launch(row, {"block": start - loaded, "chunk": loaded})
        tables = [list(table.blocks) for table in row.tables]
        step.add(Part(row, start, new, [-1] * k if padded else [], tables, True))
        return True

    def _pass_over(self, at: int) -> bool:
        """Leave a waiting request out of this step; return True: others may follow."""
        self.skipped.append(self.waiting.pop(at))
        return True

    def _close(self, step: Step) -> None:
        """Collect what comes before the evaluation, and count the tokens as scheduled."""
        step.zeroed, step.copies = [*chain(*self.zeroed)] if self.zeroes else [], [*chain(*self.copies)]
        self.zeroed, self.copies = [[] for _ in self.groups], [[] for _ in self.groups]
        self.pool.give_back(chain(*step.copies))
        for part in step.parts.values():
            row = part.row
            row.computed += part.n
            row.in_flight += part.n
            row.prefill = row.computed < len(row.all) + row.pending
            part.speaks = not row.prefill
            if part.speaks and self.opts.async_scheduling:
                row.pending += 1 + len(part.drafts)
                row.drafts = [-1] * self.opts.num_speculative_tokens        # the worker drafts them
        step.flushed, step.stores = self.offer(part.row for part in step.parts.values())
        if step.parts:
            self.flying.append(step)

    def process(self, step: Step) -> list[Row]:
        """Process the results of a step; return the finished requests."""
        finished = []
        for part in step.parts.values():
            row, stale = part.row, part.row.stale > 0
            row.in_flight -= part.n
            row.stale -= part.n if stale else 0
            if not row.busy or (stale and row.drop_stale) or not part.said:
                continue
            if part.drafts and not stale:
                rejected = len(part.drafts) - (len(part.said) - 1)
                row.computed -= rejected if row.computed else 0
                row.pending -= rejected if row.pending else 0
            placed, running = row.pending, row.running
            stopped = self._append(row, part.said, stale)
            row.task.answer.outputs += part.outputs[: len(part.said)] if part.speaks else ()
            less = self.rules.publish_again(self.opts.num_speculative_tokens, placed, row.pending, row.in_flight,
                                            self.opts.async_scheduling)
            if running and not stale and self.opts.enable_prefix_caching and less is not None:
                self.publish(row, row.computed - less)
            if stopped:
                finished.append(row)
                self.free_row(row)
        for row in finished:
            self.end(row, "limit")
        return finished

    def _append(self, row: Row, said: list[int], stale: bool) -> bool:
        """Append new tokens to a request, up to the one that ends the answer; return whether it ends."""
        answer, request = row.task.answer, row.task.request
        if row.pending and not stale:
            row.pending -= len(said)
        for count, token in enumerate(said, 1):
            row.all.append(token)
            answer.tokens.append(token)
            answer.predicted_n += 1
            self.extend_hashes(row)
            if len(row.all) >= self.longest or row.left <= 0 or token in request.eog:
                row.computed -= 0 if stale else len(said) - count
                del said[count:]
                return True
        return False

    def end(self, row: Row, why: str, cancelled: bool = False) -> None:
        """End a request: it leaves its list, and its blocks are free."""
        (self.running if row.running else self.waiting).remove(row)
        self.leave(row)
        self.record_end(row, why, cancelled, 0 if row.loading else max(0, row.computed - row.in_flight))
        row.running = False

    def abort(self, row: Row) -> None:
        """End a request whose client left."""
        if row.busy:
            self.end(row, "none", cancelled=True)

    def reset_cache(self, running: bool) -> bool:
        """Clear the prefix cache; return whether it was done. ``running``: running requests restart."""
        if self.rules.reset_preempts(running):
            while self.running:
                self.put_back(self.running.pop(), drop=True)
        return self.pool.reset()
