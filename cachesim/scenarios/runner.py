"""How does a scenario run? Starts the server of a profile, sends the requests, does what else a client can do.

Whoever wants to look (the judge) is told of every answer as soon as it is complete, while the server still holds what
it left behind. Saved slots lie in a temporary folder that ends with the run.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Callable, Iterator, Mapping, Sequence

from cachesim.base import limits
from cachesim.base.errors import BadInput, Crash
from cachesim.engines.base import Answer, Draft, Request
from cachesim.engines.contract import Server
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Log
from cachesim.scenarios.schema import Action, Scenario, Step, at_once

Waiting = dict[int, tuple[Request, Answer]]
"""Requests that are not answered yet, by the number of their step."""
DEAD = "before this step"
"""The error of whoever asks a server whose process has ended."""
SLOT_FILE = 10         # micro-batches that a slot takes as long as to be written to a file, or read from one
STUCK = 10_000         # rounds without an event or a token after which a server is taken for one that waits for ever


class Silent:
    """What a runner tells, to a watcher that does nothing with it. Steps are numbered from 0."""

    def started(self, server: Server) -> None:
        """A server has started, the first one or after a restart."""

    def begins(self, number: int, step: Step) -> None:
        """The step comes next."""

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """A request is answered, or never will be (``answer.done`` False)."""

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        """A step that is no completion is done; ``reply`` is what the server said."""


class Answers(Silent):
    """Keeps the answers: ``found`` by number of the step, in the order in which they were complete."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[Request, Answer]] = {}

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        self.found[number] = request, answer


def play(
    scenario: Scenario, profile: str, mode: str, watcher: Silent | None = None, table: RuleSet | None = None,
    place: str | None = None,
) -> Log:
    """Run every step of a scenario under a profile, or under a ``table`` of rules of that profile's engine. ``mode``
    "none", "provenance" or "exact". ``place``: where the folder of saved slots is made, None = where the system has its
    temporary files. Returns the whole log. Raises BadInput."""
    saves = any(step.action is not None and step.action.file for step in scenario.steps)       # else no folder is made
    with TemporaryDirectory(prefix="cachesim-", dir=place) if saves else nullcontext(".") as folder:
        stage = Stage(scenario, profile, mode, Path(folder), watcher or Silent(), table or profile)
        for first, group in groups(scenario.steps):
            try:
                if group[0].action is not None:
                    stage.act(first, group[0], group[0].action)
                else:
                    stage.send(first, group)
            except BadInput as bad:
                step = f"{first}" if len(group) == 1 else f"{first} to {first + len(group) - 1}"
                raise type(bad)(f"request {step}: {bad.cause}", hint=bad.hint, line=bad.line,
                                file=bad.file or scenario.file) from bad  # fmt: skip
    return stage.log


def groups(steps: Sequence[Step]) -> Iterator[tuple[int, list[Step]]]:
    """Steps that are sent together, with the number of the first."""
    for group in at_once(step.together for step in steps):
        yield group.start, list(steps[group.start : group.stop])


class Stage:
    """A server on its way through a scenario, step by step. ``rules`` is a profile or a table of rules."""

    def __init__(
        self, scenario: Scenario, profile: str, mode: str, folder: Path, watcher: Silent, rules: RuleSet | str
    ) -> None:
        self.scenario, self.rules, self.mode = scenario, rules, mode
        self.folder, self.watcher, self.log = folder, watcher, Log()
        self.engine, self.options = engine_of(profile), dict(scenario.server)
        self._start()

    def _start(self) -> None:
        self.server = self.engine.start(self.rules, self.scenario.model, self.options, self.mode, self.log)
        self.watcher.started(self.server)

    def send(self, first: int, group: Sequence[Step]) -> None:
        """Send requests at the same time, each so many iterations of the loop after the one before, and work until
        everything is answered."""
        self.work(self.submit(first, group))

    def submit(self, first: int, group: Sequence[Step]) -> Waiting:
        """The same up to the last of them, which has only come: what is not answered yet."""
        waiting: Waiting = {}
        for number, step in enumerate(group, first):
            self.engine.check_request(step.request)
            self._wait(step.after, waiting)
            self.watcher.begins(number, step)
            request = placed(step, self.server)
            waiting[number] = request, self.server.submit(request)
            if self.server.dead:
                waiting[number][1].error, waiting[number][1].error_kind = DEAD, "ended-before"
        return waiting

    def work(self, waiting: Waiting, until: Callable[[], bool] | None = None) -> None:
        """Work until everything is answered, or not on once ``until`` is true; calling it again goes on."""
        quiet, told = 0, len(self.log.events)
        while self.server.working:
            if until is not None and until():
                return
            self._iterate(waiting)
            quiet, told = quiet + 1 if len(self.log.events) == told else 0, len(self.log.events)
            if quiet > STUCK + sum(len(answer.tokens) for _, answer in waiting.values()):
                raise Crash(f"nothing has happened for {STUCK} rounds, and {len(waiting)} requests wait")
        self._tell(waiting, everything=True)

    def _wait(self, rounds: int, waiting: Waiting) -> None:
        """So many rounds; those of a server that has nothing to do are passed over. Raises BadInput for one that spins
        for too long."""
        spun = 0
        for _ in range(rounds):
            self._iterate(waiting)
            if self.server.idle:
                return
            spun += self.server.stuck
            limits.SPINNING.check(spun, "waiting for a server that gets nowhere")

    def _iterate(self, waiting: Waiting) -> None:
        self.server.take_tasks()
        self._tell(waiting)
        self.server.update()
        self._tell(waiting)

    def _tell(self, waiting: Waiting, everything: bool = False) -> None:
        for number, (request, answer) in list(waiting.items()):
            over = answer.done and all(child.done for child in answer.children)
            if over or answer.died or everything:
                del waiting[number]
                self.watcher.answered(number, request, answer)

    def act(self, number: int, step: Step, action: Action) -> None:
        """Do a step that is no completion."""
        self.watcher.begins(number, step)
        if action.do == "restart":
            self.log.mark()
            self.options |= dict(action.server)
            self._start()
            reply: Mapping[str, Any] = {"status": 200}
        elif self.server.dead:
            self.log.mark()
            reply = {"status": 0, "error": DEAD}
        else:
            if action.file:
                self.log.spend(0, SLOT_FILE)
            reply = self.server.slot(action.do, action.id_slot, self.folder / action.file if action.file else None)
        self.watcher.acted(number, action, reply)


def placed(step: Step, server: Server) -> Request:
    """The step's request with its drafts put where the iterations begin: each goes on behind the token before it and
    what was right; a rejection that the memory cannot take back is replayed, which adds the replay's own token."""
    at, drafts = len(step.request.prompt), []
    for drafted, accepted in step.drafts:
        drafts.append(Draft(at, drafted, accepted))
        wrong = drafted - accepted
        at += accepted + (2 if wrong > 0 and server.reevaluates_draft(wrong) else 1)
    return replace(step.request, drafts=tuple(drafts)) if drafts else step.request
