"""Full logs whose events are known: a scenario or a recording is run, and its events become the lines of a server.

Each line keeps its event, and each task the truth about it: what the server counted, which tokens the slot held and
shared, and the decisions that the recompute ledger charges. A recording is run with its own requests and its recorded
answers; its log is used only if the simulator reproduces it event by event, so its lines are those of the real server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.base import Answer, Request, prompt_of
from cachesim.engines.ik_llama.memory import model_layout as ik_llama
from cachesim.engines.llama_cpp.events import SlotById
from cachesim.engines.llama_cpp.memory import model_layout as llama_cpp
from cachesim.engines.mlx_lm import model_layout as mlx_lm
from cachesim.engines.registry import engine_of, profiles
from cachesim.engines.shared.slot_events import SlotByLcp, SlotByLru
from cachesim.events import Compared, Event, Launch
from cachesim.judging.judgement import Judgement
from cachesim.judging.judging_observer import LEDGER_EVENTS, JudgingObserver
from cachesim.replay.recorded_trace import Trace, read_trace
from cachesim.replay.replay import records, without_cancel
from cachesim.scenarios.notation.tree import PLAIN, Action
from cachesim.scenarios.runner import play
from cachesim.scenarios.schema import Scenario, Step, at_once
from tests.logs.lost_points import PointLedger
from tests.logs.spelling import WITHOUT_TASK

Numbers = dict[str, frozenset[int]]
"""Accepted values by the name of a number: several if its definition leaves the moment open."""


@dataclass(slots=True)
class LoggedLine:
    """A line of a full log. ``ev`` "" = ordinary noise. ``steps``: requests that it may belong to."""

    text: str
    ev: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    slot: int | None = None
    task: int | None = None
    steps: range = range(0)


class CauseTruth(NamedTuple):
    """A cause that may be named for a task: a signature key, and the lines that log the deciding event (indices).
    ``own``: it was decided in the request itself. ``lost``: tokens that may be stated with it, empty = see `TaskTruth`.
    ``shown``: a log may show it, because it prints the positions of the lost restore point, and they lie within the
    common prefix with the slot; a log contains no text and so does not show whether a lost text was needed again."""

    key: str
    lines: tuple[int, ...]
    own: bool = False
    lost: frozenset[int] = frozenset()
    shown: bool = False


@dataclass(slots=True)
class TaskTruth:
    """The truth about a task. ``lost``: tokens of the slot's common prefix that it evaluated again, without the last
    token of the prompt, which every server evaluates. ``causes`` explain them, ``elsewhere`` tokens that something
    other than the slot had; None = not known (concurrent recordings)."""

    step: int
    numbers: Numbers
    lost: int = 0
    causes: list[CauseTruth] | None = None
    elsewhere: list[CauseTruth] = field(default_factory=list)
    also: list[CauseTruth] = field(default_factory=list)  # losses of shorter restore points, which are not charged
    charges: tuple[int, ...] = ()  # tokens of each charge of the ledger
    compared: frozenset[tuple[int, int]] = frozenset()  # (common prefix, tokens) of the slot at its choice, after loads
    is_wrong: bool = False  # its answer is wrong: which restore points it had is unknown
    was_cut: bool = False  # a checkpoint was needed, or a removal refused: the memory could not be cut anywhere


@dataclass(slots=True)
class FullLog:
    """A full log with its truth. ``build``: number of the build, 0 = the engine has none."""

    name: str
    engine: str
    profile: str
    build: int
    lines: list[LoggedLine]
    tasks: dict[int, TaskTruth]
    options: Mapping[str, Any]
    cuts: frozenset[str]  # what the memory allows: "none", "window", "any"


class EventAt(NamedTuple):
    """A logged event with the requests that it may belong to."""

    ev: str
    fields: Mapping[str, Any]
    slot: int | None
    task: int | None
    steps: range


class Observer(JudgingObserver):
    """Judge that also records the contents of the chosen slot before a load, and the request of every task."""

    def __init__(self, scenario: Scenario, profile: str) -> None:
        super().__init__(scenario, profile, None)
        self.chosen: dict[int, Tokens] = {}  # slot -> contents at its choice
        self.before: dict[int, Tokens] = {}  # request -> contents of its slot at the choice
        self.loaded: dict[int, Tokens] = {}  # request -> contents of its slot at the launch
        self.tasks: dict[int, tuple[int, bool]] = {}  # task -> request, whether it is a further completion

    def started(self, server: Any) -> None:
        super().started(server)
        usual = self.ledger
        self.ledger = self.points = PointLedger(
            usual.inspect, usual.cold, usual.slot_prefix, usual.slot_request, usual.covers
        )
        server.log.kinds = server.log.kinds | LEDGER_EVENTS | {SlotById, SlotByLcp, SlotByLru}

    def on_event(self, event: Event) -> None:
        if isinstance(event, SlotById | SlotByLcp | SlotByLru) and event.slot is not None:
            self.chosen[event.slot] = self.server.inspection.tokens_of(event.slot)
            return
        super().on_event(event)
        if isinstance(event, Launch) and event.slot is not None and event.task is not None:
            inspection = self.server.inspection
            answer, further = inspection.answer_at(event.slot), inspection.is_further(event.slot)
            if answer is not None:
                self.tasks.setdefault(event.task, (answer.request, further))
                if not further and answer.request not in self.loaded:
                    self.loaded[answer.request] = self.server.inspection.tokens_of(event.slot)
                    if event.slot in self.chosen:
                        self.before[answer.request] = self.chosen.pop(event.slot)


def is_restart(step: Step) -> bool:
    """True if a step restarts the server."""
    return step.action is not None and step.action.do == "restart"


class Played(NamedTuple):
    """A scenario that was run: its logged events, and the judge that followed it."""

    events: list[EventAt]
    observer: Observer


def run_scenario(scenario: Scenario, profile: str) -> Played | None:
    """Run a scenario under a profile, up to its first restart: task ids begin again with a new server. None if its
    log depends on a number that was never written, or if it is refused."""
    scenario = replace(scenario, steps=tuple(takewhile(lambda step: not is_restart(step), scenario.steps)))
    observer = Observer(scenario, profile)
    try:
        log = play(scenario, profile, "provenance", observer)
    except BadInput:
        return None
    rules = engine_of(profile).rules(profile)
    if any(isinstance(event, Compared) for event in log.events):
        return None
    groups = at_once(step.together for step in scenario.steps)
    starts = [*log.marks, len(log.events)]
    events = []
    for number, (first, stop) in enumerate(pairwise(starts)):
        steps = next((group for group in groups if number in group), range(number, number + 1))
        for event in log.events[first:stop]:
            if not event.logged or event.ev in rules.silent:
                continue
            fields = event.record(False, None)
            for name in (*rules.unlogged.get(event.ev, ()), "ev", "slot", "task"):
                fields.pop(name, None)
            task = None if event.ev in WITHOUT_TASK else getattr(event, "task", None)
            events.append(EventAt(event.ev, fields, getattr(event, "slot", None), task, steps))
    return Played(events, observer)


CUTTING = ("ckpt_search", "ckpt_restore", "full_reprocess", "trim_refused")
"""Events of requests for which the memory could not simply be cut at the end of the common prefix."""


def truth_of(played: Played, scenario: Scenario) -> dict[int, TaskTruth]:
    """Return the truth about every task of a run, without its causes."""
    found, observer = {}, played.observer
    ends = {event.task: event.fields["n_tokens"] for event in played.events if event.ev == "release"}
    for task, (number, further) in observer.tasks.items():
        judged = observer.found.get(number)
        if judged is None or scenario.steps[number].action is not None:
            continue
        if further:
            found[task] = TaskTruth(number, _child(judged, played, task))
            continue
        loaded, before = observer.loaded.get(number), observer.before.get(number)
        prompt = prompt_of(judged.request, judged.answer)
        contents = [tokens for tokens in (loaded, before) if tokens is not None]
        compared = {(common_prefix(tokens, prompt), len(tokens)) for tokens in contents}
        numbers = _numbers(judged, contents)
        if task in ends:
            numbers["end"] = frozenset({ends[task]})
        of_task = [event for event in played.events if event.task == task]
        for event in of_task:  # ik_llama.cpp compares again after a shift of the slot
            if event.ev == "cache_lcp":
                numbers["held"] |= {event.fields["n_tokens"]}
                numbers["lcp"] |= {event.fields["n_past"]}
                compared.add((event.fields["n_past"], event.fields["n_tokens"]))
                if "lost" in numbers:
                    numbers["lost"] |= {again(event.fields["n_past"], judged.answer.cache_n, len(prompt))}
                if "lost" in numbers:
                    kept = next((one.fields["p0"] for one in of_task if one.ev == "batch"), judged.answer.cache_n)
                    numbers["cache_n"] |= {kept}  # in tokens of the slot: the texts agree, the tokens may not
                    numbers["lost"] |= {again(event.fields["n_past"], kept, len(prompt))}
        shared = [n for n, held in compared if held == len(loaded or ())] or [0]
        moved = [event.fields["p0"] + event.fields["c1"] - event.fields["c0"]
                 for event in of_task if event.ev == "reuse_chunk"]  # fmt: skip
        lost = again(max([*shared, *moved]), judged.answer.cache_n, len(prompt))
        charges = tuple(one.tokens for one in judged.ledger.charges)
        was_cut = any(event.ev in CUTTING and event.task == task for event in played.events)
        found[task] = TaskTruth(
            number, numbers, lost, charges=charges, compared=frozenset(compared), was_cut=was_cut
        )
    return found


def again(shared: int, reused: int, length: int) -> int:
    """Return how many of ``shared`` tokens of a prompt were evaluated again. Every server evaluates the last of its
    ``length`` tokens."""
    return max(0, min(shared, length - 1) - reused)


def _child(judged: Judgement, played: Played, task: int) -> Numbers:
    """Return the numbers of a further completion: those of the child in its slot."""
    slot = next((event.slot for event in played.events if event.task == task and event.slot is not None), None)
    child = next((one for one in judged.answer.children if one.id_slot == slot), None)
    return _counts(child, len(prompt_of(judged.request, judged.answer))) if child is not None else {}


def _counts(answer: Answer, n_tokens: int) -> Numbers:
    counts = {"n_tokens": n_tokens, "cache_n": answer.cache_n, "prompt_n": answer.prompt_n,
              "predicted_n": answer.predicted_n}  # fmt: skip
    return {name: frozenset({count}) for name, count in counts.items()}


def _numbers(judged: Judgement, contents: Sequence[Tokens]) -> Numbers:
    """Return the accepted numbers of a request. The slot's contents count at its choice or after a load."""
    prompt, answer = prompt_of(judged.request, judged.answer), judged.answer
    numbers = _counts(answer, len(prompt))
    held, lcp = {len(tokens) for tokens in contents}, {common_prefix(tokens, prompt) for tokens in contents}
    numbers |= {"held": frozenset(held), "lcp": frozenset(lcp)}
    numbers["lost"] = frozenset(again(one, answer.cache_n, len(prompt)) for one in lcp)
    if answer.status != 200 or answer.died:
        return {name: found for name, found in numbers.items() if name in ("n_tokens", "held", "lcp")}
    if answer.cancelled:  # it may have ended within its prompt
        return {name: found for name, found in numbers.items() if name not in ("prompt_n", "predicted_n")}
    return numbers


def memory_of(model: str, engine: str, swa_full: bool) -> frozenset[str]:
    """Return what the memory of a model allows: to cut anywhere, within a window, or nowhere. All of these may hold for
    a model of a recording that is not simulated. The rings of compressed rows are a state of the last position."""
    try:
        kind = KINDS[engine](model)
    except BadInput:
        return frozenset({"any", "window", "none"})
    if any(layer.recurrence is not None or layer.ratio for layer in kind.spec.layers):
        return frozenset({"none"})
    found = {"none"} if getattr(kind, "private", False) else set[str]()
    if any(layer.window for layer in kind.spec.layers):
        found |= {"window", "any"} if swa_full else {"window"}
    return frozenset(found or {"any"})


KINDS: Mapping[str, Callable[[str], Any]] = {
    "llama_cpp": llama_cpp.model_kind, "ik_llama": ik_llama.model_kind, "mlx_lm": mlx_lm.model_kind}  # fmt: skip


def trace_scenario(trace: Trace) -> Scenario | None:
    """Return a recording as a scenario; up to its first restart; None if requests were sent at the same
    time, whose order is not recorded."""
    steps = []
    for step in trace.steps:
        if step.action == "restart":
            break
        if len(step.members) > 1 or step.died or step.stuck or step.rounds:
            return None
        if step.members:
            steps.append(Step(step.members[0].request, PLAIN))
        else:
            steps.append(Step(Request(()), Action(step.action, step.id_slot, step.file)))
    return Scenario(
        trace.name,
        trace.name,
        ("recording",),
        "",
        trace.profile.partition("@")[0],
        trace.model,
        (trace.profile,),
        dict(trace.flags),
        {},
        tuple(steps),
    )


def reproduces(trace: Trace, played: Played) -> bool:
    """True if the run logged every event of the recording, in order."""
    log, rules = played.observer.server.log, engine_of(trace.profile).rules(trace.profile)
    one_slot = trace.server.get("n_slots") == 1
    for number, step in enumerate(takewhile(lambda step: step.action != "restart", trace.steps)):
        several = any("task" in event for event in step.events)
        ours = records(list(log.of(number)), one_slot, rules.silent, several, rules.unlogged)
        if without_cancel(ours) != without_cancel(step.events):
            return False
    return True


def recordings(folders: Sequence[Path]) -> Iterator[Path]:
    """Yield the recordings of llama.cpp and ik_llama.cpp in these folders."""
    for folder in folders:
        for file in sorted(folder.rglob("*.json")):
            if (
                re.search(r"llama_cpp|ik_llama", str(file.parent))
                and "lora" not in str(file)
                and "media" not in str(file)
            ):
                yield file


def read_recording(file: Path) -> Trace | None:
    """Return a recording, None if this build cannot replay it."""
    trace = read_trace(file, profiles())
    return None if trace.out or trace.can_sleep or not trace.has_log else trace
