"""Causes of a failure in the order of the requests, each with the rule behind it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Iterator, Mapping, NamedTuple

from cachesim.base.errors import counted
from cachesim.engines.inspection import Stored
from cachesim.engines.rule import RULES, Role, about, has_effect, role_of
from cachesim.events import Aborted, Decided, SeqRm
from cachesim.judging.foreign_reads import sentence_of
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.recompute_reasons import reason
from cachesim.judging.reproduce_command import case_command, line_command
from cachesim.scenarios.from_notation import from_line

MOST = 12            # causes reported of a failure: the first and the last


class Cause(NamedTuple):
    """A step towards a failure: an action of request ``request``, and the rule behind it ("" = none)."""

    request: int
    text: str
    rule: str = ""


def failure_data(run: Run, at: int, hence: str = "") -> dict[str, Any]:
    """Return the failure of request ``at``: its causes, the consequence (``hence``, by default the fault of the
    request), the decisive rule with the address of its source, and the command that reproduces it."""
    causes = list(_causes(run, at))
    rule = run.requests[at].answer.deciding or next((one.rule for one in reversed(causes) if one.rule), "")
    return {
        "request": at, "causes": [one._asdict() for one in causes[:1] + causes[1:][1 - MOST :]],
        "hence": hence or run.requests[at].judged.fault, "rule": rule,
        "source": about(RULES[rule]).source.link if rule in RULES else "",
        "command": case_command(run.scenario, run.profile.removesuffix(" (changed)")),
    }  # fmt: skip


def explained(case: Mapping[str, Any], profile: str, at: int, hence: str) -> dict[str, Any]:
    """Return a case, given by its ``line``, ``model`` and ``server``, with the ``command`` that runs it and its
    ``failure``: that of request ``at``, where -1 is the first wrong request, or the last request if all answers are
    correct. The failure is None if the simulator itself fails. A case without a line is returned unchanged."""
    if "line" not in case:
        return dict(case)
    line, model, server = case["line"], case["model"], dict(case["server"])
    failure = None
    with suppress(Exception):
        run = run_judged(from_line(line, model=model, profiles=(profile,), server=server), profile, "provenance")
        last = len(run.requests) - 1
        failure = failure_data(run, min(at, last) if at >= 0 else (*run.broken, last)[0], hence)
    return {**case, "command": line_command(line, profile, model, server), "failure": failure}


def _causes(run: Run, at: int) -> Iterator[Cause]:
    known: set[tuple[str, int, tuple[int, ...]]] = set()
    whose = {one.request for one in run.reads.get(at, ())}
    for i in range(at + 1):
        done = list(_done(run, i, known, at))
        if i in (0, at) or i in whose or done:
            yield Cause(i, f"request {i}, {run.scenario.steps[i].prompt}: {_begins(run, i)}",
                        run.requests[i].answer.deciding)  # fmt: skip
            yield from done


def _begins(run: Run, i: int) -> str:
    """Return the tokens that a request reused, in words."""
    one, action = run.requests[i], run.scenario.steps[i].action
    if action is not None:
        return "done" if one.answer.status == 200 and not one.answer.died else one.answer.error
    under = f" under {one.answer.under}" if one.answer.under else ""
    return f"{counted(len(one.request.prompt), 'token')}{under}, {reason(one) or 'nothing reused'}"


def _done(run: Run, i: int, known: set[tuple[str, int, tuple[int, ...]]], at: int) -> Iterator[Cause]:
    """Yield the foreign contents that a request read, its failures, and the corrupt objects that it left."""
    yield from (Cause(i, sentence_of(one)) for one in run.reads.get(i, ()))
    events = run.events(i)
    for event in events:
        if isinstance(event, SeqRm) and not event.ok:
            yield Cause(i, f"seq_rm({event.seq}, {event.p0}, {event.p1}) fails")
        elif isinstance(event, Aborted):
            yield Cause(i, f"the server stops: {event.text}")
    decided = [event for event in events if isinstance(event, Decided)]
    for stored, verdict in run.requests[i].judged.armed:
        key = stored.kind, stored.resume, stored.tokens
        if verdict.holds is False and key not in known and (i < at or not run.requests[at].judged.wrong):
            known.add(key)
            yield _corrupt(run, i, stored, verdict.why, decided)


def _corrupt(run: Run, i: int, stored: Stored, why: str, decided: list[Decided]) -> Cause:
    """Return the cause of a stored object that is corrupt from now on: created corrupt, or kept although its tokens
    changed."""
    n = stored.resume if stored.start else len(stored.tokens)
    if stored.kind.startswith("entry"):        # made by the rule of the last store
        made = next((one.rule for one in reversed(decided) if _does(one, Role.STORE)), "")
    else:
        made = _made_by(decided, n)
    kept = "" if made else _kept_by(decided)
    content = run.content(stored)
    what = f"{'keeps' if kept else 'leaves'} a corrupt {stored.kind} of {counted(n, 'token')}"
    return Cause(i, f"{what}: {f'it has {content[0]}' if content else why}", made or kept)


def _made_by(decided: list[Decided], n: int) -> str:
    """Return the rule that created or published a stored object of n tokens, or read it from a file."""
    made = (one for one in reversed(decided) if _does(one, Role.CREATE, Role.PUBLISH, Role.READ_FILE))
    return next((one.rule for one in made if one.because.get("start") in (None, n)), "")


def _kept_by(decided: list[Decided]) -> str:
    """Return the rule that chose the erased objects once the reused tokens were settled."""
    roles = [role_of(one.rule) for one in decided]
    first = roles.index(Role.PREFIX) if Role.PREFIX in roles else 0
    return next((one.rule for one, role in list(zip(decided, roles, strict=True))[first:] if role is Role.DROP), "")


def _does(decision: Decided, *roles: Role) -> bool:
    role = role_of(decision.rule)
    return role in roles and has_effect(role, decision.value)
