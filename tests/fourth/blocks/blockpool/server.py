"""The server: every round schedules a step for running and waiting requests, and evaluates it.

Source: vLLM vllm/v1/core/sched/scheduler.py Scheduler.schedule, update_from_output (0.33.0).
"""

from __future__ import annotations

from typing import Any

from blockpool.events import Preempted
from blockpool.inspect import Inspection
from blockpool.memory import Chunk, Step
from blockpool.row import Row, Task
from blockpool.rules import Chunk as Cut
from blockpool.tables import Tables
from cachesim import events as ev
from cachesim.base.errors import BadInput
from cachesim.engines.base import BEFORE_A_SLOT, Answer, Output, Request
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.model import HiddenOutput


class Server(Tables):
    """A server of a given version."""

    dead = False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.inspection = Inspection(self)

    @property
    def idle(self) -> bool:
        """True if no further round changes anything."""
        return not self.queue and not any(row.busy for row in self.slots)

    def submit(self, request: Request) -> Answer:
        """Queue a request and return its answer, which the server fills as it works. Raise BadInput for an unsupported
        request."""
        if request.kind != "completion" or request.n_cmpl != 1:
            raise BadInput("only single completions are modelled for this engine")
        if not request.prompt:
            raise BadInput("an empty prompt is not modelled for this engine")
        answer = Answer(self.log.mark())
        if len(request.prompt) >= self.most:
            answer.fails(400, f"a prompt of {len(request.prompt)} tokens, and a model length of {self.most}",
                         "prompt-too-long", prompt=len(request.prompt), most=self.most)  # fmt: skip
            answer.done = True
        else:
            self.queue.append(Task(answer.request, request, answer))
        return answer

    def take_tasks(self) -> None:
        """Run the first half of a round: move the received requests to the waiting queue."""
        while self.queue:
            task = self.queue.popleft()
            row = Row(len(self.slots), task, list(task.request.prompt))
            task.answer.id_slot = row.id
            self.slots.append(row)
            self.waiting.append(row)

    def update(self) -> None:
        """Run the second half of a round: a single step."""
        self.promised.clear()
        chunks = self._schedule()
        for row in [one for one in self.waiting if one.task.request.cancel_at == BEFORE_A_SLOT]:
            self.waiting.remove(row)
            self._finish(row, "none", cancelled=True)
        if chunks:
            self._evaluate(chunks)

    def _schedule(self) -> list[Chunk]:
        """Return the chunks of a step: running requests first, in the order of their arrival."""
        chunks: list[Chunk] = []
        budget, i, short = self.opts.max_num_batched_tokens, 0, False
        while i < len(self.running) and budget:
            row = self.running[i]
            stop = self._stop(row, row.computed, budget, row.junction)
            if stop <= row.computed:
                i += 1
                continue
            self.release(row)
            while row in self.running and self.needed(row, stop) > len(self.pool.free):
                short = True
                self._preempt(self.needed(row, stop))
            if row not in self.running:
                break
            budget -= self._take(chunks, row, stop)
            i += 1
        while not short and self.waiting and budget and len(self.running) < self.opts.max_num_seqs:
            chunk = self._admit(budget)
            if chunk is None:
                break
            budget -= self._take(chunks, *chunk)
        return chunks

    def _take(self, chunks: list[Chunk], row: Row, stop: int) -> int:
        """Add a request to the step; return the number of its tokens in the step."""
        self.allocate(row, stop)
        chunks.append(Chunk(row, row.computed, stop))
        return stop - row.computed

    def _stop(self, row: Row, start: int, budget: int, junction: int) -> int:
        """Return the end of the next chunk of a request."""
        n = len(row.all)
        ask = Cut(start, min(n, start + budget), n, max(row.prompt, n - 1), self.block, budget, junction,
                  self.opts.use_eagle)  # fmt: skip
        if n - start == 1:
            return n                            # a single token
        split = self.rules.split_states if self.has_states else self.rules.split_rows
        return int(self.decide(split(ask), row))

    def _admit(self, budget: int) -> tuple[Row, int] | None:
        """Admit the first waiting request if there are blocks for it; return it with the end of its first chunk."""
        row = self.waiting[self.decide(self.rules.queue(len(self.waiting)), None)]
        hit = self.look_up(row)
        fresh = hit.state is not None and hit.state in self.promised
        if not self.decide(self.rules.guard(fresh), row):
            return None
        stop = self._stop(row, hit.n, budget, hit.junction)
        if stop <= hit.n or self.needed(row, stop, hit) > len(self.pool.free):
            return None
        self.waiting.remove(row)
        self.running.append(row)
        self.attach(row, hit)
        self.emit(ev.Launch(row.id, row.task.id, 0))
        if not row.launched:
            answer, row.launched = row.task.answer, True
            answer.reused, answer.prompt_n = {"block": hit.n}, row.prompt - hit.n
        return row, stop

    def _preempt(self, needed: int) -> None:
        """Preempt a running request; it precedes all waiting requests."""
        at = self.decide(self.rules.short(len(self.running), needed, len(self.pool.free)), None)
        row = self.running.pop(at)
        self.emit(Preempted(row.id, row.task.id, row.computed))
        self.free_row(row)
        self.waiting.appendleft(row)

    def _evaluate(self, chunks: list[Chunk]) -> None:
        """Evaluate the step; each request whose tokens are all evaluated gets a new token."""
        n = sum(one.stop - one.start for one in chunks)
        before = sum(one.stop * (one.stop - one.start) for one in chunks)
        self.log.spend(*cost_of(self.model, n, n, before))
        step, said = Step(self.memory, chunks), None
        if self.model is not None:
            said = self.model.forward(step.runs(), step)
        for one in chunks:
            one.row.computed = one.stop
        self.computed()
        for k, one in enumerate(chunks):
            if one.stop == len(one.row.all):
                self._speak(one.row, said[k] if said else None)
            self._hang_up(one.row)

    def _speak(self, row: Row, said: HiddenOutput | None) -> None:
        """Process the model output after the last token: the next token."""
        answer, request = row.task.answer, row.task.request
        digest, logits = 0, None
        if said is not None and self.model is not None:
            digest = int(said.digest[-1])
            logits = self.model.readout(said.x[-1:])[0] if said.x is not None else None
        answer.outputs.append(Output(row.computed - 1, digest, logits))
        token = self.sampler(row.all, request, row.n_gen)
        row.all.append(token)
        answer.tokens.append(token)
        row.n_gen = answer.predicted_n = row.n_gen + 1
        if row.n_gen >= max(1, request.n_predict) or len(row.all) >= self.most or token in request.eog:
            self._finish(row, "limit")

    def _hang_up(self, row: Row) -> None:
        at = row.task.request.cancel_at
        if row.busy and at is not None and row.computed >= at:
            self._finish(row, "none", cancelled=True)

    def _finish(self, row: Row, why: str, cancelled: bool = False) -> None:
        """End the request; its blocks are free, and can be found until they are reused."""
        answer = row.task.answer
        answer.stop_type, answer.tokens_cached, answer.cancelled = why, row.computed, cancelled
        answer.slot_tokens, answer.done = tuple(row.tokens), True
        if row in self.running:
            self.running.remove(row)
            self.emit(ev.Release(row.id, row.task.id, row.computed, 0))
        row.busy = False
        self.free_row(row)
