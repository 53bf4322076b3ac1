"""Simulated server that runs candidate requests of a log and can be reset to an earlier state."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer
from cachesim.engines.contract import Server
from cachesim.events import Event
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.runner import ScenarioStage, SilentObserver, Waiting, groups
from cachesim.scenarios.schema import Step

SENT = 128                   # work units per request: its notation, and a copy of the server
PART = 128                   # prompt tokens per work unit
WINDOWED = 4                 # work units of a generated token of a model with a window; 1 without
BATCH = 4                    # work units of a micro-batch of a prompt, however few tokens it has
WINDOWED_BATCH = 8           # the same, of a model with a window


class RunningPrompt(NamedTuple):
    """Request whose prompt is being evaluated: its slot, and the numbers of tokens that it reused and evaluated."""

    slot: int
    cache_n: int
    prompt_n: int = 0

    @property
    def printed(self) -> dict[str, int]:
        """Numbers of the answer as servers print them."""
        return {"n_past": self.cache_n, "prompt_n": self.prompt_n}


class CandidateServer:
    """Simulated server on which the reconstruction of a log tries requests: a candidate that reproduces the log is
    accepted.

    ``lines``: the accepted requests, in the notation; ``words``: token counts of the words in them. ``work`` counts
    work units; a unit takes about as long as a generated token. A prompt costs a unit per ``PART`` tokens for its
    preparation, and more if its evaluation takes longer: a small micro-batch takes as long as a large one. Answers are
    generated only when the state after them is needed, because most candidates are rejected after their prompt.
    ``events``: those of the requests sent last.
    """

    def __init__(self, profile: str, model: str, server: Mapping[str, Any]) -> None:
        self.lines: list[str] = []
        self.words: dict[str, int] = {}
        self.work, self.profile = 0, profile
        self.waiting: Waiting = {}
        self.events: list[Event] = []
        self.are_sent = False                            # requests were sent and their answers are not finished
        self.round = WINDOWED if "W" in model else 1
        self.batch = WINDOWED_BATCH if "W" in model else BATCH
        self.blank = from_line("A1", model=model, profiles=(profile,), server=server)
        self.flags = self.blank.server
        self.stage = self._begin()

    def _begin(self) -> ScenarioStage:
        return ScenarioStage(
            self.blank, self.profile, mode="none", folder=Path("."), watcher=SilentObserver(), rules=self.profile
        )

    def _copy(self) -> Server | None:
        """Return a copy of the server, None if it is nested too deeply to be copied (its requests are run again
        instead)."""
        self._finish_answers()
        return self._copy_of(self.stage.server)

    def _copy_of(self, server: Server | None) -> Server | None:
        """Return a copy of a server, None if it is None or nested too deeply."""
        try:
            return None if server is None else server.fork()
        except RecursionError:
            return None

    def _reset(self, server: Server | None) -> None:
        """Reset the server to an earlier state. None: start a new server and run all accepted requests again."""
        self.waiting, self.are_sent = {}, False
        if server is not None:
            self.stage.server, self.stage.log = server, server.log
            return
        self.stage = self._begin()
        steps = self._counted_steps(self.lines) if self.lines else []
        for first, group in groups(steps):
            self._work(self.stage.submit(first, group))
        self.stage.log.events.clear()

    def steps(self, texts: Sequence[str]) -> list[Step]:
        """Return the scenario steps of requests in the notation. Raise BadInput."""
        line = "/".join(texts)
        with_lengths = re.sub(r"[A-Za-z_]+(?![A-Za-z_\d+}=])", lambda found: f"{found[0]}{self.words[found[0]]}", line)
        return list(make_steps(parse(with_lengths).steps, self.words, self.flags))

    def _send(self, texts: Sequence[str]) -> RunningPrompt | None:
        """Send requests together and run the server until the prompt of the last is evaluated. Return that prompt, None
        if the simulator refuses the requests."""
        self._finish_answers()
        self.events = []
        try:
            steps = self._counted_steps(texts)
            self.are_sent = True
            self.waiting = self.stage.submit(0, steps)
            _, answer = self.waiting[len(steps) - 1]
            self._work(self.waiting, lambda: bool(answer.tokens) or answer.done or answer.died)
        except BadInput:
            return None
        finally:
            self._collect_events()
        inspection = self.stage.server.inspection
        slots = (slot for slot in range(inspection.n_slots) if inspection.answer_at(slot) is answer)
        slot = next(slots, answer.id_slot)                                     # a finished answer has left its slot
        return RunningPrompt(slot, answer.cache_n, answer.prompt_n)

    def _finish_answers(self) -> None:
        """Generate the rest of the answers to the requests sent last."""
        if self.are_sent:
            self._work(self.waiting)
            self._collect_events()
            self._check_answers()
        self.waiting, self.are_sent = {}, False

    def _collect_events(self) -> None:
        """Take the new events from the server's log; every copy of the server would contain them."""
        self.events += (event for event in self.stage.log.events if event.logged)
        self.stage.log.events.clear()

    def _check_answers(self) -> None:
        """Called when the requests sent last are answered."""

    def _work(self, waiting: Waiting, until: Callable[[], bool] | None = None) -> None:
        """Run the server and count the work."""
        with self._counted_work([answer for _, answer in waiting.values()]):
            self.stage.work(waiting, until)

    @contextmanager
    def _counted_work(self, answers: Sequence[Answer]) -> Iterator[None]:
        """Count the tokens that the block generates for these answers as work, and the evaluation of prompts as far as
        ``_counted_steps`` did not."""
        log = self.stage.server.log
        spent, passes = log.spent, log.passes
        before = {id(answer): len(answer.tokens) for answer in answers}
        try:
            yield
        finally:
            generated = sum(len(answer.tokens) - before.get(id(answer), 0) for answer in answers)
            first = sum(not before.get(id(answer)) and bool(answer.tokens) for answer in answers)
            alone = generated - first                # the evaluation of a prompt generates the first token
            parts = max(0, log.spent - spent - alone) // PART
            batches = max(0, log.passes - passes - alone)
            self.work += generated * self.round + max(0, batches * self.batch - parts, parts * (self.round - 1))

    def _counted_steps(self, texts: Sequence[str]) -> list[Step]:
        """Return the scenario steps of requests. Count the work for them, for their prompts, and for copies of a server
        that holds all earlier requests. Raise BadInput."""
        self.work += (SENT + len(self.lines)) * len(texts)
        steps = self.steps(texts)
        self.work += sum(len(step.request.prompt) // PART for step in steps)
        return steps
