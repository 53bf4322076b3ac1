"""Tokens that the cure of the costliest cause saves, from a run of the bodies without its changes under the same rule
set and model. If the user names no model, a second model is run, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.scenarios.schema import Scenario
from cachesim.tools.request_bodies.body import Body
from cachesim.tools.request_bodies.body_stages import AnsweredBody, RelatedBody
from cachesim.tools.request_bodies.cured_bodies import CuredRequests, CureTarget, cured_requests
from cachesim.tools.request_bodies.import_scenario import (
    ANSWER,
    SimulatedImport,
    adapter_keys,
    scales_option,
    simulate_bodies,
)
from cachesim.tools.request_bodies.prompt_causes import CAUSES
from cachesim.tools.request_bodies.request_diff import kept_by_any, link_requests
from cachesim.tools.request_bodies.template import Prompt
from cachesim.tools.request_bodies.tokenizer import Tokenizer

WORK, PART = 5_500, 2_000        # work of a run of all requests, at most; else work of a run of the first requests
TOKENS = 500_000                 # prompt tokens of a run, at most
PROMPT_PART = 128                # prompt tokens that take as long as a generated token
ALL_RUNS = 11_000                # work of the runs under both models, at most
UNCHANGED = "send what was sent before unchanged"
"""Cure of a cause without one of its own, if a run shows that it helps."""

Data = dict[str, Any]
Render = Callable[[Sequence[Body]], Sequence[Prompt | None]]


class CureSetup(NamedTuple):
    """What the requests are run with. ``other_model``: model of the second comparison, "" = none."""

    profile: str
    model: str
    server: Mapping[str, Any]
    tokenizer: Tokenizer
    render: Render
    other_model: str = ""


class SimulatedCure(NamedTuple):
    """Cure of a cause. ``data``: its cure and the evaluated tokens that it saves; ``scenario``: the requests without
    the changes of the cause, None = not run."""

    data: Data
    scenario: Scenario | None = None


def simulated_cure(
    records: Sequence[AnsweredBody],
    prompts: Sequence[Prompt | None],
    cause: Mapping[str, Any],
    reused: Sequence[int | None],
    setup: CureSetup,
) -> SimulatedCure | None:
    """Return the cure of a cause and what it saves; None if the cause has no cure.
    ``reused``: tokens that each request reuses as it was sent, as far as the requests were run.
    """
    target = CureTarget(cause["cause"], cause["where"])
    count = _affordable(records[: len(reused)])
    first = records[:count]
    data: Data = {
        "cause": target.cause,
        "where": target.part,
        "advice": CAUSES[target.cause].cure or UNCHANGED,
        "first_requests": count,
        "evaluated": None,
        "saved": None,
        "other_model": None,
    }
    unknown = SimulatedCure(data) if CAUSES[target.cause].cure else None
    if cause["in_requests"][0] >= count:
        return unknown
    try:
        cured = cured_requests(first, target, prompts[:count])
        if cured is None:
            return None
        made = _linked(first, cured, setup)
        run = _run(made, setup, setup.model)
        before = sum(record.tokens - (found or 0) for record, found in zip(first, reused, strict=False))
        data |= {"evaluated": before, "saved": before - _evaluated(made, run)}
        if setup.other_model and count == len(reused) and 3 * _work(made) <= ALL_RUNS:
            other = _evaluated(first, _run(first, setup, setup.other_model))
            after = _evaluated(made, _run(made, setup, setup.other_model))
            data["other_model"] = {"model": setup.other_model, "evaluated": other, "saved": other - after}
    except BadInput:
        return unknown
    return SimulatedCure(data, run.scenario)


def lost_with(records: Sequence[AnsweredBody], setup: CureSetup) -> int | None:
    """Return the tokens that a server with the other model re-evaluates because it did not keep them; None if no other
    model is to be run, or if the run is too long."""
    if not setup.other_model or _affordable(records) < len(records):
        return None
    head = {"id": "other", "title": "another model", "why": "its loss"}
    try:
        run = simulate_bodies(records, setup.profile, setup.other_model, setup.server, head)
    except BadInput:
        return None
    if run.left:
        return None
    pairs = zip(records, run.reused, strict=True)
    return sum(max(0, kept_by_any(records, record) - (found or 0)) for record, found in pairs)


def _affordable(records: Sequence[AnsweredBody]) -> int:
    """Return the number of first requests to run: all, if the work allows it."""
    tokens = sum(record.tokens for record in records)
    if _work(records) <= WORK and tokens <= TOKENS:
        return len(records)
    work = tokens = 0
    for number, record in enumerate(records):
        work += _work([record])
        tokens += record.tokens
        if work > PART or tokens > TOKENS:
            return number
    return len(records)


def work_of_cure(data: Mapping[str, Any]) -> int:
    """Return the work of the runs for the cure in the data of a report, in generated tokens."""
    cure = data["cure"]
    if cure is None or cure["saved"] is None:
        return 0
    rows = data["requests"][: cure["first_requests"]]
    work: int = sum(min(row["answer"], ANSWER) + row["tokens"] // PROMPT_PART for row in rows)
    return work * 3 if cure["other_model"] else work


def _work(records: Sequence[AnsweredBody]) -> int:
    """Return the work of a run of these requests, in generated tokens."""
    return sum(min(record.answer, ANSWER) + record.tokens // PROMPT_PART for record in records)


def _linked(sent: Sequence[AnsweredBody], cured: CuredRequests, setup: CureSetup) -> list[AnsweredBody]:
    """Return the cured requests with their relations, and with the answers of the requests that were sent if they are
    longer. Raise BadInput."""
    prompts = cured.prompts
    if prompts is None:
        prompts = [*setup.render(cured.bodies)]
    scales = str(setup.server.get(scales_option(setup.profile), ""))
    made = link_requests(cured.bodies, prompts, setup.tokenizer, adapter_keys(cured.bodies, scales))
    return [replace(new, answer=max(old.answer, new.answer)) for old, new in zip(sent, made, strict=True)]


def _run(records: Sequence[AnsweredBody], setup: CureSetup, model: str) -> SimulatedImport:
    """Run these requests. Raise BadInput if not all of them can be run."""
    head = {"id": "cure", "title": "requests without a change", "why": "its saving"}
    run = simulate_bodies(records, setup.profile, model, setup.server, head)
    if run.left or None in run.reused:
        raise BadInput(run.limit or "a request is refused")
    return run


def _evaluated(records: Sequence[RelatedBody], run: SimulatedImport) -> int:
    """Return the evaluated tokens of a run of these requests."""
    return sum(record.tokens - (found or 0) for record, found in zip(records, run.reused, strict=True))
