"""When did requests that were sent at the same time arrive? Finds a way in which the recorded log can have come about.

Generation leaves no event, so between two recorded events a server may have worked through any number of silent
rounds. Where the log next shows a slot being chosen and no task of ours is left that could choose it, one of the
requests arrives, at once or after further rounds: every such place is a choice, and the choices are searched depth
first until the whole log is reproduced. A hang-up and an arrival between the same two rounds come in the order of the
log. A request whose client hung up before it had a slot may have been looked at, once, or not at all. Where all slots
are busy and nothing is said of a request that comes (similarity 0), it may wait from then on: that is tried last.
Source: FORMAT.md, "What a step leaves open".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from cachesim.base import limits
from cachesim.base.tokens import common_prefix
from cachesim.engines.base import Answer
from cachesim.engines.contract import Server
from cachesim.replay.recorded_trace import TraceStep

CHOICE = frozenset({"slot_by_id", "slot_sim", "slot_skip_busy", "slot_skip_empty", "slot_by_lru", "user_pos"})
STARTS = CHOICE | {"slot_by_lcp", "launch"}
"""The first event of a request where a named slot leaves no line."""
MOST_SILENT = 100        # rounds without an arrival in sequence
Records = Callable[[Server, int], list[Mapping[str, Any]]]
Hear = Callable[[Server, int, Answer], Any]


class StepResult(NamedTuple):
    """What came of a step: the server, the answers and the results of slot actions by number of the member.
    ``untried``: no order of arrival agreed, and after so many the search was given up (0 = it was not). ``heard``: what
    ``Hear`` returned, answer by answer."""

    server: Server
    answers: Mapping[int, Answer]
    actions: Mapping[int, Mapping[str, Any]]
    untried: int = 0
    heard: Sequence[Any] = ()


Fits = Callable[[StepResult], bool]


class RecordedGroup(NamedTuple):
    """What every way is tried with: the step, the events recorded of it, and the arguments of ``send``."""

    step: TraceStep
    theirs: Sequence[Mapping[str, Any]]
    records: Records
    hear: Hear
    folder: Path


class Chosen(NamedTuple):
    """The option taken where there was a choice, and how many there were."""

    option: int
    options: int


def send(
    server: Server, step: TraceStep, theirs: Sequence[Mapping[str, Any]], records: Records, hear: Hear,
    fits: Fits = lambda sent: True, folder: Path = Path(), passed: int = 0,
) -> StepResult:
    """Send the members of a step to the server.

    ``records(server, start)`` gives our events since a place of the log; ``hear`` is told of each answer as soon as it
    is complete, on every way that is tried; ``folder`` is for saved slots; ``passed``: so many of the ways that agree
    are passed over.
    """
    if len(step.members) == 1 and step.members[0].launched:
        answer = server.complete(step.members[0].request)
        return StepResult(server, {0: answer}, {}, heard=[hear(server, 0, answer)])
    group = RecordedGroup(step, theirs, records, hear, folder)
    agreed, best, untried = _search(server, group, fits, step.rounds, passed)
    if agreed is None and not step.rounds and server.arrival_is_unlogged:
        agreed, _, _ = _search(server, group, fits, True, passed)
    if agreed is not None:
        return agreed.sent
    last = Attempt(server, group, best, step.rounds)
    last.run(to_the_end=True)
    return last.sent._replace(untried=untried)


def _search(
    server: Server, group: RecordedGroup, fits: Fits, unseen: bool, passed: int
) -> tuple[Attempt | None, list[int], int]:
    """The attempt with which the log agrees and the answers fit (of two requests with the same prompt the log does not
    say which came first), the first so many of them ``passed`` over; the way with which most of it did; ``untried`` as
    in ``StepResult``. ``unseen``: a request may come while all slots are busy."""
    way: list[int] | None = []
    best: list[int] = []
    reach, tried, work = -1, 0, 0
    while way is not None:
        if tried >= limits.ORDERS.now or work > limits.ORDER_WORK.now:
            return None, best, tried
        trial = Attempt(server.fork(), group, way, unseen)
        trial.run()
        tried, work = tried + 1, work + trial.work
        if trial.met > reach:
            best, reach = [chosen.option for chosen in trial.chosen], trial.met
        if trial.agrees and fits(trial.sent):
            if not passed:
                return trial, best, 0
            passed -= 1
        way = next_way(trial.chosen)
    return None, best, 0


def next_way(chosen: Sequence[Chosen]) -> list[int] | None:
    """The way after this one, depth first: the last choice that has another option takes it. None = there is none."""
    for place in reversed(range(len(chosen))):
        if chosen[place].option + 1 < chosen[place].options:
            return [*(one.option for one in chosen[:place]), chosen[place].option + 1]
    return None


class Attempt:
    """One way, tried on a server: ``way`` are the options to take at the choices, then always the first, which is that
    the request launched first arrives at once (where the recording does not say it, the one sent first). ``met``
    recorded events were reproduced in place, before any difference."""

    def __init__(self, server: Server, group: RecordedGroup, way: Sequence[int], unseen: bool) -> None:
        self.server, self.way, self.unseen = server, way, unseen
        self.step, self.theirs, self.records, self.hear, self.folder = group
        step = group.step
        self.start, self.met, self.apart = len(server.log.events), 0, False
        self.waiting, self.silent = _as_launched(step), 0
        self.passing = [i for i, member in enumerate(step.members) if not (member.launched or member.action)]
        self.actions = [i for i, member in enumerate(step.members) if member.action]     # not done yet
        self.done: dict[int, Mapping[str, Any]] = {}
        self.starts = STARTS if step.rounds else CHOICE
        self.chosen: list[Chosen] = []
        self.given: dict[int, Answer] = {}
        self.still = False          # did the last round bring nothing?
        self.rounds, self.spent = 0, server.log.spent
        self.compared = self.start  # events of our log that were compared
        self.told, self.heard = set[int](), list[Any]()
        self.asked: set[tuple[int, ...]] = set()    # tasks in slots, then those that wait, with which one might come

    @property
    def sent(self) -> StepResult:
        """What came of it so far."""
        unseen = {i: Answer(-1, cancelled=True, done=True) for i in self.passing}
        return StepResult(self.server, dict(sorted({**self.given, **unseen}.items())), self.done, heard=self.heard)

    @property
    def work(self) -> int:
        """Rounds, and tokens that were evaluated in them."""
        return self.rounds + int(self.server.log.spent) - int(self.spent)

    @property
    def agrees(self) -> bool:
        """Was every recorded event met, and none besides?"""
        return not self.apart and self.met == len(self.theirs)

    def run(self, to_the_end: bool = False) -> None:
        """Work until everything is answered, or (unless ``to_the_end``) an event is not the recorded one."""
        while (self.waiting or self.actions or self.server.working or self._due()) and (to_the_end or not self.apart):
            if self._before_hang_ups() or self._act():
                continue
            self.server.take_tasks()
            self._compare()
            if self.unseen and self._come_unseen():
                continue
            if self._due() and self._arrive():
                continue
            self.rounds += 1
            before = self.met
            self.server.update()
            self._compare()
            self.still = self.met == before
            self._tell()
        self._tell()

    def _before_hang_ups(self) -> bool:
        """Take the tasks that the log shows before a hang-up between the same two rounds. Were there any?"""
        if not self._choice_is_next() or not self.server.disconnect_is_next:
            return False
        if not self.server.queued and not ((self.waiting or self.passing) and self._arrive(must=True)):
            return False
        self.server.take_queue()
        self._compare()
        return True

    def _act(self) -> bool:
        """One of the slot actions is done, or none yet, as the way says. Is one? None is where its slot is busy."""
        free = [i for i in self.actions if self.server.answer_at(self.step.members[i].id_slot) is None]
        if not free or self.apart:
            return False
        must = not (self.waiting or self.server.working)
        option = self._option(len(free) + (not must))
        if option >= len(free):
            return False
        member = self.step.members[free[option]]
        self.actions.remove(free[option])
        file = self.folder / member.file if member.file else None
        self.done[free[option]] = self.server.slot(member.action, member.id_slot, file)
        return True

    def _option(self, options: int) -> int:
        """The option that the way takes at this choice."""
        option = self.way[len(self.chosen)] if len(self.chosen) < len(self.way) else 0
        self.chosen.append(Chosen(option, options))
        return option

    def _come_unseen(self) -> bool:
        """One of the waiting requests may come while all slots are busy, once for each set of tasks. Does one?"""
        at_work, deferred = self.server.tasks()
        held = (*at_work, *deferred, *([self.rounds] if self.step.rounds else []))
        if len(at_work) < self.server.n_slots or held in self.asked or not self.waiting or self.apart:
            return False
        self.asked.add(held)
        option = self._option(1 + len(self.waiting))
        # Where the batches are recorded, requests that are sent together most likely come together.
        place = option if self.step.rounds else option - 1
        if not 0 <= place < len(self.waiting):
            return False
        number = self.waiting.pop(place)
        self.given[number] = self.server.submit(self.step.members[number].request)
        return True

    def _choice_is_next(self) -> bool:
        return not self.apart and self.met < len(self.theirs) and self.theirs[self.met]["ev"] in self.starts

    def _due(self) -> bool:
        """Does the log now show a choice that no task of ours will make? Without work left a request must come."""
        if self._choice_is_next():
            return bool(self.waiting or self.passing)
        # A server that is stuck may have gone on for some rounds before the request came.
        over = not self.server.working and (self.still or self.met == len(self.theirs))
        return bool(self.waiting) and (self.apart or over or not self.server.tasks()[0])

    def _arrive(self, must: bool = False) -> bool:
        """One of the waiting requests arrives, or none yet, as the way says. Does one?"""
        coming = [*self.waiting, *(self.passing if self._choice_is_next() else ())]
        may_wait = not must and not self.apart and self.server.working and self.silent < MOST_SILENT
        choices = 1 if self.step.at_once else len(coming)
        option = self._option(choices + may_wait)
        if option >= choices:
            self.silent += 1
            return False
        self.silent = 0
        for number in coming if self.step.at_once else [coming[option]]:
            (self.waiting if number in self.waiting else self.passing).remove(number)
            self.given[number] = self.server.submit(self.step.members[number].request)
        return True

    def _compare(self) -> None:
        new, self.compared = self.server.log.events[self.compared :], len(self.server.log.events)
        if not any(event.logged or self.step.rounds for event in new):
            return
        ours = self.records(self.server, self.start)
        self.met = common_prefix(self.theirs, ours)
        self.apart = self.met < len(ours)

    def _tell(self) -> None:
        for number, answer in self.given.items():
            launched = self.step.members[number].launched
            if launched and answer.done and number not in self.told:
                self.told.add(number)
                self.heard.append(self.hear(self.server, number, answer))


def _as_launched(step: TraceStep) -> list[int]:
    """The members in the order in which their tasks appear in the log, those of which that is not recorded last."""
    tasks = {i: member.task for i, member in enumerate(step.members) if member.launched}
    if step.at_once:
        return list(tasks)
    return sorted(tasks, key=lambda i: (tasks[i] is None, tasks[i] or 0))
