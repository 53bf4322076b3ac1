"""Execution of a campaign for a command: processes, a time limit, and a folder that receives the findings.

Stored cases (scenario files of conversations that failed earlier) run before any conversation is drawn. A failure whose
group a stored case already shows is not shrunk again.
"""

from __future__ import annotations

import json
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import AbstractSet, Any, Callable, Generator, Iterable, Mapping, NamedTuple, Sequence, TypeVar

from cachesim.base.console import complain
from cachesim.base.errors import BadInput
from cachesim.base.pool import CompletedItem, KilledItem, Pool, finished
from cachesim.base.progress_bar import progress
from cachesim.base.shard import WHOLE, Shard
from cachesim.engines.registry import profiles
from cachesim.judging.fault_kinds import FaultKind
from cachesim.scenarios.load import inside, load, load_each
from cachesim.tools.run.run_jobs import run_on_cluster
from cachesim.tools.search.campaign import (
    SPREAD,
    Campaign,
    CampaignBlock,
    CampaignJob,
    CampaignPlan,
    block_count,
    blocks,
    findings_in,
    gaps,
    lost,
    shrunk,
    work,
)
from cachesim.tools.search.campaign_folder import CampaignFolder, finding_data, group_of
from cachesim.tools.search.drawn_conversation import case_of
from cachesim.tools.search.property_failure import Group, PropertyFailure, parse_finding
from cachesim.tools.search.run_properties import CampaignCost

# Stored cases: scenario files that are run again under the plan of a campaign.


class StoredCaseResult(NamedTuple):
    """Findings of a scenario file. ``why``: the reason why it could not run, "" if it ran."""

    file: str
    found: Sequence[PropertyFailure]
    why: str = ""


def stored_cases(folder: Path, plan: CampaignPlan, known: AbstractSet[str]) -> list[str]:
    """Return the scenario files for the plan's engine in a folder and its subfolders, sorted by name. ``known``: names
    of all profiles. Raise BadInput for a folder without such scenarios and for an invalid scenario file."""
    found = []
    for one in load_each(inside(folder), known):
        if isinstance(one, BadInput):
            raise one
        if one.engine == plan.engine:
            found.append(one.file)
    if not found:
        raise BadInput(f"the folder contains no scenario for {plan.engine}", file=str(folder))
    return found


def check(file: str, plan: CampaignPlan) -> StoredCaseResult:
    """Run a stored case under the plan, whatever profiles its file names."""
    try:
        return StoredCaseResult(file, findings_in(case_of(load(Path(file), profiles().keys())), plan, {}))
    except BadInput as bad:
        return StoredCaseResult(file, [], str(bad))


def groups_of(every: Sequence[StoredCaseResult]) -> dict[Group, str]:
    """Map each group that stored cases show to the first file that shows it."""
    return {finding.group: one.file for one in reversed(every) for finding in one.found}


def with_corpus(data: Mapping[str, Any], every: Sequence[StoredCaseResult]) -> dict[str, Any]:
    """Add the results of stored cases, if there are any, to the data of a campaign: failing files and files that could
    not run. A failure that a stored case also shows names that file (``known``)."""
    if not every:
        return dict(data)
    known = groups_of(every)
    failures = [{**one, **({"known": known[group_of(one)]} if group_of(one) in known else {})}
                for one in data["failures"]]  # fmt: skip
    corpus = {
        "files": len(every),
        "failing": [{"file": one.file, **finding_data(finding)} for one in every for finding in one.found],
        "unplayed": [{"file": one.file, "why": one.why} for one in every if one.why],
    }  # fmt: skip
    return {**data, "failures": failures, "corpus": corpus}


# Jobs of a campaign and their results as JSON strings, for workers on other machines.

PLAY = "cachesim.tools.search.campaign_jobs:play"
"""Import path of ``play`` for a worker."""


def packed(job: CampaignJob) -> str:
    """Return the job as a JSON object."""
    return json.dumps({**job.plan._asdict(), "first": job.first, "stop": job.stop})


def unpacked(text: str) -> CampaignJob:
    """Parse a job from its JSON object. Raise KeyError, TypeError or ValueError if it is not a valid job."""
    data = json.loads(text)
    profile, mode, against = (str(data[name]) for name in ("profile", "mode", "against"))
    properties, models = (tuple(map(str, data[name])) for name in ("properties", "models"))
    plan = CampaignPlan(profile, properties, models, mode, int(data["seed"]), against)
    return CampaignJob(plan, int(data["first"]), int(data["stop"]))


def play(text: str) -> str:
    """Run the conversations of a job. Return the resulting block as a JSON object."""
    block = work(unpacked(text))
    found, mended = ([(number, one._asdict()) for number, one in some] for some in (block.found, block.mended))
    return json.dumps({**block._asdict(), "found": found, "mended": mended, "cost": list(block.cost)})


def parse_block(text: str) -> CampaignBlock:
    """Parse the block that a worker returned. Raise KeyError, TypeError or ValueError if it is not a valid block."""
    data = json.loads(text)
    found, mended = ([(int(number), parse_finding(one)) for number, one in data[name]] for name in ("found", "mended"))
    played, refused, first, stop = (int(data[name]) for name in ("played", "refused", "first", "stop"))
    return CampaignBlock(found, played, refused, first, stop, mended, CampaignCost(*map(int, data["cost"])))


PLAYING = 3 / 4         # share of the time for running conversations; the rest is for shrinking
REPORT = 1.0            # seconds reserved for printing the report

S = TypeVar("S")
R = TypeVar("R")
Results = Generator[CompletedItem[S, R], None, None]


class CampaignClock(NamedTuple):
    """Time limit of a campaign; ``minutes`` None: unlimited. ``begin``: time.monotonic() when the command began."""

    begin: float
    minutes: float | None
    shrinks: bool

    def to_play(self) -> float | None:
        """Return the seconds that are left for running conversations, None: unlimited."""
        return self._left(PLAYING if self.shrinks else 1.0)

    def to_shrink(self) -> float | None:
        """Return the seconds that are left in all, None: unlimited."""
        return self._left(1.0)

    def _left(self, share: float) -> float | None:
        if self.minutes is None:
            return None
        seconds = 60 * self.minutes
        return max(0.0, self.begin + min(share * seconds, seconds - REPORT) - time.monotonic())


class CampaignSearch:
    """A campaign; findings are written as soon as they exist. ``on``: address of a cluster, "" for this machine."""

    def __init__(
        self,
        plan: CampaignPlan,
        campaign: Campaign,
        folder: CampaignFolder | None,
        clock: CampaignClock,
        jobs: int,
        on: str,
    ) -> None:
        self.plan = plan
        self.campaign = campaign
        self.folder = folder
        self.clock = clock
        self.jobs = jobs
        self.on = on
        self.corpus: list[StoredCaseResult] = []
        self._complained = ""

    def check(self, stored: Sequence[str]) -> None:
        """Run all stored cases. The results are in the order of the files."""
        ended: dict[int, StoredCaseResult] = {}
        with closing(self._spread(partial(check, plan=self.plan), stored, lambda: None)) as results:
            for one in progress(results, len(stored), "stored cases"):
                result = one.result
                if isinstance(result, KilledItem):
                    result = StoredCaseResult(one.share, [], f"{result.how}, twice")
                ended[one.number] = result
        self.corpus = [ended[number] for number in sorted(ended)]

    @property
    def known(self) -> dict[Group, str]:
        """Groups that a stored case shows, with its file."""
        return groups_of(self.corpus)

    def play(self, examples: int | None, part: Shard = WHOLE) -> None:
        """Run the conversations of ``part`` that have not run yet. ``examples``: total, None: until time is up."""
        done = list(self.campaign.done)
        start, stop = part.span(SPREAD if examples is None else examples)
        todo = blocks(self.plan, stop, start, done)
        total = None if examples is None else block_count(gaps(done, start, stop))
        with closing(self._played(todo)) as results:
            for one in progress(results, total, "conversations"):
                ended = one.result
                self.campaign.take(lost(one.share, ended.how) if isinstance(ended, KilledItem) else ended)
                self.keep()

    def _played(self, todo: Iterable[CampaignJob]) -> Results[CampaignJob, CampaignBlock]:
        """Yield the blocks of these jobs, run here or on the cluster. Raise BadInput if the cluster is unavailable."""
        if not self.on:
            yield from self._spread(work, todo, self.clock.to_play)
            return
        for one in run_on_cluster(self.on, PLAY, map(packed, todo), self.clock.to_play):
            result = one.result if isinstance(one.result, KilledItem) else parse_block(one.result)
            yield CompletedItem(one.number, unpacked(one.share), result)

    def shrink(self) -> None:
        """Shrink the failures until the time is over."""
        failures = sorted(self.campaign.failures.values(), key=lambda one: (one.first, one.finding.group))
        todo = [one for one in failures
                if not one.is_shrunk and one.finding.kind != FaultKind.DIED
                and one.finding.group not in self.known]  # fmt: skip
        with closing(self._spread(partial(shrunk, plan=self.plan), todo, self.clock.to_shrink)) as results:
            for one in progress(results, len(todo), "shrinking"):
                finding = one.share.finding
                if isinstance(one.result, KilledItem):
                    complain(f"shrinking {finding.name}: {finding.label}: {one.result.how}, twice")
                    continue
                self.campaign.failures[finding.group] = one.result
                self.keep()

    def keep(self) -> None:
        """Write new findings into the folder. Print each write error once."""
        if self.folder is None:
            return
        for file, replaced in self.folder.keep(self.campaign):
            complain(f"{file} written" + (f" in place of {replaced.name}" if replaced else ""))
        refused = str(self.folder.refused or "")
        if refused and refused != self._complained:
            complain(refused)
        self._complained = refused

    def _spread(self, do: Callable[[S], R], shares: Iterable[S], left: Callable[[], float | None]) -> Results[S, R]:
        """Yield the results of the jobs. With a time limit the processes are killed when it is over."""
        if left() is None:
            yield from finished(do, shares, self.jobs)
            return
        with Pool(do, self.jobs) as pool:
            yield from pool.each(shares, left)
