"""Causes of a failure in the order of the requests, each with the rule behind it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Iterator, Mapping, NamedTuple

from cachesim.base.errors import counted
from cachesim.engines.inspection import RestorePoint, StoredObject
from cachesim.engines.point_kinds import CONVERSATION
from cachesim.engines.registry import engine_named
from cachesim.engines.rule import RULES, Role, about, has_effect, role_of
from cachesim.events import Aborted, Decided, Gained, SeqRm
from cachesim.judging.foreign_reads import sentence_of
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.recompute_reasons import reason
from cachesim.judging.reproduce_command import case_command, line_command
from cachesim.judging.request_events import group_of, owned_events
from cachesim.scenarios.from_notation import from_line

MOST = 12            # causes reported of a failure: the first and the last


class FailureStep(NamedTuple):
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
        "request": at, "causes": [one._asdict() for one in shown_causes(causes)],
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
    line = case["line"]
    model = case["model"]
    server = dict(case["server"])
    failure = None
    with suppress(Exception):
        run = run_judged(from_line(line, model=model, profiles=(profile,), server=server), profile, "provenance")
        last = len(run.requests) - 1
        failure = failure_data(run, min(at, last) if at >= 0 else (*run.broken, last)[0], hence)
    return {**case, "command": line_command(line, profile, model, server), "failure": failure}


def _causes(run: Run, at: int) -> Iterator[FailureStep]:
    whose = {0, at, _before_in_slot(run, at), *(one.request for one in run.reads.get(at, ()))}
    left = _corrupt_objects(run, at)
    for i in range(at + 1):
        done = [*_done(run, i), *left.get(i, ())]
        if i in whose or done:
            yield FailureStep(i, f"request {i}, {run.scenario.steps[i].prompt}: {_begins(run, i)}",
                              run.requests[i].answer.deciding)  # fmt: skip
            yield from done


def shown_causes(causes: list[FailureStep]) -> list[FailureStep]:
    """Return the first cause and the last ones, and of the first of these the line that names its request."""
    last = causes[1:][1 - MOST :]
    if len(last) == len(causes) - 1:
        return causes
    name = next(one for one in causes if one.request == last[0].request)
    return [causes[0], *last] if name in last else [*dict.fromkeys([causes[0], name]), *last]


def _before_in_slot(run: Run, at: int) -> int:
    """Return the request whose tokens a request found in its slot, -1 = the slot was empty."""
    one, steps = run.requests[at], run.scenario.steps
    if one.slot is None or not one.slot.held:
        return -1
    filled = (i for i in range(at - 1, -1, -1) if run.requests[i].answer.id_slot == one.answer.id_slot)
    return next((i for i in filled if (action := steps[i].action) is None or action.do == "restore"), -1)


def _begins(run: Run, i: int) -> str:
    """Return the tokens that a request reused, in words."""
    one, action = run.requests[i], run.scenario.steps[i].action
    if action is not None:
        return "done" if one.answer.status == 200 and not one.answer.died else one.answer.error
    under = f" under {one.answer.under}" if one.answer.under else ""
    slots, alone = engine_named(run.scenario.engine).manual.slots, len(group_of(run.scenario.steps, i)) == 1
    how = reason(one, slots, alone)
    return f"{counted(len(one.request.prompt), 'token')}{under}, {how or 'nothing reused'}"


def _done(run: Run, i: int) -> Iterator[FailureStep]:
    """Yield the foreign contents that a request read, and its failures."""
    yield from (FailureStep(i, sentence_of(one)) for one in run.reads.get(i, ()))
    for event in run.events(i):
        if isinstance(event, SeqRm) and not event.ok:
            yield FailureStep(i, f"seq_rm({event.seq}, {event.p0}, {event.p1}) fails")
        elif isinstance(event, Aborted):
            yield FailureStep(i, f"the server stops: {event.text}")


def _corrupt_objects(run: Run, at: int) -> dict[int, list[FailureStep]]:
    """Return the corrupt objects that existed before the failure of request ``at``, by the request that left them."""
    found: dict[int, list[FailureStep]] = {}
    known: set[tuple[str, int, tuple[int, ...]]] = set()
    for i in range(at + 1):
        for stored, verdict in run.requests[i].judged.armed:
            key = stored.kind, stored.resume, stored.tokens
            if verdict.equal_cold is not False or key in known:
                continue
            maker = _maker(run, i, stored)
            if maker < at or (maker == at and not run.requests[at].judged.wrong):
                known.add(key)
                decided = [event for event in run.events(maker) if isinstance(event, Decided)]
                found.setdefault(maker, []).append(_corrupt(run, maker, stored, verdict.why, decided))
    return found


def _maker(run: Run, i: int, stored: StoredObject) -> int:
    """Return the request that stored an object which is corrupt after request ``i``: the one in whose slot it was
    reported last, of those sent together with ``i``; else ``i``."""
    group = group_of(run.scenario.steps, i)
    owned = owned_events(run.log, group, run.launches) if len(group) > 1 else ()
    whose = [owner for event, owner in owned if isinstance(event, Gained) and _is_point(event.point, stored)]
    return next((owner for owner in reversed(whose) if owner is not None and owner >= 0), i)


def _is_point(point: RestorePoint, stored: StoredObject) -> bool:
    """True if a restore point is a stored object: of its kind, after the same tokens, or at its length in a slot."""
    if point.key[0] != stored.kind:
        return False
    return point.tokens == stored.tokens if not point.start else point.n == stored.resume


def _corrupt(run: Run, i: int, stored: StoredObject, why: str, decided: list[Decided]) -> FailureStep:
    """Return the cause of a stored object that is corrupt from now on: created corrupt, or kept although its tokens
    changed."""
    n = stored.length
    if stored.kind.startswith(CONVERSATION):        # made by the rule of the last store
        made = next((one.rule for one in reversed(decided) if _does(one, Role.STORE)), "")
    else:
        made = _made_by(decided, n)
    kept = "" if made else _kept_by(decided)
    content = run.content(stored)
    what = f"{'keeps' if kept else 'leaves'} a corrupt {stored.kind} of {counted(n, 'token')}"
    return FailureStep(i, f"{what}: {f'it has {content[0]}' if content else why}", made or kept)


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
