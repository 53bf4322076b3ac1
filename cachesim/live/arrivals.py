"""When did requests that were sent at the same time arrive? Finds an order of arrival that reproduces the recorded log.

Generation leaves no event, so between two recorded events a server may have worked through any number of silent
iterations. A request arrives where the log next shows a slot being chosen; 0, 1, 2, ... silent iterations before each
arrival are tried until the log agrees. Source: README of the recorded traces, "What a step leaves open".
"""

from __future__ import annotations

import copy
from itertools import permutations
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.engines.base import Answer
from cachesim.live.trace import TraceStep

CHOICE = ("slot_by_id", "slot_sim", "slot_skip_busy", "slot_skip_empty", "slot_by_lru", "user_pos")
MOST_SILENT = 12
Records = Callable[[Any, int], list[Mapping[str, Any]]]
Hear = Callable[[Any, int, Answer], None]


class Order(NamedTuple):
    """Members in the order of their arrival, and the silent iterations before each."""

    members: tuple[int, ...]
    silent: tuple[int, ...]


def send(
    server: Any, step: TraceStep, theirs: Sequence[Mapping[str, Any]], records: Records, hear: Hear
) -> tuple[Any, list[Answer]]:
    """Send the members of a step to the server; returns it, and the answers in the order of the members.

    ``records(server, start)`` gives our events since a place of the log; ``hear`` is told of each answer as soon as it
    is complete.
    """
    if len(step.members) == 1:
        answer = server.complete(step.members[0].request)
        hear(server, 0, answer)
        return server, [answer]
    best, reach = Order(tuple(range(len(step.members))), (0,) * len(step.members)), -1
    for order in orders(len(step.members)):
        trial = Attempt(fork(server), step, theirs, records, order)
        trial.run()
        if trial.met > reach:
            best, reach = order, trial.met
        if trial.agrees:
            break
    last = Attempt(server, step, theirs, records, best, hear)
    last.run(to_the_end=True)
    return server, last.answers


def orders(n: int) -> Iterator[Order]:
    """Orders of arrival, the likely ones first: as sent, with few silent iterations before one of them."""
    for quiet in range(MOST_SILENT + 1):
        for late in range(n) if quiet else (0,):
            yield Order(tuple(range(n)), tuple(quiet if i == late else 0 for i in range(n)))
    for members in permutations(range(n)):
        for quiet in range(3):
            yield Order(members, tuple(quiet if i == n - 1 else 0 for i in range(n)))


def fork(server: Any) -> Any:
    """A copy of a server that can go its own way; what never changes is shared."""
    model = server.context.model
    return copy.deepcopy(server, {id(x): x for x in (model, server.rules, server.kind, *server.log.events)})


class Attempt:
    """One order of arrival, tried on a server. ``met`` recorded events were reproduced in place."""

    def __init__(
        self, server: Any, step: TraceStep, theirs: Sequence[Mapping[str, Any]], records: Records, order: Order,
        hear: Hear | None = None,
    ) -> None:
        self.server, self.step, self.theirs, self.records = server, step, theirs, records
        self.waiting, self.silent = list(order.members), list(order.silent)
        self.hear, self.start, self.met = hear, len(server.log.events), 0
        self.given: dict[int, Answer] = {}
        self.told: set[int] = set()

    @property
    def answers(self) -> list[Answer]:
        """In the order of the members."""
        return [self.given[i] for i in sorted(self.given)]

    @property
    def agrees(self) -> bool:
        """Was every recorded event met, and none besides?"""
        return self._compare() and self.met == len(self.theirs)

    def run(self, to_the_end: bool = False) -> None:
        """Work until everything is answered, or (unless ``to_the_end``) an event is not the recorded one."""
        while self.waiting or self.server.working:
            self.server.take_tasks()
            if not self._compare() and not to_the_end:
                return
            if self.waiting and self._due():
                if self.silent[0]:
                    self.silent[0] -= 1
                else:
                    self._arrive()
                    continue
            self.server.update()
            self._tell()

    def _due(self) -> bool:
        """Does the log now show a choice that no task of ours will make? Without work left a request must come."""
        if not self.server.working:
            self.silent[0] = 0
            return True
        return self.met < len(self.theirs) and self.theirs[self.met]["ev"] in CHOICE

    def _arrive(self) -> None:
        number = self.waiting.pop(0)
        self.silent.pop(0)
        self.given[number] = self.server.submit(self.step.members[number].request)

    def _compare(self) -> bool:
        ours = self.records(self.server, self.start)
        self.met = next((i for i, (a, b) in enumerate(zip(self.theirs, ours, strict=False)) if a != b), len(ours))
        return self.met == len(ours) <= len(self.theirs)

    def _tell(self) -> None:
        for number, answer in self.given.items():
            if answer.done and number not in self.told and self.hear is not None:
                self.told.add(number)
                self.hear(self.server, number, answer)
