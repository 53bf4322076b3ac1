"""Recorded traces of real servers as requests, answers and events; untrusted input.

Format: a JSON object with a header and steps, described in FORMAT.md in this folder. A trace that this build cannot
replay is marked with the reason (``out``), so that it counts as undecided and never as agreement.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import dropwhile
from pathlib import Path
from typing import AbstractSet, Any, Iterator, Mapping

from cachesim.base.errors import BadInput, cut, nearest, quoted
from cachesim.base.untrusted_files import read_json
from cachesim.engines.base import BEFORE_A_SLOT, Request
from cachesim.engines.build_names import resolve_name
from cachesim.engines.contract import Engine
from cachesim.engines.registry import commits, engine_of, recorded_as
from cachesim.engines.shared.command_line import CommandLine
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Decoded
from cachesim.replay.event_owners import RequestEvents, events_by_request
from cachesim.replay.recorded_requests import ANY_LENGTH, LENGTHS, make_request, scales_text, with_images
from cachesim.replay.trace_format import ROUNDING, check_trace


@dataclass(frozen=True, slots=True)
class TraceMember:
    """A request and its answer, or an ``action`` on slot ``id_slot``."""

    request: Request
    response: Mapping[str, Any]
    inexact: bool | None = False       # True = differs from a cold run, None = not compared, as after a disconnect
    task: int | None = None            # number of its task in the events of the step, None = not recorded
    launched: bool = True              # it got a slot before its client disconnected
    action: str = ""                   # "save", "restore" or "erase"
    id_slot: int = 0
    file: str = ""                     # of a saved slot
    drafted: bool = False              # the response counts drafted tokens
    longer: tuple[Request, ...] = ()   # with longer drafts where their lengths are not recorded, () if all are


@dataclass(frozen=True, slots=True)
class TraceStep:
    """A step: requests, responses and logged events. Several members were sent at the same time; without members the
    step is an ``action`` on slot ``id_slot``, or a "restart"."""

    number: int
    members: tuple[TraceMember, ...]
    response: Mapping[str, Any]                   # of an action
    events: list[dict[str, Any]]
    action: str = ""                              # "save", "restore", "erase", "restart" or "lora"
    id_slot: int = 0
    file: str = ""                                # of a saved slot
    died: bool = False                            # the process ended
    stuck: bool = False                           # the process runs and will never answer some of the requests
    options: Mapping[str, Any] | None = None      # server options from a restart on
    rounds: bool = False                          # the events contain the evaluated batches
    at_once: bool = False                         # the members are the prompts of a single HTTP request
    scales: str = ""                              # of adapters, to be set

    @property
    def acts(self) -> bool:
        """True if a slot action is among the members of the group: its time is not recorded."""
        return any(member.action for member in self.members)

    @property
    def waits(self) -> bool:
        """True if requests may have waited unlogged for a slot: their arrival time is not recorded."""
        return self.rounds and self.arrives_unlogged

    @property
    def arrives_unlogged(self) -> bool:
        """True if the iterations between the arrivals of its requests are not all logged."""
        return not self.at_once and len(self.members) > 1


@dataclass(frozen=True, slots=True)
class Trace:
    """A recording."""

    file: Path
    profile: str
    model: str
    name: str
    flags: Mapping[str, Any]                      # server options by name
    server: Mapping[str, Any]                     # facts about the recorded server, such as ``n_slots``
    inexact: frozenset[int]                       # steps whose answer differed from a cold run
    steps: list[TraceStep] = field(default_factory=list)
    out: str = ""                                 # why this build cannot replay the trace, "" if it can
    can_sleep: bool = False                          # the server unloads its model after some idle time
    has_log: bool = True                           # the recording contains the server's log
    classes: Mapping[str, Any] | None = None      # a recording of the server's classes, as read; it has no ``steps``


def read_trace(path: Path, profiles: Mapping[str, RuleSet]) -> Trace:
    """Read and check a trace. Raise BadInput if it is invalid."""
    return make_trace(path, read_json(path, "recording"), profiles)


def make_trace(path: Path, data: dict[str, Any], profiles: Mapping[str, RuleSet]) -> Trace:
    """Return the recording in a JSON object, read from ``path`` or made just now. Raise BadInput."""
    classes = type(data) is dict and "config" in data
    check_trace(data, str(path), classes)
    try:
        return _classes(path, data) if classes else _trace(path, data, profiles)
    except BadInput as bad:
        raise bad.at(str(path)) from None


def _trace(path: Path, data: dict[str, Any], profiles: Mapping[str, RuleSet]) -> Trace:
    try:
        engine, profile = _profile(data)
        why = _missing(engine, profile, profiles)
    except BadInput as bad:
        raise bad.at(str(path), 1) from None
    constant = data.get("base_flags", []) if engine.recorded.base else []
    flags = CommandLine() if why else _command_line(engine, [*constant, *data["flags"]])
    inexact = {str(entry["i"]) for entry in data["inexact"]} | _other_tokens(data["steps"])
    flags.options.update(engine.recorded.options(data))
    recorded = [with_images(step, data.get("images", {})) for step in data["steps"]]
    steps = [_step(step, flags, inexact, engine, not number or flags.sleeps)
             for number, step in enumerate(recorded)]  # fmt: skip
    model = data["model"].removeprefix("tiny-").removesuffix(".gguf")
    numbers = frozenset(int(number.split(".")[0]) for number in inexact)
    return Trace(path, profile, model, data["name"], flags.options, dict(data["server"].items()), numbers, steps, why,
                 flags.sleeps, bool(data.get("log", True)))


def _classes(path: Path, data: dict[str, Any]) -> Trace:
    """Return a recording of a server's classes."""
    engine = recorded_as(data["engine"])
    if (form := engine.recorded.classes()) is None:
        raise BadInput(f"recordings of the classes of {engine.name} are not replayed")
    name = engine.recorded.commits.get(data["version"], f"{engine.name}@{data['version']}")
    why = "" if name in engine.profiles else f"rule set {name} is not in this build"
    with bad_shape():
        model, flags = form.setup(data["config"])
        wrong = frozenset(i for i, step in enumerate(data["steps"]) if form.wrong(step) or step["op"] == "died")
    return Trace(path, name, model, data["name"], flags, {}, wrong, out=why, classes=data)


@contextmanager
def bad_shape() -> Iterator[None]:
    """Turn an error about a missing or wrong value in a recording into BadInput."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"not a recording of classes: {type(error).__name__} {cut(str(error))}") from None


def _profile(data: Mapping[str, Any]) -> tuple[Engine, str]:
    """Return the recorded engine and the profile that it followed: the named rule set, else the one of the commit.
    Both may be builds between two recorded ones. Raise BadInput for an unknown commit."""
    engine, commit = recorded_as(data["engine"]), data["commit"]
    name = f"{engine.name}@{data['profile']}" if "profile" in data else ""
    if name and (named := _resolved(engine, name)):
        return engine, named
    if name and commit not in engine.recorded.commits:
        return engine, name
    known = commits()
    if commit in known:
        return engine_of(known[commit]), known[commit]
    is_build = commit.startswith("b") and commit[1:].isdecimal()
    if is_build and (built := _resolved(engine, f"{engine.name}@{commit}")):
        return engine, built
    raise BadInput(f"unknown commit {quoted(commit)}", hint=nearest(str(commit), known))


def _resolved(engine: Engine, name: str) -> str:
    """Return the rule set that a name denotes, "" if none. Raise BadInput for a build without rules."""
    if name in engine.profiles:
        return name
    found = resolve_name(name)
    return "" if found is None else found.profile


def _missing(engine: Engine, profile: str, profiles: Mapping[str, RuleSet]) -> str:
    """Return why the recording cannot be replayed, "" if it can: its engine is not in this build, or its recordings are
    not supported yet. Raise BadInput for an unknown rule set of a known engine."""
    if engine.recorded.read is None:
        return f"recordings of {engine.name} are not replayed"
    if profile in profiles:
        return ""
    if known := [one.partition("@")[2] for one in profiles if one.startswith(f"{engine.name}@")]:
        name = profile.partition("@")[2]
        raise BadInput(f"unknown profile {quoted(name)}", hint=nearest(name, known))
    return f"rule set {profile} is not in this build"


def _command_line(engine: Engine, words: list[str]) -> CommandLine:
    return CommandLine() if engine.recorded.read is None else engine.recorded.read(words)


def _other_tokens(steps: list[Mapping[str, Any]]) -> set[str]:
    """Return the numbers of the answers that have another token than the cold answer, where the cold server's two best
    tokens differ by more than rounding. A single recording has such an answer and does not list it: with drafts only
    the first token has probabilities. An answer that a cold server gives with other micro-batches differs by rounding
    alone."""
    every = [one for step in steps for one in step.get("steps") or [step] if "numeric" not in (one.get("cold") or {})]
    margins = ((one, (one.get("cold") or {}).get("cold_margin")) for one in every)
    return {str(one["i"]) for one, margin in margins if isinstance(margin, float) and margin > ROUNDING}


def _inexact(recorded: Mapping[str, Any], inexact: AbstractSet[str], stuck: bool) -> bool | None:
    if str(recorded["i"]) in inexact:
        return True
    response = recorded.get("response") or {}
    gone = "cold" not in recorded and bool(response.get("cancelled") or (stuck and not response))
    return None if gone else False


def _step(
    step: Mapping[str, Any], flags: CommandLine, inexact: AbstractSet[str], engine: Engine, loads: bool
) -> TraceStep:
    response = step.get("response") or {}
    i, events = int(step["i"]), _with_batches(step)
    if loads:                # a model may have been loaded before, and no request begins with a warning of that
        events = list(dropwhile(lambda event: event["ev"] == "warn", events))
    died = str(step["died"]["fatal"]) if "died" in step else ""
    if step["op"] == "slot":
        done = _action(step)
        return TraceStep(i, (), response, events, done.action, done.id_slot, done.file)
    if step["op"] == "lora":
        return TraceStep(i, (), response, events, "lora", scales=scales_text(step["request"]["set"]))
    if step["op"] == "restart":
        changed = _command_line(engine, step["flags"]).options if "flags" in step else None
        return TraceStep(i, (), response, events, "restart", options=changed)
    sent = step["steps"] if step["op"] == "parallel" else [step]
    served = [one for one in sent if one["op"] != "slot" and one.get("launched", True)]
    sides = [(one["request"], one.get("response") or {}) for one in served]
    own = iter(events_by_request(sides, events, [one.get("task") for one in served]))
    stuck = bool(step.get("stuck"))
    members = tuple(
        _action(one) if one["op"] == "slot" else
        _member(one, next(own) if one.get("launched", True) else None, flags, _inexact(one, inexact, stuck), died)
        for one in sent
    )
    return TraceStep(i, members, response, events, died=bool(died), stuck=stuck, rounds="decodes" in step,
                     at_once=bool(step.get("one_request")))


def _with_batches(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a step, with an event for each evaluated batch if the recording has them."""
    events: list[dict[str, Any]] = list(step.get("events", []))
    for place, n_tokens in reversed(step.get("decodes", ())):
        events.insert(place, {"ev": Decoded.ev, "n_tokens": n_tokens})
    return events


def _action(recorded: Mapping[str, Any]) -> TraceMember:
    """Return a slot action, within a group or alone."""
    body = recorded["request"]
    file = Path(str(body.get("filename", ""))).name
    return TraceMember(Request(()), recorded.get("response") or {}, None, launched=False, action=str(body["action"]),
                       id_slot=int(body["id_slot"]), file=file)


def _member(
    recorded: Mapping[str, Any], own: RequestEvents | None, flags: CommandLine, inexact: bool | None, died: str
) -> TraceMember:
    """Return a request and its answer; ``own`` None = it got no slot before its client disconnected."""
    number, response = recorded.get("task"), recorded.get("response") or {}
    over = own is not None and any(event["ev"] == "release" for event in own.events)
    last = "" if over and number is not None else died         # released before the process ended
    body = {**flags.request, **recorded["request"]}
    events = own or RequestEvents(())
    make = partial(make_request, recorded["op"], body, response, events, last, flags.drafts_by_model, recorded)
    request = make()
    rejects = any(event["ev"] == "spec_restore" for part in (events.events, *events.children) for event in part)
    longer = tuple(map(make, LENGTHS)) if rejects and make(ANY_LENGTH) != request else ()
    if own is None:
        request = replace(request, cancel_at=BEFORE_A_SLOT)
    drafted = any(one.get("draft_n") for one in (response, *(response.get("completions") or ())))
    return TraceMember(request, response, inexact, number, launched=own is not None, drafted=drafted,
                       longer=longer)
