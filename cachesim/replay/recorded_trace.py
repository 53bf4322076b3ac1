"""What did a real server do? Reads a recorded trace into requests, answers and events; data, never trusted.

Format: one JSON object with a header and steps, described in FORMAT.md beside this file. What this build
cannot replay yet is named (``out``), so that it is reported as undecided and never as agreement.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import dropwhile
from pathlib import Path
from typing import AbstractSet, Any, Mapping

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.base.untrusted_files import read_json
from cachesim.engines.base import BEFORE_A_SLOT, Request
from cachesim.engines.contract import Engine
from cachesim.engines.registry import commits, engine_of, recorded_as
from cachesim.engines.shared.command_line import CommandLine
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Decoded
from cachesim.replay.event_owners import Own, own_events
from cachesim.replay.recorded_requests import make_request
from cachesim.replay.trace_format import ROUNDING, check_trace


@dataclass(frozen=True, slots=True)
class Member:
    """One request and its answer, or an ``action`` on slot ``id_slot``, perhaps with a file. ``inexact``: the answer
    differed from a cold run; None = nobody compared them, as after a hang-up. ``task``: number of its task in the
    events of the step, None = not recorded. ``launched``: a slot was given to it before its client hung up."""

    request: Request
    response: Mapping[str, Any]
    inexact: bool | None = False
    task: int | None = None
    launched: bool = True
    action: str = ""
    id_slot: int = 0
    file: str = ""


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One step: what was sent, what came back, what was logged. Several members = sent at the same time; none = an
    ``action`` on slot ``id_slot``, perhaps with a file, or a "restart", perhaps with other ``options``. ``died``: the
    process ended; ``stuck``: it did not, and will never answer some of the requests; ``rounds``: the events contain
    the batches that were evaluated; ``at_once``: the members are the prompts of one HTTP request."""

    number: int
    members: tuple[Member, ...]
    response: Mapping[str, Any]
    events: list[dict[str, Any]]
    action: str = ""
    id_slot: int = 0
    file: str = ""
    died: bool = False
    stuck: bool = False
    options: Mapping[str, Any] | None = None
    rounds: bool = False
    at_once: bool = False

    @property
    def acts(self) -> bool:
        """True if a slot action is among the members of the group: its moment is not recorded."""
        return any(member.action for member in self.members)

    @property
    def waits(self) -> bool:
        """True if requests may have waited unlogged for a slot: the moment at which they came is not recorded."""
        return self.rounds and not self.at_once and len(self.members) > 1


@dataclass(frozen=True, slots=True)
class Trace:
    """A recording. ``flags`` are server options by name; ``inexact`` numbers of the steps whose answer differed from
    a cold run; ``out`` = why this build cannot replay it, "" if it can; ``sleeps``: the server unloads its model when
    it has been idle for some time; ``logged``: the recording has what the server logged."""

    file: Path
    profile: str
    model: str
    name: str
    flags: Mapping[str, Any]
    server: Mapping[str, Any]
    inexact: frozenset[int]
    steps: list[TraceStep] = field(default_factory=list)
    out: str = ""
    sleeps: bool = False
    logged: bool = True


def read_trace(path: Path, profiles: Mapping[str, RuleSet]) -> Trace:
    """Read and check one trace. Raises BadInput for anything that is not one."""
    return make_trace(path, read_json(path, "recording"), profiles)


def make_trace(path: Path, data: dict[str, Any], profiles: Mapping[str, RuleSet]) -> Trace:
    """The recording that a JSON object is, read from ``path`` or made just now. Raises BadInput."""
    check_trace(data, str(path))
    try:
        return _trace(path, data, profiles)
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
    steps = [_step(step, flags, inexact, engine, not number or flags.sleeps)
             for number, step in enumerate(data["steps"])]  # fmt: skip
    model = data["model"].removeprefix("tiny-").removesuffix(".gguf")
    numbers = frozenset(int(number.split(".")[0]) for number in inexact)
    return Trace(path, profile, model, data["name"], flags.options, dict(data["server"].items()), numbers, steps, why,
                 flags.sleeps, bool(data.get("log", True)))


def _profile(data: Mapping[str, Any]) -> tuple[Engine, str]:
    """The engine that was recorded, and the profile that it followed. Raises BadInput for an unknown one."""
    engine, commit = recorded_as(data["engine"]), data["commit"]
    if "profile" in data:
        return engine, f"{engine.name}@{data['profile']}"
    known = commits()
    if commit not in known:
        raise BadInput(f"unknown commit {quoted(commit)}", hint=nearest(str(commit), known))
    return engine_of(known[commit]), known[commit]


def _missing(engine: Engine, profile: str, profiles: Mapping[str, RuleSet]) -> str:
    """Why the recording cannot be replayed, "" if it can: its engine is not in this build, or none of its recordings
    has a form yet. Raises BadInput for an unknown rule set of an engine that is."""
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
    """Numbers of the answers with another token than the cold one, where the cold server's two best tokens are further
    apart than rounding reaches. One recording has such an answer and does not list it: with drafts only the first token
    carries probabilities."""
    every = [one for step in steps for one in step.get("steps") or [step]]
    margins = ((one, (one.get("cold") or {}).get("cold_margin")) for one in every)
    return {str(one["i"]) for one, margin in margins if isinstance(margin, float) and margin > ROUNDING}


def _inexact(one: Mapping[str, Any], inexact: AbstractSet[str], stuck: bool) -> bool | None:
    if str(one["i"]) in inexact:
        return True
    response = one.get("response") or {}
    gone = "cold" not in one and bool(response.get("cancelled") or (stuck and not response))
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
    if step["op"] == "restart":
        changed = _command_line(engine, step["flags"]).options if "flags" in step else None
        return TraceStep(i, (), response, events, "restart", options=changed)
    sent = step["steps"] if step["op"] == "parallel" else [step]
    served = [one for one in sent if one["op"] != "slot" and one.get("launched", True)]
    sides = [(one["request"], one.get("response") or {}) for one in served]
    own = iter(own_events(sides, events, [one.get("task") for one in served]))
    stuck = bool(step.get("stuck"))
    members = tuple(
        _action(one) if one["op"] == "slot" else
        _member(one, next(own) if one.get("launched", True) else None, flags, _inexact(one, inexact, stuck), died)
        for one in sent
    )
    return TraceStep(i, members, response, events, died=bool(died), stuck=stuck, rounds="decodes" in step,
                     at_once=bool(step.get("one_request")))


def _with_batches(step: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The events of a step, with one for each batch that was evaluated where the recording has them."""
    events: list[dict[str, Any]] = list(step.get("events", []))
    for place, n_tokens in reversed(step.get("decodes", ())):
        events.insert(place, {"ev": Decoded.ev, "n_tokens": n_tokens})
    return events


def _action(one: Mapping[str, Any]) -> Member:
    """A slot action, within a group or by itself."""
    body = one["request"]
    file = Path(str(body.get("filename", ""))).name
    return Member(Request(()), one.get("response") or {}, None, launched=False, action=str(body["action"]),
                  id_slot=int(body["id_slot"]), file=file)


def _member(one: Mapping[str, Any], own: Own | None, flags: CommandLine, inexact: bool | None, died: str) -> Member:
    """A request and its answer; ``own`` None = no slot was given to it before its client hung up."""
    number, response = one.get("task"), one.get("response") or {}
    over = own is not None and any(event["ev"] == "release" for event in own.events)
    last = "" if over and number is not None else died         # released before the process ended
    body = {**flags.request, **one["request"]}
    request = make_request(one["op"], body, response, own or Own(()), last, flags.drafts_by_model, one)
    if own is None:
        request = replace(request, cancel_at=BEFORE_A_SLOT)
    return Member(request, response, inexact, number, launched=own is not None)
