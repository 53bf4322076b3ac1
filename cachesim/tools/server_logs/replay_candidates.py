"""A simulated server on its way through the requests of a log, which can go back and try another one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence, cast

from cachesim.base.errors import BadInput
from cachesim.engines.contract import Server, copy_server
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.runner import Silent, Stage, Waiting, groups
from cachesim.scenarios.schema import Step

SENT, PART, WINDOWED = 128, 128, 4  # units of work of a request, and of a generated token of a model with a window;
                                    # so many tokens of a prompt are one


class RunningPrompt(NamedTuple):
    """A request whose prompt is evaluated: the ``slot`` that works on it, and the tokens that it reused."""

    slot: int
    cache_n: int


class Playing:
    """A server, the ``lines`` of the requests that it has answered for good, and the lengths of their ``words``;
    ``work``: what was done for that, in units that take about as long as a token that is generated. An answer is
    generated when somebody needs the server behind it: most that are sent are known to be wrong by their prompt."""

    def __init__(self, profile: str, model: str, server: Mapping[str, Any]) -> None:
        self.lines: list[str] = []
        self.words: dict[str, int] = {}
        self.work, self.profile = 0, profile
        self.waiting: Waiting = {}
        self.round = WINDOWED if "W" in model else 1
        self.blank = from_line("A1", model=model, profiles=(profile,), server=server)
        self.flags = self.blank.server
        self.stage = self._begin()

    def _begin(self) -> Stage:
        return Stage(self.blank, self.profile, "none", Path("."), Silent(), self.profile)

    def _copy(self) -> Server | None:
        """The server as it is; None for one that is nested too deeply to be copied, and is played again instead."""
        self._answer()
        return self._again(self.stage.server)

    def _again(self, server: Server | None) -> Server | None:
        try:
            return None if server is None else cast(Server, copy_server(server))
        except RecursionError:
            return None

    def _back(self, server: Server | None) -> None:
        self.waiting = {}
        if server is not None:
            self.stage.server, self.stage.log = server, server.log
            return
        self.stage = self._begin()
        steps = self.steps(self.lines) if self.lines else []
        self._count(steps)
        for first, group in groups(steps):
            self._work(self.stage.submit(first, group))

    def steps(self, texts: Sequence[str]) -> list[Step]:
        """The steps of a line. Raises BadInput."""
        line = "/".join(texts)
        spelled = re.sub(r"[A-Za-z_]+(?![A-Za-z_\d+}])", lambda found: f"{found[0]}{self.words[found[0]]}", line)
        return list(make_steps(parse(spelled).steps, self.words, self.flags))

    def _send(self, texts: Sequence[str]) -> RunningPrompt | None:
        """The last of some requests that are sent together, behind its prompt; None if they cannot be played."""
        self._answer()
        try:
            steps = self.steps(texts)
            first = len(self.lines) - len(texts) + 1
            self._count(steps)
            self.waiting = self.stage.submit(first, steps)
            _, answer = self.waiting[first + len(steps) - 1]
            self._work(self.waiting, lambda: bool(answer.tokens) or answer.done or answer.died)
        except BadInput:
            return None
        finally:
            self.stage.log.events.clear()               # nobody reads them, and every copy would take them along
        slots = (one for one in range(self.stage.server.n_slots) if self.stage.server.answer_at(one) is answer)
        return RunningPrompt(next(slots, answer.id_slot), answer.cache_n)      # or the slot that it was worked on in

    def _answer(self) -> None:
        """Generate what is left of the answers to the requests that were sent last."""
        if self.waiting:
            self._work(self.waiting)
            self.stage.log.events.clear()
        self.waiting = {}

    def _work(self, waiting: Waiting, until: Callable[[], bool] | None = None) -> None:
        """Work, and count what is generated."""
        answers = [answer for _, answer in waiting.values()]
        before = sum(len(answer.tokens) for answer in answers)
        self.stage.work(waiting, until)
        self.work += (sum(len(answer.tokens) for answer in answers) - before) * self.round

    def _count(self, steps: Sequence[Step]) -> None:
        """A request costs its prompt, and copies of a server that holds all before it."""
        self.work += sum(SENT + len(self.lines) + len(step.request.prompt) // PART for step in steps)

    def rounds(self, base: Server | None, texts: Sequence[str], over: Sequence[str]) -> int:
        """Rounds of the server's loop behind the last of some requests until those that are over have been answered."""
        self._back(self._again(base))
        server, steps = self.stage.server, self.steps(texts)
        self._count(steps)
        answers = []
        for step in steps:
            for _ in range(step.after):
                server.take_tasks()
                server.update()
            answers.append(server.submit(step.request))
        wanted = [answer for answer, text in zip(answers, texts, strict=True) if text in over]
        rounds = 0
        while server.working and not all(answer.done for answer in wanted):
            server.take_tasks()
            server.update()
            rounds += 1
        self.work += sum(len(answer.tokens) for answer in answers) * self.round
        return rounds
