"""Search for an arrival order of concurrent requests that reproduces the recorded log.

Generation leaves no event, so a server may run any number of silent rounds between two recorded events. If the log next
shows the choice of a slot and no task of ours can make that choice, a request arrives, at once or after further rounds:
every such place is a choice, and the choices are searched depth first until the whole log is reproduced. A disconnect
and an arrival between the same two rounds come in the order of the log. A request whose client disconnected before it
had a slot may not have been inspected, or once, and once more after each release of a slot. If all slots are busy and
the build logs nothing about a request that arrives (similarity 0), the request may wait from then on: that is tried
last. Source: FORMAT.md, "What a step leaves open".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Collection, Mapping, NamedTuple, Sequence

from cachesim.base import limits
from cachesim.base.tokens import common_prefix
from cachesim.engines.base import Answer
from cachesim.engines.contract import Server
from cachesim.replay.recorded_trace import TraceStep

CHOICE = frozenset({"slot_by_id", "slot_sim", "slot_skip_busy", "slot_skip_empty", "slot_by_lru", "user_pos"})
LEAST_CHOICE = CHOICE | {"slot_by_lcp"}
"""The same for a build that does not log how similar each slot is."""
STARTS = CHOICE | {"slot_by_lcp", "launch"}
"""First event of a request; "slot_by_lcp" and "launch" apply when the choice of a named slot is not logged."""


def starts_of(silent: Collection[str]) -> frozenset[str]:
    """Return the first events of a request in the log of a build that does not log the ``silent`` kinds of events."""
    if "slot_by_id" in silent:
        return STARTS
    return LEAST_CHOICE if "slot_sim" in silent else CHOICE


MOST_SILENT = 100        # consecutive rounds without an arrival
Records = Callable[[Server, int], list[Mapping[str, Any]]]
OnAnswer = Callable[[Server, int, Answer], Any]


class SearchPlace(NamedTuple):
    """Where a search for an order stands. ``way``: options of the next order, None = all were tried; ``best``: those of
    the order that agreed longest, for ``reach`` recorded events; ``tried``: orders; ``work``: their work;
    ``gave_up``: a limit ended it."""

    way: Sequence[int] | None = ()
    best: Sequence[int] = ()
    reach: int = -1
    tried: int = 0
    work: int = 0
    gave_up: bool = False


class StepResult(NamedTuple):
    """Result of a step: the server, and the answers and results of slot actions by number of the member.
    ``gave_up_after``: orders tried before a limit ended the search without agreement (None = it did not).
    ``answers_checked``: results of ``OnAnswer``, answer by answer. ``places``: where the searches for the order stand:
    without arrivals while all slots are busy, then with them."""

    server: Server
    answers: Mapping[int, Answer]
    actions: Mapping[int, Mapping[str, Any]]
    gave_up_after: int | None = None
    answers_checked: Sequence[Any] = ()
    places: Sequence[SearchPlace] = ()


Fits = Callable[[StepResult], bool]


class RecordedGroup(NamedTuple):
    """Common arguments of all attempts: the step, its recorded events, and the arguments of ``send``. ``starts``: first
    events of a request."""

    step: TraceStep
    theirs: Sequence[Mapping[str, Any]]
    records: Records
    on_answer: OnAnswer
    folder: Path
    starts: frozenset[str] = CHOICE


class ChosenOption(NamedTuple):
    """The option taken at a choice, and the number of options."""

    option: int
    options: int


def send(
    server: Server, step: TraceStep, theirs: Sequence[Mapping[str, Any]], records: Records, on_answer: OnAnswer,
    fits: Fits = lambda sent: True, folder: Path = Path(), passed: int = 0, starts: frozenset[str] = CHOICE,
    places: Sequence[SearchPlace] = (), left: int | None = None,
) -> StepResult:
    """Send the members of a step to the server.

    ``records(server, start)`` returns our events since a position of the log; ``on_answer`` is called with each
    complete answer, in every attempt; ``folder`` is for saved slots; ``passed``: number of agreeing orders to skip;
    ``starts``: first events of a request, unless batches are recorded; ``places``: where the searches stand that have
    passed these orders, () = they begin; ``left``: work that the searches may do, None = the limit.
    """
    if len(step.members) == 1 and step.members[0].launched:
        answer = server.complete(step.members[0].request)
        return StepResult(server, {0: answer}, {}, answers_checked=[on_answer(server, 0, answer)])
    group = RecordedGroup(step, theirs, records, on_answer, folder, STARTS if step.rounds else starts)
    agreed = None
    left = limits.ORDER_WORK.now if left is None else left
    seen, *unseen = places or [SearchPlace()]
    if not unseen:
        before = seen.work
        agreed, seen = _search(server, group, fits, step.rounds, 0 if places else passed, seen, left)
        left -= seen.work - before
    if agreed is None and not step.rounds and server.tasks.arrival_is_unlogged:
        begun = unseen[0] if unseen else SearchPlace()
        agreed, begun = _search(server, group, fits, True, 0 if unseen else passed, begun, left)
        unseen = [begun]
    if agreed is not None:
        return agreed.sent._replace(places=(seen, *unseen))
    last = ScheduleAttempt(server, group, seen.best, step.rounds)
    last.run(to_the_end=True)
    places = (seen, *unseen)
    tried = sum(place.tried for place in places) if any(place.gave_up for place in places) else None
    return last.sent._replace(gave_up_after=tried, places=places)


def _search(
    server: Server, group: RecordedGroup, fits: Fits, unseen: bool, passed: int, place: SearchPlace, left: int
) -> tuple[ScheduleAttempt | None, SearchPlace]:
    """Return the next attempt that agrees with the log and whose answers fit (the log does not distinguish requests
    with equal prompts), after ``passed`` others, and where the search then stands. ``unseen``: a request may arrive
    while all slots are busy; ``place``: where the search begins; ``left``: work that it may do."""
    most = place.work + left
    while place.way is not None:
        if place.tried >= limits.ORDERS.now or place.work > most:
            return None, place._replace(gave_up=True)
        trial = ScheduleAttempt(server.fork(), group, place.way, unseen)
        trial.run()
        if trial.met > place.reach:
            place = place._replace(best=[chosen.option for chosen in trial.chosen], reach=trial.met)
        way = next_way(trial.chosen)
        place = place._replace(way=way, tried=place.tried + 1, work=place.work + trial.work)
        if trial.agrees and fits(trial.sent):
            if not passed:
                return trial, place
            passed -= 1
    return None, place


def next_way(chosen: Sequence[ChosenOption]) -> list[int] | None:
    """Return the next order, depth first: the last choice with another option takes it. None = all were tried."""
    for place in reversed(range(len(chosen))):
        if chosen[place].option + 1 < chosen[place].options:
            return [*(one.option for one in chosen[:place]), chosen[place].option + 1]
    return None


class ScheduleAttempt:
    """An arrival order, tried on a server. ``way``: options to take at the choices; later choices take the first
    option, which is that the request launched first (if not recorded, sent first) arrives at once. ``met``: recorded
    events reproduced before the first difference."""

    def __init__(self, server: Server, group: RecordedGroup, way: Sequence[int], unseen: bool) -> None:
        self.server = server
        self.way = way
        self.unseen = unseen
        self.step, self.theirs, self.records, self.on_answer, self.folder, self.starts = group
        step = group.step
        self.start = len(server.log.events)
        self.met = 0
        self.apart = False
        self.waiting, self.silent = _as_launched(step), 0
        self.passing = [i for i, member in enumerate(step.members) if not (member.launched or member.action)]
        self.looked: dict[int, int] = {}    # a passing request -> releases of slots before its last inspection
        self.actions = [i for i, member in enumerate(step.members) if member.action]     # to be performed
        self.done: dict[int, Mapping[str, Any]] = {}
        self.chosen: list[ChosenOption] = []
        self.given: dict[int, Answer] = {}
        self.still = False          # the last round added no event of the recording
        self.rounds, self.spent = 0, server.log.spent
        self.compared = self.start  # events of our log that were compared
        self.reported, self.answers_checked = set[int](), list[Any]()
        self.asked: set[tuple[int, ...]] = set()    # (tasks in slots, waiting tasks) that were tried with an arrival

    @property
    def sent(self) -> StepResult:
        """Return the result so far."""
        unseen = {i: Answer(-1, cancelled=True, done=True) for i in self.passing if i not in self.given}
        answers = dict(sorted({**self.given, **unseen}.items()))
        return StepResult(self.server, answers, self.done, answers_checked=self.answers_checked)

    @property
    def work(self) -> int:
        """Return the rounds plus the tokens evaluated in them."""
        return self.rounds + int(self.server.log.spent) - int(self.spent)

    @property
    def agrees(self) -> bool:
        """True if all recorded events and no others occurred."""
        return not self.apart and self.met == len(self.theirs)

    def run(self, to_the_end: bool = False) -> None:
        """Run until everything is answered, or (unless ``to_the_end``) an event differs from the recording."""
        while (self.waiting or self.actions or self.server.working or self._due()) and (to_the_end or not self.apart):
            if self._before_hang_ups() or self._apply_choice():
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
            self._report()
        self._report()

    def _before_hang_ups(self) -> bool:
        """Take the tasks that the log shows before a disconnect between the same two rounds. True if there were
        some."""
        if not self._choice_is_next() or not self.server.tasks.disconnect_is_next:
            return False
        if not self.server.tasks.queued and not ((self.waiting or self._passing()) and self._arrive(must=True)):
            return False
        self.server.tasks.take_queue()
        self._compare()
        return True

    def _apply_choice(self) -> bool:
        """Perform a slot action, or none yet, as ``way`` says. True if an action was performed. An action on a busy
        slot waits."""
        free = [i for i in self.actions if self.server.inspection.answer_at(self.step.members[i].id_slot) is None]
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
        """Return the option that ``way`` takes at this choice."""
        option = self.way[len(self.chosen)] if len(self.chosen) < len(self.way) else 0
        self.chosen.append(ChosenOption(option, options))
        return option

    def _come_unseen(self) -> bool:
        """Let a waiting request arrive while all slots are busy, if ``way`` says so; once for each set of tasks. True
        if a request arrived."""
        at_work, deferred = self.server.tasks.at_work(), self.server.tasks.waiting()
        held = (*at_work, *deferred, *([self.rounds] if self.step.rounds else []))
        if len(at_work) < self.server.inspection.n_slots or held in self.asked or not self.waiting or self.apart:
            return False
        self.asked.add(held)
        option = self._option(1 + len(self.waiting))
        # If batches are recorded, requests sent together most likely arrive together.
        place = option if self.step.rounds else option - 1
        if not 0 <= place < len(self.waiting):
            return False
        number = self.waiting.pop(place)
        self.given[number] = self.server.submit(self.step.members[number].request)
        return True

    def _choice_is_next(self) -> bool:
        return not self.apart and self.met < len(self.theirs) and self.theirs[self.met]["ev"] in self.starts

    def _due(self) -> bool:
        """True if the log now shows a choice that no task of ours can make, or if requests are left and the server is
        idle."""
        if self._choice_is_next():
            return bool(self.waiting or self._passing())
        # A stuck server may have run some rounds before the request arrived.
        over = not self.server.working and (self.still or self.met == len(self.theirs))
        return bool(self.waiting) and (self.apart or over or not self.server.tasks.at_work())

    def _arrive(self, must: bool = False) -> bool:
        """Let a waiting request arrive, or none yet, as ``way`` says. True if a request arrived."""
        coming = [*self.waiting, *(self._passing() if self._choice_is_next() else ())]
        may_wait = not must and not self.apart and self.server.working and self.silent < MOST_SILENT
        choices = 1 if self.step.at_once else len(coming)
        option = self._option(choices + may_wait)
        if option >= choices:
            self.silent += 1
            return False
        self.silent = 0
        for number in coming if self.step.at_once else [coming[option]]:
            if number in self.waiting:
                self.waiting.remove(number)
            else:
                self.looked[number] = self._releases()
            self.given[number] = self.server.submit(self.step.members[number].request)
        return True

    def _passing(self) -> list[int]:
        """Return the requests without a slot that the server may inspect now: it inspects a request that waits for a
        slot again when one is released."""
        return [i for i in self.passing if self.looked.get(i, -1) < self._releases()]

    def _releases(self) -> int:
        return sum(event["ev"] == "release" for event in self.theirs[: self.met])

    def _compare(self) -> None:
        new, self.compared = self.server.log.events[self.compared :], len(self.server.log.events)
        if not any(event.logged or self.step.rounds for event in new):
            return
        ours = self.records(self.server, self.start)
        self.met = common_prefix(self.theirs, ours)
        self.apart = self.met < len(ours)

    def _report(self) -> None:
        for number, answer in self.given.items():
            launched = self.step.members[number].launched
            if launched and answer.done and number not in self.reported:
                self.reported.add(number)
                self.answers_checked.append(self.on_answer(self.server, number, answer))


def _as_launched(step: TraceStep) -> list[int]:
    """Return the members in the order in which their tasks appear in the log, those without a recorded task last."""
    tasks = {i: member.task for i, member in enumerate(step.members) if member.launched}
    if step.at_once:
        return list(tasks)
    return sorted(tasks, key=lambda i: (tasks[i] is None, tasks[i] or 0))
