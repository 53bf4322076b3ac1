"""Base of servers without slots, which batch requests: receive requests, and record generated tokens."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence, TypeVar
from zlib import crc32

from cachesim.base.errors import BadInput, ProcessAborted
from cachesim.engines.base import BEFORE_A_SLOT, Answer, Request
from cachesim.engines.capabilities import MAX_TOKENS
from cachesim.engines.contract import Server
from cachesim.engines.inspection import ExceededLimit, Key
from cachesim.engines.server_parts import MemorySizes
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.server_loop import SlotInspection, SlotTasks
from cachesim.engines.shared.vocab import CountingSampler, Sampler, forced_or_hashed
from cachesim.events import Aborted, Event, Launch, Log
from cachesim.model import Model, Spec

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class ReceivedRequest:
    """A received request and its answer."""

    id: int
    request: Request
    answer: Answer


def key_of(*names: str) -> int:
    """Return the key of tokens that are computed under these names; 0 if all are empty."""
    return 1 + crc32("\0".join(names).encode()) if any(names) else 0


def count_reused(task: ReceivedRequest, reused: Mapping[str, int], repeated_n: int = 0) -> None:
    """Count in the answer how many tokens a request reuses from each source. ``repeated_n``: the last of them, which
    are evaluated all the same."""
    answer = task.answer
    answer.reused = {source: n for source, n in reused.items() if n}
    answer.repeated_n = repeated_n
    answer.prompt_n = len(task.request.prompt) - answer.first_evaluated


def log_launch(log: Log, task: ReceivedRequest, number: int, reused: Mapping[str, int], repeated_n: int = 0) -> None:
    """Record how many tokens a request reuses from each source when it starts for the first time; ``repeated_n``: the
    last of them, which are evaluated all the same."""
    count_reused(task, reused, repeated_n)
    log.emit(Launch(number, task.id, 0))


def record_answer(answer: Answer, why: str, cancelled: bool, tokens: Sequence[int]) -> None:
    """Complete an answer; ``tokens`` were computed."""
    answer.stop_type = why
    answer.tokens_cached = len(tokens)
    answer.cancelled = cancelled
    answer.slot_tokens = tuple(tokens)
    answer.done = True


class Refusal(NamedTuple):
    """Error 400 in place of an answer. ``numbers``: by name [tokens]."""

    text: str
    kind: str
    numbers: Mapping[str, int]


class UnfinishedRows:
    """The rows in progress, in the order of their arrival. A row that ended stays ended."""

    def __init__(self) -> None:
        self._rows: list[Any] = []

    def add(self, row: Any) -> None:
        """Add a row that has arrived."""
        self._rows.append(row)

    def __iter__(self) -> Iterator[Any]:
        self._rows = [row for row in self._rows if row.busy]
        return iter(self._rows)


class RequestInspection(SlotInspection):
    """Inspection of numbered requests. ``points``: the restore points of the server."""

    slots: Sequence[Any]

    def __init__(self, slots: Sequence[Any], points: Any) -> None:
        super().__init__(slots)
        self.points = points

    def kept(self) -> list[Key]:
        """Return the keys of all restore points."""
        return list(self.points.kept())


def too_many(at_work: int, most: int) -> list[ExceededLimit]:
    """Return an excess if more requests run than allowed."""
    return [ExceededLimit("requests at work", at_work, most)] if at_work > most else []


class RequestQueue(Server):
    """A server that refuses what it cannot batch. ``longest``: length of the longest request [tokens]; ``slots``: all
    received requests; ``stalled``: the last round changed nothing."""

    queue: deque[ReceivedRequest]
    slots: list[Any]
    unfinished: UnfinishedRows
    waiting: list[Any]
    running: list[Any]
    emit: Callable[[Event], None]
    sampler: CountingSampler
    model: Model | None
    longest: int
    dead = False
    stalled = False

    def __init__(self, rules: RuleSet, spec: Spec, opts: Any, model: Model | None, log: Log,
                 sampler: Sampler = forced_or_hashed) -> None:
        self.rules = rules
        self.kind = spec
        self.opts = opts
        self.model = model
        self.log = log
        self.emit = log.emit
        self.sampler, self.constants = CountingSampler(sampler, log), (rules, spec)
        self.slots = []
        self.queue = deque()
        self.waiting = []
        self.running = []
        self.unfinished = UnfinishedRows()
        self.tasks = SlotTasks(self.queue, self.unfinished)
        self.start_memory()
        self.sizes = MemorySizes(self.longest)

    @abstractmethod
    def start_memory(self) -> None:
        """Create an empty memory. Sets ``longest`` and ``inspection``. Raise BadInput."""

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
            self.unfinished.add(row)
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
    def idle(self) -> bool:
        """True if no further round changes anything."""
        return not self.queue and not any(True for _ in self.unfinished)

    @property
    def stuck(self) -> bool:
        """True if the waiting requests never get the memory that they need."""
        return self.stalled and not self.queue

    def submit(self, request: Request) -> Answer:
        """Queue a request and return its answer, which the server fills as it works. Raise BadInput for an unsupported
        request."""
        if request.kind != "completion" or request.n_cmpl != 1:
            raise BadInput("only single completions are modelled for this engine")
        if not request.prompt:
            raise BadInput("an empty prompt is not modelled for this engine")
        answer = Answer(self.log.mark())
        max_tokens = int(request.extra.get(MAX_TOKENS.name, 0))
        refusal = self.refusal(len(request.prompt), max_tokens)
        if refusal is not None:
            answer.fails(400, refusal.text, refusal.kind, **refusal.numbers)
            answer.done = True
        elif not self.dead:
            asked = replace(request, n_predict=min(request.n_predict, max_tokens)) if max_tokens else request
            self.queue.append(ReceivedRequest(answer.request, asked, answer))
        return answer

    @abstractmethod
    def refusal(self, n: int, max_tokens: int) -> Refusal | None:
        """Return the error for a prompt of ``n`` tokens, None if it is accepted. ``max_tokens``: of the request, 0 =
        not sent."""

    def abort_cancelled(self, row: Any, n: int) -> None:
        """End a request if its client left when ``n`` of its tokens were evaluated."""
        at = row.task.request.cancel_at
        if row.busy and at is not None and n >= at:
            self.abort(row)

    def record_death(self, end: ProcessAborted) -> None:
        """Record that the process ended: no request that works or waits is answered."""
        self.dead = True
        self.emit(Aborted(str(end)))
        for task in self.queue:
            task.answer.dies(end)
        self.queue.clear()
        for row in self.unfinished:
            if row.task is not None:
                row.task.answer.dies(end)
                row.finish()
