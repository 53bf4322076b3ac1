"""Observables: everything that a client of a run, or a reader of its complete log, can observe, in one table.

``bisect``, ``diff`` and the grouping of equal rule sets compare these values. Client observables always count. Log
lines count on request only: most builds print other lines than their neighbours, so that almost all logs differ. A
streaming client receives one chunk for each token of ``tokens``; chunks are not simulated otherwise.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Protocol, Sequence

from cachesim.engines.base import Answer
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Event, Log
from cachesim.judging.judgement import Judgement


class Observable(NamedTuple):
    """Something that a client observes. ``what``: description; ``read``: reads it from a judged step."""

    id: str
    what: str
    read: Callable[[Judgement], Any]


def _each(read: Callable[[Answer], Any]) -> Callable[[Judgement], Any]:
    """Return a reader of a value of each completion: of the only one, or a list."""

    def value(judgement: Judgement) -> Any:
        children = judgement.answer.children
        return [read(answer) for answer in (judgement.answer, *children)] if children else read(judgement.answer)

    return value


def _reply(name: str) -> Callable[[Judgement], Any]:
    return lambda one: one.reply.get(name)


def _logprobs(answer: Answer) -> list[tuple[int, str]]:
    """Return position and content of each output: its logits, or their provenance if nothing is computed."""
    return [(out.pos, str(out.digest) if out.logits is None else sha256(out.logits.tobytes()).hexdigest()[:16])
            for out in answer.outputs]  # fmt: skip


CLIENT: tuple[Observable, ...] = (
    Observable("died", "the server process ended and the connection broke", lambda one: one.answer.died),
    Observable("answered", "there was an answer", lambda one: one.answer.done),
    Observable("status", "HTTP status", _each(lambda answer: 0 if answer.died else answer.status)),
    Observable("error_kind", "kind of the error", _each(lambda answer: "" if answer.died else answer.error_kind)),
    Observable("error", "text of the error", _each(lambda answer: "" if answer.died else answer.error)),
    Observable("cancelled", "the server noticed that the client had disconnected",
               _each(lambda answer: answer.cancelled)),
    Observable("equal_cold", "the answer equals the answer of a cold run", lambda one: one.judged.equal_cold),
    Observable("cache_n", "reused prompt tokens", _each(lambda answer: answer.cache_n)),
    Observable("prompt_n", "evaluated prompt tokens", _each(lambda answer: answer.prompt_n)),
    Observable("tokens", "the generated tokens", _each(lambda answer: list(answer.tokens))),
    Observable("predicted_n", "number of generated tokens", _each(lambda answer: answer.predicted_n)),
    Observable("stop_type", "reason that ended generation", _each(lambda answer: answer.stop_type)),
    Observable("truncated", "the server dropped tokens of the prompt or the context",
               _each(lambda answer: bool(answer.truncated))),
    Observable("tokens_cached", "length of the slot at the end", _each(lambda answer: answer.tokens_cached)),
    Observable("draft_n", "drafted tokens", _each(lambda answer: answer.draft_n)),
    Observable("draft_n_accepted", "accepted drafted tokens", _each(lambda answer: answer.draft_n_accepted)),
    Observable("completions", "number of completions", lambda one: 1 + len(one.answer.children)),
    Observable("id_slot", "slot of the reply, -1 = none", _each(lambda answer: answer.id_slot)),
    Observable("place", "number of steps that were answered before", lambda one: one.place),
    Observable("logprobs", "log-probabilities of the answer", _each(_logprobs)),
    Observable("slot_tokens", "tokens of the slot in /slots", _each(lambda answer: list(answer.slot_tokens))),
    Observable("n_ctx", "context of a slot in /slots and /props [tokens], after a start", lambda one: one.n_ctx),
    Observable("n_saved", "tokens that a save reports", _reply("n_saved")),
    Observable("n_written", "bytes that a save reports", _reply("n_written")),
    Observable("n_restored", "tokens that a restore reports", _reply("n_restored")),
    Observable("n_read", "bytes that a restore reports", _reply("n_read")),
    Observable("n_erased", "tokens that an erase reports", _reply("n_erased")),
)
"""Client observables, the most important first: of several that differ, reports name the first."""
OF_EVERY_ENGINE = frozenset({
    "died", "answered", "status", "cancelled", "equal_cold", "cache_n", "prompt_n", "tokens", "predicted_n",
    "completions",
})
"""Client observables that mean the same for the servers of all engines."""
LOG = "log."
"""Prefix of the observable of a kind of log line: ``log.ckpt_create``."""
LOG_ORDER = "log order"
"""Observable: kinds of the lines of a step, in order. It differs alone if equal lines stand in another order."""


class LogLine(NamedTuple):
    """A line of the log: its kind and its numbers by name."""

    kind: str
    numbers: Mapping[str, Any]

    def __str__(self) -> str:
        return " ".join([self.kind, *(f"{name}={value}" for name, value in self.numbers.items())])


class StepOutcome(NamedTuple):
    """Observables of a step: those of the client by id, and the lines of the log in order, () = not compared."""

    client: Mapping[str, Any]
    log: Sequence[LogLine] = ()


class ObservedDifference(NamedTuple):
    """An observable that differs between two outcomes, with both values."""

    observable: str
    what: str
    a: Any
    b: Any


def client_values(judgement: Judgement) -> dict[str, Any]:
    """Return the client observables of a judged step, by id."""
    return {seen.id: seen.read(judgement) for seen in CLIENT}


def client_digest(judgement: Judgement) -> str:
    """Return a short digest of the client observables: equal for steps that a client cannot tell apart."""
    text = json.dumps(list(client_values(judgement).values()), default=int)
    return sha256(text.encode()).hexdigest()[:12]


def log_lines(events: Iterable[Event], rules: RuleSet | None) -> list[LogLine]:
    """Return the lines that a build prints for these events. Tasks are numbered in the order of their lines."""
    silent = rules.silent if rules is not None else frozenset()
    missing = rules.unlogged if rules is not None else {}
    tasks: dict[int, int] = {}
    found = []
    for event in events:
        if event.printed and event.ev not in silent:
            task = getattr(event, "task", None)
            if task is not None:
                tasks.setdefault(task, len(tasks))
            numbers = event.record(False, tasks)
            left_out = missing.get(event.ev, ())
            found.append(LogLine(event.ev, {k: v for k, v in numbers.items() if k != "ev" and k not in left_out}))
    return found


class LoggedRun(Protocol):
    """A judged run."""

    log: Log
    rules: RuleSet | None
    requests: list[Judgement]

    def events(self, number: int) -> list[Event]:
        """Return the events of a step."""


def observed(run: LoggedRun, number: int, log: bool = False) -> StepOutcome:
    """Return the observables of a step; ``log``: with the lines of the log, those of the server's start at step 0."""
    client = client_values(run.requests[number])
    if not log:
        return StepOutcome(client)
    start = run.log.events[: run.log.marks[0]] if number == 0 and run.log.marks else []
    return StepOutcome(client, log_lines([*start, *run.events(number)], run.rules))


def differences(a: StepOutcome, b: StepOutcome) -> list[ObservedDifference]:
    """Return the observables that differ: those of the client in the order of ``CLIENT``, then kinds of log lines in
    the order of the lines, each with its first line that differs."""
    return [*_client_differences(a, b), *_log_differences(a.log, b.log)]


def differences_of_engines(a: StepOutcome, b: StepOutcome) -> list[ObservedDifference]:
    """Return the client observables that differ, of those that the servers of all engines have."""
    return [one for one in _client_differences(a, b) if one.observable in OF_EVERY_ENGINE]


def _client_differences(a: StepOutcome, b: StepOutcome) -> list[ObservedDifference]:
    return [
        ObservedDifference(seen.id, seen.what, a.client.get(seen.id), b.client.get(seen.id))
        for seen in CLIENT if a.client.get(seen.id) != b.client.get(seen.id)
    ]


def _log_differences(a: Sequence[LogLine], b: Sequence[LogLine]) -> Iterator[ObservedDifference]:
    if list(a) == list(b):
        return
    kinds = list(dict.fromkeys(line.kind for pair in _pairs(a, b) for line in pair if line is not None))
    same = True
    for kind in kinds:
        mine, theirs = ([line for line in lines if line.kind == kind] for lines in (a, b))
        pair = next(((x, y) for x, y in _pairs(mine, theirs) if x != y), None)
        if pair is not None:
            same = False
            yield ObservedDifference(LOG + kind, f"log line {kind}", *(None if x is None else str(x) for x in pair))
    if same:
        orders = (" ".join(line.kind for line in lines) for lines in (a, b))
        yield ObservedDifference(LOG_ORDER, "order of the log lines", *orders)


def _pairs(a: Sequence[LogLine], b: Sequence[LogLine]) -> Iterator[tuple[LogLine | None, LogLine | None]]:
    """Yield the lines of both logs side by side."""
    for i in range(max(len(a), len(b))):
        yield (a[i] if i < len(a) else None), (b[i] if i < len(b) else None)


def value_text(value: Any) -> str:
    """Return a value of an observable in at most a line: a long list by its length."""
    if isinstance(value, list | tuple) and len(value) > SHOWN:
        return f"[{', '.join(map(str, value[:SHOWN]))}, ... {len(value)} in all]"
    return "nothing" if value is None else str(value)


SHOWN = 4            # items of a list that a report shows
