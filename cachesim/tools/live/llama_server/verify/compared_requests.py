"""Comparison of a real server with the simulator: replays what the server received and generated, and compares each
request."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.engines.base import HTTP_OK, Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.registry import profiles
from cachesim.judging.compare_answer import Judge
from cachesim.replay.recorded_trace import TraceMember, TraceStep, make_trace
from cachesim.replay.replay import TraceReplay
from cachesim.replay.replay_result import ReplayResult

ENDED_EARLY = "the real model ended an answer before its last token, which the simulator is not told"
DISCONNECTED = "the log does not show at which batch the server noticed a disconnect"
RACED = "the result depends on when the requests arrive"
LOST_ANSWER = "its answer may have been lost when the server ended at another request"
SIZES = ("size", "mib", "bytes", "limit")
"""Parts of the names of event fields that depend on the size of a model's states."""


class RequestResult(NamedTuple):
    """Outcome of a request: tokens reused and evaluated, HTTP status (0 = the process ended, -1 = the server goes on
    and never answers, None = unknown), and whether the answer equals a cold run's (None = unknown)."""

    cache_n: int | None
    prompt_n: int | None
    status: int | None
    equal: bool | None


UNKNOWN = RequestResult(None, None, None, None)
ENDED = 0                            # status of a request at which the process ended
NEVER_ANSWERED = -1                  # status of a request that a running server never answers


class ComparedRequest(NamedTuple):
    """A request on both sides."""

    number: int
    text: str
    ours: RequestResult
    theirs: RequestResult
    same: bool | None                    # None = undecided
    why: str = ""                        # reason for undecided
    first: str = ""                      # first differing decision or answer field, "" = none or unknown
    far: float | None = None             # largest log-probability difference of the real answer from a cold run


def compare_requests(
    data: Mapping[str, Any], profile: str, texts: Sequence[str], sized: bool
) -> list[ComparedRequest]:
    """Replay a recording, and return what both sides did with each of its requests. ``texts``: the requests in words.
    ``sized``: states of the real model have the sizes that the simulator counts. Raise BadInput."""
    trace = make_trace(Path("the recording"), {**data, "profile": profile.partition("@")[2]}, profiles())
    found: list[ComparedRequest] = []
    with TemporaryDirectory(prefix="cachesim-") as folder:
        comparison = _Comparison(_Beside(trace, "provenance", Path(folder), sized))
        for step, raw in zip(trace.steps, data["steps"], strict=True):
            found += comparison.step(step, raw, texts)
    return found


class _Comparison:
    """Comparison of a recording, step by step. ``open_since`` is the reason why differences are undecided until the
    server starts again, "" = they are decided."""

    def __init__(self, run: _Beside) -> None:
        self.run = run
        self.number = 0                  # of the next request
        self.open_since = ""

    def step(self, step: TraceStep, raw: Mapping[str, Any], texts: Sequence[str]) -> list[ComparedRequest]:
        """Replay a step, and compare its requests. ``raw``: the step as recorded."""
        first = self.run.first(step)
        members = raw.get("steps", [raw])
        race = bool(raw.get("racy")) and not self.run.trace.has_log
        if step.action == "restart":
            self.open_since = ""
        else:
            self.open_since = self.open_since or (RACED if race else _unknown_end(members, first))
        numbers = range(self.number, self.number + len(members))
        self.number = numbers.stop
        if not step.members:
            return []
        return [
            self._compared(member, one, _StepFacts(raw, step.stuck, first, race), number, texts[number])
            for number, member, one in zip(numbers, step.members, members, strict=True)
        ]

    def _compared(
        self, member: TraceMember, raw: Mapping[str, Any], facts: _StepFacts, number: int, text: str
    ) -> ComparedRequest:
        """Compare a request of the step that was replayed last. ``raw``: the request as recorded."""
        first = facts.first
        far = max(_gaps(raw), default=None)
        theirs = _theirs(member, raw, facts.raw)
        ours = self.run.side_of(member)
        if facts.is_stuck and not first and ours == UNKNOWN:
            ours = ours._replace(status=NEVER_ANSWERED)
        same, why = (False, "") if first and not facts.race else _same(ours, theirs, facts.race, far)
        if self.run.unsearched:
            same, why = None, self.run.unsearched
        elif same is False and self.open_since:
            same, why, first = None, self.open_since, ""
        elif same is False and not first and theirs.status == ENDED:
            same, why = None, LOST_ANSWER       # both end in this step; another thread sends replies
        return ComparedRequest(number, text, ours, theirs, same, why, first, far)


class _StepFacts(NamedTuple):
    """What the requests of a step have in common: the recorded step, whether the server never answers some of them, the
    first difference ("" = none), and whether the result depends on when they arrive."""

    raw: Mapping[str, Any]
    is_stuck: bool
    first: str
    race: bool


def _unknown_end(members: Sequence[Mapping[str, Any]], first: str) -> str:
    """Return why differences from this step on say nothing, "" if they count: a model ended an answer by itself, or a
    client disconnected and the first difference is one of decisions, or of where one of several completions ended.
    ``first``: the first difference."""
    stops = [(member.get("response") or {}).get("stop_type") for member in members]
    if "eos" in stops:
        return ENDED_EARLY
    left = [request for member in members if "cancel_after" in (request := member.get("request") or {})]
    is_shared = any(int(request.get("n_cmpl", 1)) > 1 for request in left)     # whose release is whose is not printed
    is_open = first.startswith("decision") or (is_shared and first.startswith("release"))
    return DISCONNECTED if left and is_open else ""


class _Beside(TraceReplay):
    """A replay that records the simulator's answers, and ignores sizes if those of the real model differ."""

    def __init__(self, trace: Any, mode: str, folder: Path, sized: bool) -> None:
        self.sides: dict[int, tuple[Answer, RequestResult]] = {}
        self.judge: Judge | None = None
        self.unsearched = ""            # reason why the requests of the step are undecided, "" = they are decided
        self.sized = sized
        super().__init__(trace, mode, folder, self._look)

    def _look(self, server: Server, request: Request, answer: Answer) -> None:
        """Record the answer. The verdict is compared later, in the rows."""
        self.judge = self.judge or Judge(server.model)
        slot = server.inspection.live(answer.id_slot) if answer.status == HTTP_OK and not answer.died else None
        equal = self.judge.judge(request, answer, slot).equal_cold
        told = self._as_recorded(request, answer, equal)           # the other side's cold server shifts like it
        self.sides[id(request)] = answer, RequestResult(answer.cache_n, answer.prompt_n, None, told)

    def side_of(self, member: TraceMember) -> RequestResult:
        """Return the simulated result of a request whose step is done: one of its completions may have failed last."""
        found = self.sides.get(id(member.request))
        if found is None:
            return UNKNOWN
        answer, result = found
        return result._replace(status=ENDED if answer.died else answer.reply_status)

    def first(self, step: TraceStep) -> str:
        """Replay a step; return the first difference, "" for none. The last lines of a process that ends may be
        missing, since another thread writes its log."""
        out = ReplayResult(self.trace)
        self.step(out, step)
        self.unsearched = out.why if out.unsearched is not None else ""
        if out.first and step.died and self.server.dead and "event" in out.first and out.first["recorded"] is None:
            return ""
        return _said(out.first, self.sized) if out.first else ""


def _said(first: Mapping[str, Any], sized: bool) -> str:
    theirs, ours = first.get("recorded"), first.get("ours")
    if "field" in first:
        return f"{first['field']}: {theirs} there, {ours} here"
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping) and theirs.get("ev") == ours.get("ev"):
        names = [name for name in theirs if theirs[name] != ours.get(name)]
        if not sized and all(any(part in name for part in SIZES) for name in names):
            return ""
        return f"{theirs['ev']}: " + ", ".join(f"{name} {theirs[name]} there, {ours.get(name)} here" for name in names)
    there, here = (one.get("ev") if isinstance(one, Mapping) else "nothing" for one in (theirs, ours))
    return f"decision {first.get('event')}: {there} there, {here} here"


def _same(ours: RequestResult, theirs: RequestResult, race: bool, far: float | None) -> tuple[bool | None, str]:
    """True if both sides agree in all known values of the real side; None with the reason if undecided."""
    if ours == UNKNOWN:
        return None, "the simulator gave no answer"
    if theirs.status is None:
        return None, "the client disconnected"
    fields = [a == b for a, b in zip(ours[:3], theirs[:3], strict=True) if b is not None]
    if not all(fields):
        return (None, RACED) if race else (False, "")
    if ours.equal is False and theirs.equal and far:
        return None, f"wrong here; the real answer differs from a cold run by {far:g}, which counts as rounding"
    if ours.equal is None or theirs.equal is None:
        unanswered = ours.status != HTTP_OK
        return (True, "") if unanswered else (None, "unknown whether the answer equals a cold run's")
    return ours.equal == theirs.equal or ours.status != HTTP_OK, ""


def _theirs(member: TraceMember, raw: Mapping[str, Any], step: Mapping[str, Any]) -> RequestResult:
    response = raw.get("response") or {}
    if "died" in step and not response:
        return RequestResult(None, None, ENDED, False)
    if not response and step.get("stuck"):
        return UNKNOWN._replace(status=NEVER_ANSWERED)
    if response.get("cancelled") or not response:
        return UNKNOWN
    status = int(response.get("status", HTTP_OK))
    equal = None if member.inexact is None or "cold" not in raw else not member.inexact
    return RequestResult(response.get("cache_n"), response.get("prompt_n"), status, equal)


def _gaps(raw: Mapping[str, Any]) -> Iterator[float]:
    for one in (raw, *(raw.get("response") or {}).get("completions", ())):
        if "max_dlogprob" in (one.get("cold") or {}):
            yield float(one["cold"]["max_dlogprob"])
