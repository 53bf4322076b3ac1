"""A simulated server on its way through the requests of a log, which can go back and try another one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Mapping, Sequence, cast

from cachesim.engines.base import Answer
from cachesim.engines.contract import Server, copied
from cachesim.errors import BadInput
from cachesim.notation.parse import parse
from cachesim.scenarios.notation import from_line
from cachesim.scenarios.request_spec import make_steps
from cachesim.scenarios.runner import Silent, Stage, groups
from cachesim.scenarios.schema import Step

LONG, BEHIND = 4096, 16       # tokens of a prompt, and requests before it, that make a request count as one more


class _Last(Silent):
    """Keeps answers by the number of their step."""

    def __init__(self) -> None:
        self.answers: dict[int, Answer] = {}

    def answered(self, number: int, request: Any, answer: Answer) -> None:
        self.answers[number] = answer


class Playing:
    """A server, the ``lines`` of the requests that it has answered for good, and the lengths of their ``words``;
    ``sent``: requests that were sent to it, with every choice, and again where it cannot be copied; a long one, and one
    behind many, counts as several."""

    def __init__(self, profile: str, model: str, server: Mapping[str, Any]) -> None:
        self.lines: list[str] = []
        self.words: dict[str, int] = {}
        self.sent, self.profile, self.last = 0, profile, _Last()
        self.blank = from_line("A1", model=model, profiles=(profile,), server=server)
        self.flags = self.blank.server
        self.stage = self._begin()

    def _begin(self) -> Stage:
        return Stage(self.blank, self.profile, "none", Path("."), self.last, self.profile)

    def _copy(self) -> Server | None:
        """The server as it is; None for one that is nested too deeply to be copied, and is played again instead."""
        return self._again(self.stage.server)

    def _again(self, server: Server | None) -> Server | None:
        try:
            return None if server is None else cast(Server, copied(server))
        except RecursionError:
            return None

    def _back(self, server: Server | None) -> None:
        if server is not None:
            self.stage.server, self.stage.log = server, server.log
            return
        self.stage = self._begin()
        steps = self.steps(self.lines) if self.lines else []
        self._count(steps)
        for first, group in groups(steps):
            self.stage.send(first, group)

    def steps(self, texts: Sequence[str]) -> list[Step]:
        """The steps of a line. Raises BadInput."""
        line = "/".join(texts)
        spelled = re.sub(r"[A-Za-z_]+(?![A-Za-z_\d+}])", lambda found: f"{found[0]}{self.words[found[0]]}", line)
        return list(make_steps(parse(spelled).steps, self.words, self.flags))

    def _send(self, texts: Sequence[str]) -> Answer | None:
        """The answer to the last of some requests that are sent together, None if they cannot be played."""
        try:
            steps = self.steps(texts)
            first = len(self.lines) - len(texts) + 1
            self._count(steps)
            self.stage.send(first, steps)
        except BadInput:
            return None
        finally:
            self.stage.log.events.clear()               # nobody reads them, and every copy would take them along
        return self.last.answers.get(first + len(steps) - 1)

    def _count(self, steps: Sequence[Step]) -> None:
        self.sent += sum(1 + len(step.request.prompt) // LONG + len(self.lines) // BEHIND for step in steps)

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
        return rounds
