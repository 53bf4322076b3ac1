"""Conversations that failed once and are kept as scenario files: does the search still find in them what it found?

They are played before anything is drawn. A failure of a group that one of them shows already is not shrunk again.
"""

from __future__ import annotations

from pathlib import Path
from typing import AbstractSet, Any, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.scenarios.load import inside, load, load_each
from cachesim.tools.search.campaign_file import CampaignPlan
from cachesim.tools.search.case import case_of
from cachesim.tools.search.examine import compared, shown
from cachesim.tools.search.finding import Group, PropertyFailure
from cachesim.tools.search.folder import finding_data, group_of


class StoredCase(NamedTuple):
    """A scenario file that is played under a plan."""

    file: str
    plan: CampaignPlan


class StoredCaseResult(NamedTuple):
    """What is found in it; ``why`` it could not be played, "" = it was."""

    file: str
    found: Sequence[PropertyFailure]
    why: str = ""


def stored_cases(folder: Path, plan: CampaignPlan, known: AbstractSet[str]) -> list[StoredCase]:
    """The scenario files in a folder and below that are for the plan's engine, in the order of their names. ``known``:
    names of all profiles. Raises BadInput for a folder without scenarios, and for a file that is none."""
    engine, found = plan.profile.partition("@")[0], []
    for one in load_each(inside(folder), known):
        if isinstance(one, BadInput):
            raise one
        if one.engine == engine:
            found.append(StoredCase(one.file, plan))
    if not found:
        raise BadInput(f"no scenario for {engine} is in this folder", file=str(folder))
    return found


def groups_of(every: Sequence[StoredCaseResult]) -> dict[Group, str]:
    """The groups that are found in stored cases, each with the first file that shows it."""
    known: dict[Group, str] = {}
    for one in every:
        for finding in one.found:
            known.setdefault(finding.group, one.file)
    return known


def with_corpus(data: Mapping[str, Any], every: Sequence[StoredCaseResult]) -> dict[str, Any]:
    """The data of a campaign with what stored cases show: those that fail, and those that could not be played. A
    failure that one of them shows too names its file (``known``)."""
    known = groups_of(every)
    failures = [{**one, **({"known": known[group_of(one)]} if group_of(one) in known else {})}
                for one in data["failures"]]  # fmt: skip
    corpus = {
        "files": len(every),
        "failing": [{"file": one.file, **finding_data(finding)} for one in every for finding in one.found],
        "unplayed": [{"file": one.file, "why": one.why} for one in every if one.why],
    }  # fmt: skip
    return {**data, "failures": failures, "corpus": corpus}


def check(job: StoredCase) -> StoredCaseResult:
    """Play one under the plan, whatever profiles its file names."""
    from cachesim.engines.registry import profiles

    plan = job.plan
    try:
        case = case_of(load(Path(job.file), profiles().keys()))
        if plan.against:
            return StoredCaseResult(
                job.file, compared(case, plan.profile, plan.against, plan.properties, {}, plan.mode).new
            )
        return StoredCaseResult(job.file, shown(case, plan.profile, plan.properties, {}, plan.mode))
    except BadInput as bad:
        return StoredCaseResult(job.file, [], str(bad))
