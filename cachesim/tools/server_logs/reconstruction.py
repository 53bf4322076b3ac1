"""What becomes of a log: its requests in a scenario, and how far the simulator says what the log says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.schema import Scenario
from cachesim.tools.server_logs.session import Logged
from cachesim.tools.server_logs.slot_contents import SlotText


class Choice(NamedTuple):
    """A value of what is open: the text that a prompt goes on from, and how much of it. ``why`` = what was assumed."""

    base: SlotText
    lcp: int
    why: str


@dataclass(slots=True)
class Rebuilt:
    """A request of the log in the scenario. ``step``: its number there, -1 = left out; ``got``: what the simulator
    reuses, ``slot`` where it runs; ``lcp``: its common prefix with ``before``, the text it goes on from; ``assumed``:
    what was not in the log, ``left_out``: why it is not played."""

    logged: Logged
    step: int = -1
    text: str = ""
    got: int | None = None
    slot: int | None = None
    assumed: str = ""
    left_out: str = ""
    lcp: int = 0
    before: SlotText = field(default_factory=SlotText)

    @property
    def agrees(self) -> bool | None:
        """Does the simulator reuse what the log says, as far as was searched? None = one of them says nothing."""
        return self.got == self.logged.cache_n if self.step >= 0 and tells(self.logged) else None


def tells(logged: Logged) -> bool:
    """Does the log say what a request reused, so that the simulator can agree with it?"""
    return logged.cache_n is not None and (logged.named or not logged.guessed)


@dataclass(slots=True)
class Rebuild:
    """A log as a scenario under a rule set and a model. ``untried``: requests of which not every choice was tried;
    ``unsought``: what of the server was not tried for its requests, in words: the search was cut."""

    profile: str
    model: str
    server: Mapping[str, Any]
    requests: list[Rebuilt] = field(default_factory=list)
    line: str = ""
    untried: set[int] = field(default_factory=set)
    unsought: list[str] = field(default_factory=list)

    def agrees(self, number: int) -> bool | None:
        """Does the simulator reuse at a request what the log says? None = one of them says nothing, or they differ and
        the search that might have made them agree was cut."""
        return None if self.open(number) else self.requests[number].agrees

    def open(self, number: int) -> bool:
        """Does a request differ from the log, and might agree if the search had not been cut?"""
        return self.requests[number].agrees is False and bool(self.unsought or number in self.untried)

    @property
    def undecided(self) -> int:
        """How many requests differ from the log that might agree if the search had not been cut."""
        return sum(map(self.open, range(len(self.requests))))

    @property
    def score(self) -> tuple[int, int, int]:
        """Requests that agree, and, counted down, those that do not, and those of which something was assumed."""
        found = [one.agrees for one in self.requests]
        assumed = sum(bool(one.assumed) for one in self.requests)
        return sum(one is True for one in found), -sum(one is False for one in found), -assumed

    def can_pass(self, other: Rebuild, left: Sequence[Logged]) -> bool:
        """May its score become higher than that of another with the requests that are ``left``? It does not where more
        differ by now."""
        agree, differ, assumed = self.score
        most = agree + sum(map(tells, left)), differ, assumed
        return differ >= other.score[1] and most > other.score

    @property
    def scenario(self) -> Scenario:
        return from_line(self.line, model=self.model, profiles=(self.profile,), server=self.server)
