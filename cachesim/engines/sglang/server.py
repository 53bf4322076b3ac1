"""The server: every turn runs a prefill step for waiting requests, or a decode step for the running ones."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from cachesim.base.tokens import TokenList, Tokens
from cachesim.engines.sglang.events import Turn
from cachesim.engines.sglang.mem_cache.tree_points import STATE
from cachesim.engines.sglang.request_row import Row
from cachesim.engines.sglang.scheduler import Part, Scheduler
from cachesim.engines.shared.cell_step import CellRun, CellStep
from cachesim.engines.shared.request_queue import ReceivedRequest, key_of
from cachesim.model import Hidden


class Server(Scheduler):
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
            self.record_launch(row, {"node": row.prefix})
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
            end(rows[k])
            self.abort_cancelled(rows[k], rows[k].computed)

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

    # Contents of the slots.

    def forward(self, parts: list[Part]) -> Sequence[Hidden | None]:
        """Evaluate the parts of a step; a part with a tracked state inside is evaluated in two pieces."""
        self.spend([(part.start, part.stop) for part in parts])
        content = self.states.content
        for row in (part.row for part in parts if part.row.state is not None):
            if row.copied is not None:
                content[row.state] = content.get(row.copied, {})
            elif not row.computed:
                content[row.state] = {}
            row.copied = None
        said: list[Hidden | None] = [None] * len(parts)
        taken = self._taken(parts)
        self._pass({k: part if at is None else part._replace(stop=at) for k, (part, at) in enumerate(taken)
                    if at != part.start}, said)  # fmt: skip
        for part in parts:
            if part.track is not None and part.row.track is not None:
                content[part.row.track[part.row.last_track]] = content.get(part.row.state, {})
        self._pass({k: part._replace(start=at) for k, (part, at) in enumerate(taken)
                    if at is not None and at < part.stop}, said)  # fmt: skip
        return said

    def _taken(self, parts: list[Part]) -> list[tuple[Part, int | None]]:
        """Return each part of a step with the length after which its tracked state is taken."""
        grid, flat, chunks, taken = self.opts.state_grid, 0, 0, list[tuple[Part, int | None]]()
        packed = any(layer.kind in "SH" for layer in self.kind.layers)      # Mamba-2: states of the whole batch
        for part in parts:
            n, at = part.stop - part.start, part.track
            if packed and at is not None and n > 1:
                at = part.start + self.rules.taken_after(at - part.start, n, flat, chunks, grid)
            taken.append((part, at))
            flat, chunks = flat + n, chunks + n // grid
        return taken

    def _pass(self, parts: dict[int, Part], said: list[Hidden | None]) -> None:
        if self.model is None or not parts:
            return
        content = self.states.content
        runs = [CellRun(row.id, start, row.identities(start, stop), content.get(row.state, {}))
                for row, start, stop, _ in parts.values()]  # fmt: skip
        step = CellStep(self, runs)
        for k, after, hidden in zip(parts, step.after, self.model.forward(step.runs(), step), strict=True):
            said[k] = hidden
            content[parts[k].row.state] = after

    def decline_states(self, part: Part) -> None:
        """Log that an evaluated part made no state: at its tokens but the last, and behind the state that it keeps."""
        if STATE in self.parts and part.stop - part.start > 1:
            rule = self.rules.track_prefill if self.buffered else self.rules.give_at_chunk
            for n in {part.start, part.track or part.start}:
                self.decline(part.row, n, rule)

    @property
    def at_work(self) -> int:
        """Number of requests that run, with the one that is evaluated in chunks."""
        return len(self.running) + (self.chunked is not None)


def _run(parts: list[Part]) -> tuple[list[list[int]], list[int]]:
    """Return the parts of a step as a recording holds them, and the requests that it ended."""
    run = [[part.row.id, part.start, part.stop, *([] if part.track is None else [part.track])] for part in parts]
    return run, [part.row.id for part in parts if not part.row.busy]
