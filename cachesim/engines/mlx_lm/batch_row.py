"""One request at work: what was asked, what is left to feed, what its caches are believed to hold."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass, field, fields
from typing import Any

from cachesim.base.tokens import Tokens
from cachesim.engines.base import Answer, Output, Request
from cachesim.engines.mlx_lm.rules.keys import Key
from cachesim.engines.shared.sampler import Sampler
from cachesim.model import Hidden, Model


@dataclass(slots=True, eq=False)
class Task:
    """A request. ``key`` is what it is stored under; ``old_key`` the entry that its caches were taken from, where such
    entries move; ``position`` where it wants its checkpoint (None = none)."""

    id: int
    request: Request
    answer: Answer
    role: str                       # of the last message; "" = a text
    key: Key = field(default_factory=lambda: Key(()))
    old_key: Tokens | None = None
    position: int | None = None


@dataclass(slots=True, eq=False)
class Row:
    """A row of a batch, or the one request that is served alone. Rows are numbered as they come and stay in the
    server's list when they are done. ``tokens`` are those its caches are believed to hold; ``segments`` and ``types``
    what is left to feed, and to store; ``left`` what its caches were, for whoever listens at the moment it ends."""

    id: int
    task: Task
    tokens: list[int] = field(default_factory=list)
    segments: list[Tokens] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    caches: list[Any] | None = None
    next: int = -1                  # the token that was sampled last and is not fed yet
    n_gen: int = 0                  # tokens returned
    busy: bool = True
    stop: bool = False              # its client has gone, and whoever serves it alone has noticed
    left: list[Any] | None = None
    child: bool = False             # never: there are no further completions

    def __deepcopy__(self, memo: dict[int, Any]) -> Row:
        """One that is done never changes again: a copy of the server shares it, however many have come and gone."""
        if not self.busy and self.caches is None and self.left is None:
            return self
        twin = memo[id(self)] = copy(self)
        for one in fields(self):
            setattr(twin, one.name, deepcopy(getattr(self, one.name), memo))
        return twin

    @property
    def request(self) -> Request:
        return self.task.request

    @property
    def hung_up(self) -> bool:
        """Has the client gone? ``cancel_at`` counts what a slot would hold, which has not evaluated the last token of
        an answer; a row has, so that it holds one more by then."""
        at = self.request.cancel_at
        return at is not None and len(self.tokens) > at

    def take(self, n: int) -> Tokens:
        """The first n tokens of the present segment, which are fed now; an emptied segment goes."""
        piece, rest = self.segments[0][:n], self.segments[0][n:]
        self.segments[:1] = [rest] if rest else []
        return piece

    def speak(self, said: Hidden, model: Model | None, sampler: Sampler) -> None:
        """The model has spoken after the last of ``said``: note it, and sample the next token."""
        logits = None
        if model is not None and said.x is not None:
            logits = model.readout(said.x[-1:])[0]
        self.task.answer.outputs.append(Output(len(self.tokens) - 1, int(said.digest[-1]), logits))
        self.next = sampler(self.tokens, self.request, self.n_gen)

    def give(self) -> bool:
        """Return the sampled token, which is fed at the same time. Was it the last one?"""
        self.n_gen += 1
        self.task.answer.tokens.append(self.next)
        self.task.answer.predicted_n = self.n_gen
        return self.n_gen >= max(1, self.request.n_predict)
