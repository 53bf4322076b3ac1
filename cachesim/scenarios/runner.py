"""Runner of scenarios: starts the server of a profile, sends the requests and performs the other client actions.

An observer (the judge) is called for every answer as soon as it is complete, while the server still holds the state
after it. Saved slots lie in a temporary folder, which is removed after the run.
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
from cachesim.scenarios.server_settings import assumed_options

Waiting = dict[int, tuple[Request, Answer]]
"""Unanswered requests, by the number of their step."""
DEAD = "before this step"
"""Error of a request to a server whose process has ended."""
REQUEST = 10           # cost of a request beside its tokens, in micro-batches
SLOT_FILE = 10         # cost of saving or restoring a slot file, in micro-batches
RESTART = 10           # cost of a restart, in micro-batches
STUCK = 10_000         # rounds without an event or a token after which the server counts as deadlocked


class SilentObserver:
    """Observer of a run that ignores all calls; base class of the other observers. Steps are numbered from 0."""

    def started(self, server: Server) -> None:
        """Called when a server has started, also after a restart."""

    def begins(self, number: int, step: Step) -> None:
        """Called before a step of the scenario is sent to the server."""

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """Called when a request is answered, or will never be (``answer.done`` False)."""

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        """Called after a step that is not a completion; ``reply`` is the server's response."""


class Observers(SilentObserver):
    """Observer that passes every call to several observers, in this order."""

    def __init__(self, *observers: SilentObserver) -> None:
        self.observers = observers

    @classmethod
    def of(cls, first: SilentObserver, second: SilentObserver | None) -> SilentObserver:
        """Return an observer that passes every call to these; the first itself without a second."""
        return first if second is None else cls(first, second)

    def started(self, server: Server) -> None:
        for observer in self.observers:
            observer.started(server)

    def begins(self, number: int, step: Step) -> None:
        for observer in self.observers:
            observer.begins(number, step)

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        for observer in self.observers:
            observer.answered(number, request, answer)

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        for observer in self.observers:
            observer.acted(number, action, reply)


class AnswerCollector(SilentObserver):
    """Observer that collects the answers. ``found``: by number of the step, in order of completion."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[Request, Answer]] = {}

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        self.found[number] = request, answer


def play(
    scenario: Scenario, profile: str, mode: str, watcher: SilentObserver | None = None, table: RuleSet | None = None,
    place: str | None = None, before: Log | None = None, keeps_decisions: bool = True,
) -> Log:
    """Run every step of a scenario and return the whole log. Raise BadInput.

    ``table``: rule set to use instead of the profile's; it must belong to the profile's engine. ``mode``: "none",
    "provenance" or "exact". ``place``: parent of the folder for saved slots, None = the system's temporary folder.
    ``before``: log of an earlier run whose work counts for the limits of this run. ``keeps_decisions``: see ``Log``.
    """
    saves = any(step.action is not None and step.action.file for step in scenario.steps)   # create a folder on demand
    with TemporaryDirectory(prefix="cachesim-", dir=place) if saves else nullcontext(".") as folder:
        stage = ScenarioStage(
            scenario, profile, mode, Path(folder), watcher or SilentObserver(), table or profile, before,
            keeps_decisions,
        )
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
    """Yield groups of steps that are sent together, with the number of the first step."""
    for group in at_once(step.together for step in steps):
        yield group.start, list(steps[group.start : group.stop])


class ScenarioStage:
    """A server that runs a scenario step by step. ``rules``: a profile or a rule set."""

    def __init__(
        self, scenario: Scenario, profile: str, mode: str, folder: Path, watcher: SilentObserver, rules: RuleSet | str,
        before: Log | None = None, keeps_decisions: bool = True,
    ) -> None:
        self.scenario = scenario
        self.rules = rules
        self.mode = mode
        self.folder = folder
        self.watcher = watcher
        self.log = Log(before, keeps_decisions)
        self.engine, self.options = engine_of(profile), dict(scenario.server)
        self.assumed = assumed_options(scenario)
        self._start()

    def _start(self) -> None:
        rules = self.engine.rules(self.rules) if isinstance(self.rules, str) else self.rules
        self.engine.check_start(rules, self.scenario.model, self.options)
        options = {**self.assumed, **self.options}
        self.server = self.engine.start(self.rules, self.scenario.model, options, self.mode, self.log)
        self.watcher.started(self.server)

    def send(self, first: int, group: Sequence[Step]) -> None:
        """Send a group of requests, each ``after`` server-loop iterations later than its predecessor, and run the
        server until all are answered. ``first``: number of the first step."""
        self.work(self.submit(first, group))

    def submit(self, first: int, group: Sequence[Step]) -> Waiting:
        """Send a group of requests like ``send``, stop after the last has been submitted, and return the unanswered
        requests."""
        waiting: Waiting = {}
        for number, step in enumerate(group, first):
            self.engine.check_request(step.request)
            self.log.spend(0, REQUEST)
            self._wait(step.after, waiting)
            self.watcher.begins(number, step)
            request = placed(step, self.server)
            waiting[number] = request, self.server.submit(request)
            if self.server.dead:
                waiting[number][1].error, waiting[number][1].error_kind = DEAD, "ended-before"
        return waiting

    def work(self, waiting: Waiting, until: Callable[[], bool] | None = None) -> None:
        """Run the server until all requests are answered or ``until()`` is true; call again to resume. Raise Crash if
        nothing happens for ``STUCK`` rounds."""
        quiet, logged = 0, self.log.n_logged
        while self.server.working:
            if until is None:
                self.server.generate_given()
            elif until():
                return
            self._iterate(waiting)
            quiet, logged = quiet + 1 if self.log.n_logged == logged else 0, self.log.n_logged
            if quiet > STUCK and quiet > STUCK + sum(len(answer.tokens) for _, answer in waiting.values()):
                raise Crash(f"nothing has happened for {STUCK} rounds, and {len(waiting)} requests wait")
        self._notify(waiting, everything=True)

    def _wait(self, rounds: int, waiting: Waiting) -> None:
        """Run the server loop for ``rounds`` iterations, fewer if the server becomes idle. Raise BadInput if the
        server makes no progress for too many of them."""
        spun = 0
        for _ in range(rounds):
            self._iterate(waiting)
            if self.server.idle:
                return
            spun += self.server.stuck
            limits.SPINNING.check(spun, "waiting for a server that makes no progress")

    def _iterate(self, waiting: Waiting) -> None:
        self.server.take_tasks()
        self._notify(waiting)
        self.server.update()
        self._notify(waiting)

    def _notify(self, waiting: Waiting, everything: bool = False) -> None:
        for number, (request, answer) in list(waiting.items()):
            over = answer.done and all(child.done for child in answer.children)
            if over or answer.died or everything:
                del waiting[number]
                self.watcher.answered(number, request, answer)

    def act(self, number: int, step: Step, action: Action) -> None:
        """Perform a step that is not a completion."""
        self.watcher.begins(number, step)
        if action.do == "restart":
            self.log.spend(0, RESTART)
            self.log.mark()
            self.options |= dict(action.server)
            self._start()
            reply: Mapping[str, Any] = {"status": 200}
        elif self.server.dead:
            self.log.mark()
            reply = {"status": 0, "error": DEAD}
        elif action.do == "lora":
            reply = self.server.set_adapters(action.scales)
        else:
            if action.file:
                self.log.spend(0, SLOT_FILE)
            file = self.folder / action.file if action.file else None
            reply = self.server.slot(action.do, action.id_slot, file, action.percent)
        self.watcher.acted(number, action, reply)


def placed(step: Step, server: Server) -> Request:
    """Return the request of a step with the positions of its drafts. Each draft starts after the last accepted token; a
    rejection that the memory cannot undo is evaluated again, which adds a token."""
    at, drafts = len(step.request.prompt), []
    for drafted, accepted in step.drafts:
        drafts.append(Draft(at, drafted, accepted))
        wrong = drafted - accepted
        at += accepted + (2 if wrong > 0 and server.sequences.reevaluates_draft(wrong) else 1)
    return replace(step.request, drafts=tuple(drafts)) if drafts else step.request
