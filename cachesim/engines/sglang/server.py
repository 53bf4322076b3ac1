"""The server: every turn runs a prefill step for waiting requests, or a decode step for the running ones.

Source: sgl-project/sglang python/sglang/srt/managers/scheduler.py get_next_batch_to_run,
scheduler_components/batch_result_processor.py (0.5.23).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from cachesim import events as log_events
from cachesim.base.errors import BadInput, ProcessAborted
from cachesim.base.tokens import TokenList
from cachesim.engines.base import BEFORE_A_SLOT, Answer, Output, Request
from cachesim.engines.sglang.events import Turn
from cachesim.engines.sglang.inspect import Inspected
from cachesim.engines.sglang.request_row import Row, Task
from cachesim.engines.sglang.scheduler import Part
from cachesim.model import Hidden


class Server(Inspected):
    """A server of a given version. ``said``: number, tokens and output of each request of the last step."""

    said: Sequence[tuple[int, tuple[int, ...], Hidden | None]] = ()

    def submit(self, request: Request) -> Answer:
        """Queue a request and return its answer, which the server fills as it works. Raises BadInput for an unsupported
        request."""
        if request.kind != "completion" or request.n_cmpl != 1:
            raise BadInput("only single completions are modelled for this engine")
        if not request.prompt:
            raise BadInput("an empty prompt is not modelled for this engine")
        answer = Answer(self.log.mark())
        most = self.longest
        if len(request.prompt) >= most:
            answer.fails(400, f"The input ({len(request.prompt)} tokens) is longer than the model's context length"
                         f" ({most} tokens).", "prompt-too-long", prompt=len(request.prompt), most=most)  # fmt: skip
            answer.done = True
        else:
            self.queue.append(Task(answer.request, request, answer))
        return answer

    @property
    def longest(self) -> int:
        """Length of the longest request that the pools hold [tokens]."""
        return self.kv.full.size - 2 * self.page

    def slot(self, action: str, id_slot: int, file: Path | None = None, percent: int = 100) -> dict[str, Any]:
        """Raise BadInput: this server does not have slots to save."""
        raise BadInput(f"this server has no slots to {action}", hint="restart")

    def take_tasks(self) -> None:
        """Run the first half of a round: move the received requests to the waiting queue."""
        while self.queue:
            task = self.queue.popleft()
            extra = task.request.extra
            space = str(extra.get("extra_key", "")), str(extra.get("cache_salt", ""))
            row = Row(len(self.slots), task, TokenList(task.request.prompt), space)
            task.answer.id_slot = row.id
            self.slots.append(row)
            self.waiting.append(row)

    def update(self) -> None:
        """Run the second half of a round: a prefill step if a request can start or continue, else a decode step."""
        try:
            for row in [one for one in self.waiting if one.task.request.cancel_at == BEFORE_A_SLOT]:
                self.leave(row, "none", cancelled=True)
            if not self._prefill() and self.running:
                self._decode()
        except ProcessAborted as end:
            self.dead = True
            self.emit(log_events.Aborted(str(end)))
            for row in self.slots:
                if row.busy:
                    row.task.answer.dies(end)
                    row.busy = False

    def _prefill(self) -> bool:
        """Run a prefill step; return whether there was one."""
        verdicts: list[list[Any]] = []
        chosen = self.choose_prefill(verdicts)
        if chosen is None:
            return False
        queue = [row.id for row in self.queue_seen]
        parts = self.allocate_prefill(chosen) if chosen else []
        if parts:
            self._launch(chosen)
            self._evaluate(parts, lambda part: self._end_chunk(part.row))
        self._turn("prefill", parts, queue=queue, verdicts=verdicts)
        return bool(parts)

    def _decode(self) -> None:
        """Run a decode step."""
        retracted: list[int] = []
        oom: list[int] = []
        self.retract(retracted, oom)
        parts = self.allocate_decode() if self.running else []
        if parts:
            self._evaluate(parts, lambda part: self._ends(part.row))
        self._turn("decode", parts, retracted=retracted, oom=oom)

    def _turn(self, op: str, parts: list[Part], **lists: list[Any]) -> None:
        run = [[part.row.id, part.start, part.stop, *([] if part.track is None else [part.track])] for part in parts]
        ended = [part.row.id for part in parts if not part.row.busy]
        given = [lists.get(name, []) for name in ("queue", "verdicts")]
        more = [lists.get(name, []) for name in ("retracted", "oom")]
        self.emit(Turn(op, *given, run, *more, ended))

    def _launch(self, chosen: list[Row]) -> None:
        for row in chosen:
            if not row.launched:
                answer, row.launched = row.task.answer, True
                answer.reused, answer.prompt_n = {"node": row.prefix}, row.prompt - row.prefix
                self.emit(log_events.Launch(row.id, row.task.id, 0))

    def _evaluate(self, parts: list[Part], end: Any) -> None:
        """Evaluate the parts of a step, then end each."""
        said = self.forward(parts)
        self.said = [(part.row.id, tuple(part.row.all[: part.stop]), hidden)
                     for part, hidden in zip(parts, said, strict=True)] if self.model is not None else []  # fmt: skip
        for part in parts:
            part.row.computed = part.stop
            self.decline_states(part)
        for part, hidden in zip(parts, said, strict=True):
            if part.stop == len(part.row.all):
                self._record(part.row, hidden)
        for part in parts:
            end(part)
            self._hang_up(part.row)

    def _record(self, row: Row, hidden: Hidden | None) -> None:
        """Record the model output after the last token and append the next token."""
        answer, digest, logits = row.task.answer, 0, None
        if hidden is not None and self.model is not None:
            digest = int(hidden.digest[-1])
            logits = self.model.readout(hidden.x[-1:])[0] if hidden.x is not None else None
        answer.outputs.append(Output(row.computed - 1, digest, logits))
        token = self.sampler(row.all, row.task.request, row.n_gen)
        row.all.append(token)
        answer.tokens.append(token)
        row.n_gen = answer.predicted_n = row.n_gen + 1

    def _end_chunk(self, row: Row) -> None:
        """Insert what a chunk has computed; after the last chunk the request generates."""
        if row is not self.chunked:
            self.running.append(row)
            if self._ends(row):
                return
        self.checkpoint(row, row.stop)
        row.prefix = row.stop

    def _ends(self, row: Row) -> bool:
        """End the request if its answer is complete."""
        token = row.all[-1]
        over = row.n_gen >= row.most or token in row.task.request.eog or len(row.all) >= self.longest
        if over:
            self.leave(row, "limit")
        return over

    def _hang_up(self, row: Row) -> None:
        at = row.task.request.cancel_at
        if row.busy and at is not None and row.computed >= at:
            self.leave(row, "none", cancelled=True)
