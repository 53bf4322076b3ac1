"""Base of servers without slots, which batch requests: receive requests, and record generated tokens."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence, TypeVar
from zlib import crc32

from cachesim.base.errors import BadInput, ProcessAborted, quoted
from cachesim.base.keyed_tokens import IDS
from cachesim.base.tokens import TokenList
from cachesim.engines.base import BEFORE_A_SLOT, Answer, Output, Request
from cachesim.engines.capabilities import Option
from cachesim.engines.inspection import Excess, Key
from cachesim.engines.shared.evaluation_cost import cost_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.server_loop import Driver
from cachesim.engines.shared.size_formulas import split_sizes
from cachesim.engines.shared.vocab import CountingSampler, Sampler, forced_or_hashed
from cachesim.events import Aborted, Event, Launch, Log, Release
from cachesim.model import Hidden, Model, Spec, make_model, parse

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class ReceivedRequest:
    """A received request and its answer."""

    id: int
    request: Request
    answer: Answer


@dataclass(slots=True, eq=False)
class RequestRow:
    """A request in progress. ``all``: its tokens, prompt and answer, the first ``computed`` of which are evaluated;
    ``key``: what they are computed under, 0 = nothing; ``child`` is always False: several completions are not
    supported."""

    id: int
    task: ReceivedRequest
    all: TokenList
    key: int = 0
    computed: int = 0
    launched: bool = False
    busy: bool = True
    child: bool = False

    @property
    def tokens(self) -> list[int]:
        """The evaluated tokens, with their key."""
        return self.identities(0, self.computed)

    def finish(self) -> None:
        """End the request."""
        self.busy = False

    def identities(self, start: int, stop: int) -> list[int]:
        """Return tokens start .. stop-1 with the key that they are computed under."""
        return [token + self.key * IDS for token in self.all[start:stop]] if self.key else self.all[start:stop]

    @property
    def prompt(self) -> int:
        """Length of the prompt [tokens]."""
        return len(self.task.request.prompt)

    @property
    def left(self) -> int:
        """Most tokens of its answer that are not generated yet."""
        return max(1, self.task.request.n_predict) - self.task.answer.predicted_n


def key_of(*names: str) -> int:
    """Return the key of tokens that are computed under these names; 0 if all are empty."""
    return 1 + crc32("\0".join(names).encode()) if any(names) else 0


def log_launch(log: Log, task: ReceivedRequest, number: int, reused: Mapping[str, int]) -> None:
    """Record how many tokens a request reuses from each source when it starts for the first time."""
    answer = task.answer
    answer.reused = {source: n for source, n in reused.items() if n}
    answer.prompt_n = len(task.request.prompt) - answer.cache_n
    log.emit(Launch(number, task.id, 0))


def record_answer(answer: Answer, why: str, cancelled: bool, tokens: Sequence[int]) -> None:
    """Complete an answer; ``tokens`` were computed."""
    answer.stop_type = why
    answer.tokens_cached = len(tokens)
    answer.cancelled = cancelled
    answer.slot_tokens = tuple(tokens)
    answer.done = True


def serve_of(kind: type[RuleSet], options: Callable[[Mapping[str, Any]], Any], server: Callable[..., T],
             unfit: Callable[[Spec], str] = lambda spec: "") -> Callable[..., T]:
    """Return a function that starts a server with these rules and options. ``unfit``: why a model is not modelled."""

    def serve(rules: RuleSet, model: str, flags: Mapping[str, Option], mode: str, log: Log) -> T:
        """Start a server of this version and model. ``mode``: "none", "provenance" or "exact". Raises BadInput."""
        if not isinstance(rules, kind):
            raise BadInput(f"{quoted(rules.name)} is not a rule set of this engine")
        spec = parse(split_sizes(model)[0])
        if why := unfit(spec):
            raise BadInput(f"model {quoted(model)} {why}")
        tiny = None if mode == "none" else make_model(spec, exact=mode == "exact")
        return server(rules, spec, options({**rules.defaults, **flags}), tiny, log)

    return serve


class RequestQueue(Driver):
    """A server that refuses what it cannot batch. ``longest``: length of the longest request [tokens]; ``too_long``:
    text of the refusal of a longer one, with {n} and {most}; ``points``: its restore points;
    ``most_running``: most requests that run at a time; ``stalled``: the last round changed nothing."""

    queue: deque[ReceivedRequest]
    slots: list[Any]
    waiting: list[Any]
    running: list[Any]
    emit: Callable[[Event], None]
    sampler: CountingSampler
    model: Model | None
    longest: int
    too_long: str
    points: Any
    most_running: int
    stalled = False

    def __init__(self, rules: Any, spec: Spec, opts: Any, model: Model | None, log: Log,
                 sampler: Sampler = forced_or_hashed) -> None:
        self.rules, self.kind, self.opts, self.model, self.log, self.emit = rules, spec, opts, model, log, log.emit
        self.dead, self.sampler = False, CountingSampler(sampler, log)
        self.slots, self.queue, self.waiting, self.running = [], deque(), [], []
        self.start_memory()

    @abstractmethod
    def start_memory(self) -> None:
        """Create an empty memory. Sets ``longest``, ``points`` and ``most_running``. Raises BadInput."""

    @abstractmethod
    def new_row(self, task: ReceivedRequest) -> Any:
        """Return a row for a received request, the next of ``slots``."""

    @abstractmethod
    def abort(self, row: Any) -> None:
        """End a request whose client left."""

    @abstractmethod
    def work(self) -> None:
        """Run a step. A ``ProcessAborted`` that it raises ends the process."""

    def take_tasks(self) -> None:
        """Run the first half of a round: move the received requests to the waiting queue."""
        while self.queue:
            row = self.new_row(self.queue.popleft())
            row.task.answer.id_slot, row.task.answer.keys = row.id, ((0, row.key),) if row.key else ()
            self.slots.append(row)
            self.enqueue(row)

    def enqueue(self, row: Any) -> None:
        """Let a received request wait."""
        self.waiting.append(row)

    def update(self) -> None:
        """Run the second half of a round: a step, after the requests whose clients left."""
        for row in [row for row in self.waiting if row.task.request.cancel_at == BEFORE_A_SLOT]:
            self.abort(row)
        try:
            if not self.dead:
                self.work()
        except ProcessAborted as end:
            self.record_death(end)

    @property
    def stuck(self) -> bool:
        """True if the waiting requests never get the memory that they need."""
        return self.stalled and not self.queue

    def submit(self, request: Request) -> Answer:
        """Queue a request and return its answer, which the server fills as it works. Raises BadInput for an unsupported
        request."""
        if request.kind != "completion" or request.n_cmpl != 1:
            raise BadInput("only single completions are modelled for this engine")
        if not request.prompt:
            raise BadInput("an empty prompt is not modelled for this engine")
        answer, n = Answer(self.log.mark()), len(request.prompt)
        if n >= self.longest:
            answer.fails(400, self.too_long.format(n=n, most=self.longest), "prompt-too-long", prompt=n,
                         most=self.longest)  # fmt: skip
            answer.done = True
        elif not self.dead:
            self.queue.append(ReceivedRequest(answer.request, request, answer))
        return answer

    def send_recorded(self, sent: Mapping[str, Any], named: Mapping[str, str]) -> None:
        """Submit and receive a request of a recording. ``named``: fields of requests in the recording, and ours."""
        extra, answer = {ours: sent[name] for name, ours in named.items() if name in sent}, tuple(sent["answer"])
        self.submit(Request(tuple(sent["prompt"]), len(answer), forced=answer, cache_prompt=not sent.get("skip_read"),
                            extra=extra))  # fmt: skip
        self.take_tasks()

    def slot(self, action: str, id_slot: int, file: Path | None = None, percent: int = 100) -> dict[str, Any]:
        """Raise BadInput: this server does not have slots to save."""
        raise BadInput(f"this server has no slots to {action}", hint="restart")

    def kept(self) -> list[Key]:
        """Return the keys of all restore points."""
        return list(self.points.kept())

    @property
    def at_work(self) -> int:
        """Number of requests that run."""
        return len(self.running)

    def exceeded_limits(self) -> list[Excess]:
        """Return an excess if more requests run than allowed."""
        return [Excess("requests at work", self.at_work, self.most_running)] if self.at_work > self.most_running else []

    def occupied_slots(self) -> Sequence[int]:
        """Return the requests in progress: an ended request leaves only what others can find."""
        return self.busy()

    @property
    def n_ctx_slot(self) -> int:
        """Length of the longest request [tokens]."""
        return self.longest

    def abort_cancelled(self, row: Any, n: int) -> None:
        """End a request if its client left when ``n`` of its tokens were evaluated."""
        at = row.task.request.cancel_at
        if row.busy and at is not None and n >= at:
            self.abort(row)

    def spend(self, parts: Sequence[tuple[int, int]]) -> None:
        """Count the cost of a step that evaluates tokens start .. stop-1 of requests."""
        tokens, before = sum(stop - start for start, stop in parts), sum(stop * (stop - start) for start, stop in parts)
        self.log.spend(*cost_of(self.model, tokens, max(1, tokens), before))

    def record_launch(self, row: RequestRow, reused: Mapping[str, int]) -> None:
        """Record how many tokens a request reuses from each source when it starts for the first time."""
        if not row.launched:
            row.launched = True
            log_launch(self.log, row.task, row.id, reused)

    def record_end(self, row: RequestRow, why: str, cancelled: bool, held: int | None = None) -> None:
        """Record the end of a request while the memory still holds what it computed: ``held`` tokens, None = all that
        are computed."""
        n = row.computed if held is None else held
        record_answer(row.task.answer, why, cancelled, row.all[:n])
        if row.launched:
            self.emit(Release(row.id, row.task.id, n, 0))
        row.finish()

    def record_death(self, end: ProcessAborted) -> None:
        """Record that the process ended: no request that works or waits is answered."""
        self.dead = True
        self.emit(Aborted(str(end)))
        for task in self.queue:
            task.answer.dies(end)
        self.queue.clear()
        for row in self.slots:
            if row.busy and row.task is not None:
                row.task.answer.dies(end)
                row.finish()

    def record_evaluated(self, row: RequestRow, hidden: Hidden | None) -> None:
        """Record the model output after the last of a request's tokens."""
        digest, logits = 0, None
        if hidden is not None and self.model is not None:
            digest = int(hidden.digest[-1])
            logits = self.model.readout(hidden.x[-1:])[0] if hidden.x is not None else None
        row.task.answer.outputs.append(Output(len(row.all) - 1, digest, logits))

    def record_output(self, row: RequestRow, hidden: Hidden | None) -> None:
        """Record the model output after the last of a request's tokens, and append the next token."""
        self.record_evaluated(row, hidden)
        task, tokens, answer = row.task, row.all, row.task.answer
        token = self.sampler(tokens, task.request, answer.predicted_n)
        tokens.append(token)
        answer.tokens.append(token)
        answer.predicted_n += 1
