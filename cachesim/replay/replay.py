"""Replay of a recorded trace: runs a profile with the trace's requests and compares every step with the recording.

A step agrees iff the fields of its reply that ``recorded_answers`` compares and every recorded event with every field
are equal, in order. The generated tokens are the recorded tokens. A group of requests sent at the same time is a single
step.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import AbstractSet, Any, Callable, Iterable, Mapping, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.limits import ORDER_WORK
from cachesim.engines.base import Answer, Request, prompt_of
from cachesim.engines.contract import Server
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Compared, Decoded, Event, Log
from cachesim.replay.class_replay import replay_classes
from cachesim.replay.late_log_lines import in_streams, too_early, without_cut_off
from cachesim.replay.recorded_answers import FIELDS, SLOT_FIELDS, compare_action, compare_answer
from cachesim.replay.recorded_requests import LENGTHS, second_rejection
from cachesim.replay.recorded_trace import Trace, TraceStep
from cachesim.replay.replay_result import ReplayResult
from cachesim.replay.schedule_search import OnAnswer, SearchPlace, StepResult, send, starts_of
from cachesim.replay.sleep_detection import wake_if_slept
from cachesim.replay.unknown_search import NOTHING, Supposition, settled

REJECTED_TWICE = "a replayed draft was rejected again, on a token that the recording does not contain"

LEVELLED = frozenset({"warn", "error"})
"""Kinds of events that are known by the level of their line."""

LENGTH_UNKNOWN = "it depends on the length of a rejected draft, which the recording does not contain"

ORDERS_LEFT = "{} orders of its requests were tried, not all (--limit order-work=N, --limit orders=N)"

OF_EXACT = 3                 # units of work that a token or round with arithmetic counts

DRAFTS_UNKNOWN = "its drafts are not in the recording, which has no log"

MEMORY_UNKNOWN = "the memory may not be the recorded one since step {}"

ANY = "any"                  # stands for a slot that no event names
STATES_LENGTH = "release"
"""Kind of the event that states how many tokens a slot holds at the end of a request."""

REFUSED = re.compile(r"(failed to launch slot with \w*? ?task).*")
Check = Callable[[Server, Request, Answer], bool | None]
"""Callback (server, request, answer) -> whether the answer equals a cold run's, None = undecided. The judge is outside
this folder, so it is passed in."""


def replay(
    trace: Trace, mode: str = "none", check: Check | None = None, table: RuleSet | None = None, brief: bool = False
) -> ReplayResult:
    """Replay a trace. ``mode``: "none" (positions only), "provenance", or "exact". With ``check`` the steps that it
    finds broken are compared with those that the trace lists as inexact. ``table`` replaces the rules of the trace's
    profile; ``brief``: stop after the first step that differs."""
    if trace.classes is not None:
        return replay_classes(trace, trace.classes, mode, check, table)
    events = sum(event["ev"] != Decoded.ev for step in trace.steps for event in step.events)
    begun = partial(ReplayResult, trace, steps=len(trace.steps), events=events)
    asked = any(step.action != "restart" for step in trace.steps)
    why = trace.out or ("" if asked else "it holds no requests")
    if why:
        return begun(steps_undecided=len(trace.steps), why=why)
    open_steps = [step.number for step in trace.steps
                  if step.acts or step.waits or (step.arrives_unlogged and not brief)]  # fmt: skip
    if not open_steps and not any(step.action == "restore" for step in trace.steps):
        return _replay_under(trace, mode, check, NOTHING, begun(), table, brief)
    return settled(trace, lambda case: _replay_under(trace, mode, check, case, begun(), table, brief), open_steps,
                   judged=mode != "none")  # fmt: skip


def _replay_under(
    trace: Trace, mode: str, check: Check | None, supposed: Supposition, out: ReplayResult, table: RuleSet | None,
    brief: bool,
) -> ReplayResult:
    """Replay a trace under a supposition."""
    files = any(step.file or step.acts for step in trace.steps)
    with TemporaryDirectory(prefix="cachesim-") if files else nullcontext(".") as folder:
        run = TraceReplay(trace, mode, Path(folder), check if mode != "none" else None, supposed, table)
        for number, step in enumerate(trace.steps):
            later = map(trace.steps.__getitem__, range(number + 1, len(trace.steps)))
            run.following = chain.from_iterable(step.events for step in later)
            try:
                run.step(out, step)
            except BadInput as bad:
                raise type(bad)(f"step {step.number}: {bad.cause}", file=str(trace.file), hint=bad.hint) from bad
            if brief and (out.first or (run.check is not None and run.verdicts_agree <= number)):
                break
    if run.check is not None:
        out.verdicts_agree = run.verdicts_agree
    return out


class TraceReplay:
    """Simulated server that runs a trace step by step. ``folder`` is for saved slots."""

    def __init__(
        self, trace: Trace, mode: str, folder: Path, check: Check | None,
        supposed: Supposition = NOTHING, table: RuleSet | None = None,
    ) -> None:
        self.engine = engine_of(trace.profile)
        self.folder = folder
        self.check = check
        self.verdicts_agree = 0
        rules = table or self.engine.rules(trace.profile)
        self.rules = rules.changed({"unset": supposed.unset}) if supposed.unset else rules
        self.supposed = supposed
        self.following: Iterable[Mapping[str, Any]] = ()      # recorded events of later steps
        self.files = any(step.file for step in trace.steps)
        # A recorder that did not learn the number of slots wrote the slot into every event.
        self.one_slot = trace.server.get("n_slots") == 1
        self.silent = rules.silent if trace.server.get("levels", True) else rules.silent | LEVELLED
        self.tasks = False          # the present step has several tasks
        self.rounds = False         # its recording contains the evaluated batches
        self.left_at: int | None = None         # step since which the memory may not be the recorded one
        self.open_slots: set[Any] = set()       # slots whose length no later line has stated, as in the events
        self.trace = trace
        self.mode = mode
        self.flags = trace.flags
        self.server = self._fresh(Log())

    def _started(self, flags: Mapping[str, Any]) -> Server:
        """Return the next server, whose log continues the count of evaluated tokens."""
        self.flags = flags
        return self._fresh(Log(self.server.log))

    def _fresh(self, log: Log) -> Server:
        return self.engine.start(self.rules, self.trace.model, self.flags, self.mode, log)

    def step(self, out: ReplayResult, step: TraceStep) -> None:
        """Run a step and compare it with the recording."""
        theirs, tasks = without_cancel(step.events), any("task" in event for event in step.events)
        if self.trace.can_sleep and step.action != "restart":
            self.tasks = tasks
            self.server = wake_if_slept(self.server, step, theirs, self._records, lambda: self._started(self.flags))
        self.rounds = step.rounds
        if not step.members:
            self._slot_action(out, step)
            return
        first, self.tasks = len(self.server.log.events), tasks

        def on_answer(server: Server, number: int, answer: Answer) -> tuple[bool | None, bool] | None:
            member = step.members[number]
            equal = self.check(server, member.request, answer) if self.check else None
            if member.inexact is None:
                return None
            return self._as_recorded(member.request, answer, equal), member.inexact

        longer = _with_longer_drafts(step)
        before = self.server.fork() if longer else self.server
        places = self.supposed.places.get(step.number, ())
        result = self._send(out, self.server, step, theirs, on_answer, places)
        out.places[step.number] = result.places
        self.server, undecided = result.server, out.steps_undecided
        verdicts: list[tuple[bool | None, bool]] = [one for one in result.answers_checked if one is not None]
        ours, wrong = self._records(self.server, first), self._fields(step, result)

        def depends_on_length() -> int | None:
            others = [self._send(out, before.fork(), other, theirs, lambda *_: None) for other in longer]
            if any(other.gave_up_after is not None for other in others):
                return 0
            apart = [difference(self._records(other.server, first), ours) for other in others
                     if step.died or not _has_died(other)]  # fmt: skip
            return min((one["event"] for one in apart if one is not None), default=None)

        self._count(out, step, ours, wrong, result.gave_up_after, depends_on_length)
        if self.check is not None and out.steps_undecided == undecided:
            agrees = all(equal is not None and equal != inexact for equal, inexact in verdicts)
            if self.left_at is not None and not agrees:
                out.leave_open(step.number, MEMORY_UNKNOWN.format(self.left_at))
                return
            out.verdicts[step.number] = agrees
            self.verdicts_agree += agrees
            if any(equal is False for equal, _ in verdicts):
                out.broken.append(step.number)

    def _send(
        self, out: ReplayResult, server: Server, step: TraceStep, theirs: Sequence[Mapping[str, Any]],
        on_answer: OnAnswer, places: Sequence[SearchPlace] = (),
    ) -> StepResult:
        """Send the members of a step to a server. ``places``: where the searches for their order stand."""
        worth = OF_EXACT if self.mode == "exact" else 1
        left = (ORDER_WORK.now - self.supposed.spent - out.work) // worth
        result = send(server, step, theirs, self._records, on_answer,
                      lambda result: self._fields(step, result) is None, self.folder,
                      self.supposed.passed.get(step.number, 0),
                      starts_of(self.rules.silent), places, left)  # fmt: skip
        out.work += worth * (sum(place.work for place in result.places) - sum(place.work for place in places))
        return result

    def _has_index_rows(self) -> bool:
        model = self.server.model
        return model is not None and any(layer.attention and layer.attention.chooser for layer in model.spec.layers)

    def _as_recorded(self, request: Request, answer: Answer, equal: bool | None) -> bool | None:
        """Return ``equal``, or after a context shift whether a server without a cache gives this answer. The recorded
        cold answers came from such a server. It differs from a cold run if the engine shifts differently without a
        cache, or if its shift spoils index rows."""
        if equal is None or not answer.shifts or not (equal or self._has_index_rows()):
            return equal
        cold = self._fresh(Log(self.server.log)).complete(replace(request, cache_prompt=False, id_slot=-1))
        return [output.digest for output in answer.outputs] == [output.digest for output in cold.outputs]

    def _slot_action(self, out: ReplayResult, step: TraceStep) -> None:
        if step.action == "restart":
            self.server = self._started(self.flags if step.options is None else step.options)
            self.left_at = None
            out.steps_agree += 1
            self.verdicts_agree += 1
            return
        first, undecided = len(self.server.log.events), out.steps_undecided
        answer = self._perform_action(step)
        wrong = compare_action(step.response, answer)
        self._count(out, step, self._records(self.server, first), wrong)
        if out.steps_undecided == undecided:
            out.verdicts[step.number] = True
            self.verdicts_agree += 1

    def _perform_action(self, step: TraceStep) -> dict[str, Any]:
        if step.action == "lora":
            return self.server.set_adapters(step.scales)
        return self.server.slot(step.action, step.id_slot, self.folder / step.file if step.file else None)

    def _records(self, server: Server, start: int) -> list[Mapping[str, Any]]:
        """Return our events from a position of the log on, in the form of a trace."""
        return without_cancel(records(server.log.events[start:], self.one_slot, self.silent, self.tasks,
                                      self.rules.unlogged, self.rounds))

    def _count(
        self, out: ReplayResult, step: TraceStep, ours: Sequence[Mapping[str, Any]], wrong: dict[str, Any] | None,
        gave_up_after: int | None = None, depends_on_length: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Compare the events of a step. ``wrong``: another difference found before; ``gave_up_after``: see
        ``StepResult``; ``depends_on_length``: returns the place of our first event that would differ with longer
        drafts where the recording has no length, None without such an event."""
        events = self.server.log.events if self.files else []
        out.unset |= {event.unset for event in events if isinstance(event, Compared)}
        ours = ours if self.trace.has_log else []
        theirs = without_cancel(step.events)
        cancels = len(step.events) - len(theirs)
        late = self.rules.late
        ours = without_cut_off(ours, theirs, late, self.following)
        early = too_early(theirs, ours, late)
        theirs, ours = in_streams(theirs, late), in_streams(ours, late)
        out.events_agree += cancels + sum(a == b and a["ev"] != Decoded.ev for a, b in zip(theirs, ours, strict=False))
        apart, again = difference(theirs, ours), second_rejection(theirs)
        wrong = apart or wrong or early
        self._settle(theirs[: apart["event"]] if apart is not None else theirs)
        if apart is not None and again is not None and apart["event"] >= again:
            self._leave(step)
            self._undecided(out, step, REJECTED_TWICE)
        elif wrong is None and not states_result(step):
            self._undecided(out, step, "the recording says nothing of an answer that could be compared")
        elif wrong is None:
            out.steps_agree += 1
        elif self.left_at is not None:
            self._undecided(out, step, MEMORY_UNKNOWN.format(self.left_at))
        elif not self.trace.has_log and any(member.drafted for member in step.members):
            self._leave(step)
            self._undecided(out, step, DRAFTS_UNKNOWN)
        elif (place := depends_on_length()) is not None and (apart is None or apart["event"] >= place):
            self._leave(step)
            self._undecided(out, step, LENGTH_UNKNOWN)
        elif gave_up_after is not None:
            self.left_at = step.number
            self.open_slots = {ANY}
            self._undecided(out, step, ORDERS_LEFT.format(gave_up_after))
            out.unsearched = step.number if out.unsearched is None else out.unsearched
        else:
            out.differing.append(step.number)
            out.first = out.first or {"step": step.number, **wrong}

    def _leave(self, step: TraceStep) -> None:
        """From this step on the memory may not be the recorded one: in the slots of its events, or in all."""
        self.left_at = step.number
        self.open_slots = {event.get("slot") for event in step.events if event["ev"] == STATES_LENGTH} or {ANY}

    def _settle(self, agreeing: Sequence[Mapping[str, Any]]) -> None:
        """Note the slots whose length a later line states as we do. With the last of them the memory counts as the
        recorded one again, so that what differs from there on is a difference."""
        if self.left_at is None:
            return
        self.open_slots -= {event.get("slot") for event in agreeing if event["ev"] == STATES_LENGTH}
        if not self.open_slots:
            self.left_at = None

    def _undecided(self, out: ReplayResult, step: TraceStep, why: str) -> None:
        out.steps_undecided += 1
        out.why = out.why or f"step {step.number}: {why}"

    def _fields(self, step: TraceStep, result: StepResult) -> dict[str, Any] | None:
        answers = list(result.answers.values())
        if step.died != any(answer.died for answer in answers):
            return {"field": "died", "recorded": step.died, "ours": not step.died}
        stuck = any(not (answer.done or answer.died) for answer in answers)
        if step.stuck != stuck:
            return {"field": "stuck", "recorded": step.stuck, "ours": stuck}
        sent = [(step.members[number], answer) for number, answer in result.answers.items()]
        compared = [compare_answer(one.response, answer, len(prompt_of(one.request, answer))) for one, answer in sent]
        compared += [compare_action(step.members[number].response, done) for number, done in result.actions.items()]
        return next(filter(None, compared), None)


def records(
    events: Sequence[Event], one_slot: bool, silent: AbstractSet[str], several_tasks: bool,
    unlogged: Mapping[str, AbstractSet[str]] = MappingProxyType({}), batches: bool = False,
) -> list[dict[str, Any]]:
    """Return logged events in the form of a trace, with tasks numbered by first appearance if there are several. The
    build does not log the ``silent`` kinds of events and the ``unlogged`` fields by kind. ``batches``: include
    evaluated batches."""
    logged = [event for event in events
              if event.ev not in silent and (event.logged or (batches and isinstance(event, Decoded)))]
    tasks: dict[int, int] = {}
    for event in logged:
        task = getattr(event, "task", None)
        if task is not None and "task" not in unlogged.get(event.ev, ()):
            tasks.setdefault(task, len(tasks))
    written = [event.record(one_slot, tasks if several_tasks else None) for event in logged]
    return [{name: value for name, value in one.items() if name not in unlogged.get(one["ev"], ())} for one in written]


def _with_longer_drafts(step: TraceStep) -> list[TraceStep]:
    """Return the step with longer drafts where the recording has no length, [] if it has all lengths."""
    if not any(member.longer for member in step.members):
        return []
    requests = ([member.longer[place] if member.longer else member.request for member in step.members]
                for place in range(len(LENGTHS)))  # fmt: skip
    return [replace(step, members=tuple(replace(member, request=request)
                                        for member, request in zip(step.members, chosen, strict=True)))
            for chosen in requests]  # fmt: skip


def _has_died(result: StepResult) -> bool:
    return any(answer.died for answer in result.answers.values())


def states_result(step: TraceStep) -> bool:
    """True if the recording states a result for every request of the step. A step without results would agree with
    everything."""
    if not step.members:
        return any(name in step.response for name in SLOT_FIELDS)
    if step.died:
        return True                              # the end of the process is compared
    if any(member.response.get("cancelled") for member in step.members):
        return bool(step.events)                 # without an answer only the log is compared
    names = (*FIELDS, *SLOT_FIELDS)
    return all("status" in response if "error" in response else any(name in response for name in names)
               for response in (member.response for member in step.members))  # fmt: skip


def without_cancel(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the events without noticed disconnects, whose place in the log has no meaning, and without the numbers of
    refused tasks, which also count what the recorder asked between the steps."""
    refused = ((event, REFUSED.match(str(event.get("text", "")))) for event in events if event["ev"] != "cancel")
    return [{**event, "text": found[1]} if found else event for event, found in refused]


def difference(theirs: Sequence[Any], ours: Sequence[Any]) -> dict[str, Any] | None:
    """Return the first event in which a step differs, None if all agree."""
    for place, (recorded, event) in enumerate(zip_longest(theirs, ours)):
        if recorded != event:
            return {"event": place, "recorded": recorded, "ours": event}
    return None
