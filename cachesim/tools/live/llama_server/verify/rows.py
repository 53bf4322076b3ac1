"""Both sides of a case, request by request: what ours does with what the real server was asked and generated."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.registry import profiles
from cachesim.judging.cold_comparison import Judge
from cachesim.replay.recorded_trace import Member, TraceStep, make_trace
from cachesim.replay.replay import Replaying
from cachesim.replay.replayed import Replayed

SIZES = ("size", "mib", "bytes", "limit")
"""Parts of the names of event fields that depend on how large a model's states are."""


class Side(NamedTuple):
    """What became of a request: tokens reused and evaluated, HTTP status (0 = the process ended, None = not known), and
    whether the answer is a cold run's (None = nobody can say)."""

    cache_n: int | None
    prompt_n: int | None
    status: int | None
    equal: bool | None


UNKNOWN = Side(None, None, None, None)


class ComparedRequest(NamedTuple):
    """A request on both sides. ``same`` None = undecided, for the reason ``why``; ``first``: the first decision, or the
    field of the answer, in which they differ, "" = none or not known. ``far``: the largest difference of the real
    answer's log-probabilities from a cold run."""

    number: int
    text: str
    ours: Side
    theirs: Side
    same: bool | None
    why: str = ""
    first: str = ""
    far: float | None = None


def rows(data: Mapping[str, Any], profile: str, texts: Sequence[str], sized: bool) -> list[ComparedRequest]:
    """A row for every request of a recording. ``texts``: the steps in words. ``sized``: the model's states have the
    sizes that ours counts. Raises BadInput."""
    trace = make_trace(Path("the recording"), {**data, "profile": profile.partition("@")[2]}, profiles())
    found: list[ComparedRequest] = []
    with TemporaryDirectory(prefix="cachesim-") as folder:
        run = _Beside(trace, "provenance", Path(folder), sized)
        number = 0
        for step, raw in zip(trace.steps, data["steps"], strict=True):
            first = run.first(step)
            members = raw.get("steps", [raw])
            if step.members:
                race = bool(raw.get("racy")) and not trace.logged
                for n, (member, one) in enumerate(zip(step.members, members, strict=True), number):
                    theirs = _theirs(member, one, raw)
                    ours = run.sides.get(id(member.request), UNKNOWN)
                    found.append(_row(n, texts[n], ours, theirs, max(_gaps(one), default=None), race, first))
            number += len(members)
    return found


class _Beside(Replaying):
    """A replay that remembers what ours said to each request, and does not look at sizes where they are another
    model's."""

    def __init__(self, trace: Any, mode: str, folder: Path, sized: bool) -> None:
        self.sides: dict[int, Side] = {}
        self.judge: Judge | None = None
        self.sized = sized
        super().__init__(trace, mode, folder, self._look)

    def _look(self, server: Server, request: Request, answer: Answer) -> bool | None:
        self.judge = self.judge or Judge(server.model)
        slot = server.live(answer.id_slot) if answer.status == 200 and not answer.died else None
        equal = self.judge.judge(request, answer, slot).equal_cold
        status = 0 if answer.died else answer.status
        self.sides[id(request)] = Side(answer.cache_n, answer.prompt_n, status, equal)
        return equal

    def first(self, step: TraceStep) -> str:
        """Do one step; what differs first, "" for nothing. The last lines of a process that ends may be missing, since
        another thread writes its log."""
        out = Replayed(self.trace)
        self.step(out, step)
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


def _row(
    number: int, text: str, ours: Side, theirs: Side, far: float | None, race: bool, first: str
) -> ComparedRequest:
    same, why = _same(ours, theirs, race, far)
    if same is not False and first and not race:
        same, why = False, ""
    return ComparedRequest(number, text, ours, theirs, same, why, first, far)


def _same(ours: Side, theirs: Side, race: bool, far: float | None) -> tuple[bool | None, str]:
    """Returns True if both sides agree in all that is known of the real one, with the reason if nothing can be said."""
    if ours == UNKNOWN:
        return None, "the simulator gave no answer"
    if theirs.status is None:
        return None, "the client disconnected"
    fields = [a == b for a, b in zip(ours[:3], theirs[:3], strict=True) if b is not None]
    if not all(fields):
        return (None, "it depends on when the requests arrive") if race else (False, "")
    if ours.equal is False and theirs.equal and far:
        return None, f"wrong here; there the difference from a cold run is {far:g}, which is taken for rounding"
    if ours.equal is None or theirs.equal is None:
        unanswered = ours.status != 200
        return (True, "") if unanswered else (None, "whether the answer is a cold run's is not known")
    return ours.equal == theirs.equal or ours.status != 200, ""


def _theirs(member: Member, raw: Mapping[str, Any], step: Mapping[str, Any]) -> Side:
    response = raw.get("response") or {}
    if "died" in step and not response:
        return Side(None, None, 0, False)
    if response.get("cancelled") or not response:
        return UNKNOWN
    status = int(response.get("status", 200))
    equal = None if member.inexact is None or "cold" not in raw else not member.inexact
    return Side(response.get("cache_n"), response.get("prompt_n"), status, equal)


def _gaps(raw: Mapping[str, Any]) -> Iterator[float]:
    for one in (raw, *(raw.get("response") or {}).get("completions", ())):
        if "max_dlogprob" in (one.get("cold") or {}):
            yield float(one["cold"]["max_dlogprob"])
