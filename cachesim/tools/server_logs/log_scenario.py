"""Which requests would make a server write this log? A scenario whose simulated numbers are those of the log.

What the log says is taken: lengths, slots, answers. What it leaves open is a free variable with few values: the common
prefix behind a rounded share, the conversation that an entry of the prompt cache held, the rule set, the kind of model.
Values are tried in order, the simplest first, and the first that makes the simulator reuse what the log says is taken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from cachesim.base.limits import REBUILT
from cachesim.tools.server_logs.reconstruct import Builder
from cachesim.tools.server_logs.reconstruction import Rebuild
from cachesim.tools.server_logs.session import LogSession

ROUNDS = 2


class Open(NamedTuple):
    """What is not known of the server: rule sets and models in the order in which they are likely, options that are
    known (``server``), and values to try for others (``options``), some of them with each model (``joint``)."""

    profiles: Sequence[str]
    models: Sequence[str]
    server: Mapping[str, Any]
    options: Mapping[str, Sequence[Any]]
    joint: Mapping[str, Sequence[Any]]


def solve(session: LogSession, known: Open, most: int) -> Rebuild | None:
    """The values under which the simulator says what the log says at most requests: the model, the open options and the
    rule set, one after the other, and round again as long as one of them helps. None if nothing of the log can be
    played. No more than ``most`` units of work are done: of a long log the first requests are played, and what was not
    tried is named in what was found."""
    session = replace(session, requests=session.requests[: REBUILT.now])
    if not any(one.n_tokens for one in session.requests):
        return None
    return _Search(session, known, most).found()


class _Search:
    """The best so far, and how much work may still be done for a better one."""

    def __init__(self, session: LogSession, known: Open, most: int) -> None:
        self.session, self.known = session, known
        self.best: Rebuild | None = None
        self.left = most
        self.unsought: list[str] = []
        self.played: set[tuple[str, str, str]] = set()

    def found(self) -> Rebuild | None:
        known = self.known
        self._try("kinds of model", ((known.profiles[0], model, dict(known.server)) for model in known.models))
        for name, values in known.joint.items():
            self._try(name, ((known.profiles[0], model, {**known.server, name: value})
                             for value in values for model in known.models))  # fmt: skip
        for _ in range(ROUNDS):
            before = self.best and self.best.score
            for name, values in known.options.items():
                self._try(name, ((profile, model, {**server, name: value})
                                 for profile, model, server in self._from_here() for value in values))  # fmt: skip
            self._try("kinds of model", ((profile, model, server) for profile, _, server in self._from_here()
                                         for model in known.models))  # fmt: skip
            self._try("rule sets", ((name, model, server) for _, model, server in self._from_here()
                                    for name in known.profiles))  # fmt: skip
            if self.best is None or self.best.score == before:
                break
        if self.best is not None:
            self.best.unsought = self.unsought
        return self.best

    def _from_here(self) -> list[tuple[str, str, dict[str, Any]]]:
        best = self.best
        return [] if best is None else [(best.profile, best.model, dict(best.server))]

    def _try(self, what: str, servers: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        """Take the best of these, which differ in ``what``, unless everything agrees already. One that is worse is not
        played to its end, and none is played twice."""
        for profile, model, server in servers:
            if self.best is not None and self.best.score[1] == 0:
                return
            if (known := (profile, model, repr(sorted(server.items())))) in self.played:
                continue
            if self.left <= 0:
                self.unsought += [what] * (what not in self.unsought)
                return
            self.played.add(known)
            builder = Builder(self.session, profile, model, server)
            one = builder.build(self.left, self.best)
            self.left -= builder.work
            if builder.cut and self.best is not None:
                self.unsought += [what] * (what not in self.unsought)
                continue
            if builder.cut and one.line:
                self.session = replace(self.session, requests=self.session.requests[: len(one.requests)])
            if one.line and len(one.requests) == len(self.session.requests) and (
                self.best is None or one.score > self.best.score
            ):
                self.best = one
