"""A campaign as a command runs it: in processes, against the clock, with a folder that takes what is found.

Stored cases, conversations that failed once and are kept as scenario files, are played before anything is drawn. A
failure of a group that one of them shows already is not shrunk again.
"""

from __future__ import annotations

import json
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import AbstractSet, Any, Callable, Generator, Iterable, Mapping, NamedTuple, Sequence, TypeVar

from cachesim.base.console import complain, progress
from cachesim.base.errors import BadInput
from cachesim.base.pool import Done, Pool, Unfinished, finished
from cachesim.base.shard import WHOLE, Shard
from cachesim.engines.registry import profiles
from cachesim.scenarios.load import inside, load, load_each
from cachesim.tools.run.run_jobs import played_elsewhere
from cachesim.tools.search.campaign import (
    SPREAD,
    Campaign,
    CampaignBlock,
    CampaignJob,
    CampaignPlan,
    block_count,
    blocks,
    broken_in,
    gaps,
    lost,
    shrunk,
    work,
)
from cachesim.tools.search.campaign_folder import CampaignFolder, finding_data, group_of
from cachesim.tools.search.drawn_conversation import case_of
from cachesim.tools.search.property_failure import DIED, Group, PropertyFailure, finding_of
from cachesim.tools.search.run_properties import Cost

# Stored cases: does the search still find in them what it found?


class StoredCaseResult(NamedTuple):
    """What is found in a scenario file; ``why`` it could not be played, "" = it was."""

    file: str
    found: Sequence[PropertyFailure]
    why: str = ""


def stored_cases(folder: Path, plan: CampaignPlan, known: AbstractSet[str]) -> list[str]:
    """The scenario files in a folder and below that are for the plan's engine, in the order of their names. ``known``:
    names of all profiles. Raises BadInput for a folder without scenarios, and for a file that is none."""
    found = []
    for one in load_each(inside(folder), known):
        if isinstance(one, BadInput):
            raise one
        if one.engine == plan.engine:
            found.append(one.file)
    if not found:
        raise BadInput(f"no scenario for {plan.engine} is in this folder", file=str(folder))
    return found


def check(file: str, plan: CampaignPlan) -> StoredCaseResult:
    """Play a stored case under the plan, whatever profiles its file names."""
    try:
        return StoredCaseResult(file, broken_in(case_of(load(Path(file), profiles().keys())), plan, {}))
    except BadInput as bad:
        return StoredCaseResult(file, [], str(bad))


def groups_of(every: Sequence[StoredCaseResult]) -> dict[Group, str]:
    """The groups that are found in stored cases, each with the first file that shows it."""
    return {finding.group: one.file for one in reversed(every) for finding in one.found}


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


# A job of a campaign and its result as JSON strings, for a machine that shares nothing with this one.

PLAY = "cachesim.tools.search.campaign_jobs:play"
"""The name under which a worker imports ``play``."""


def packed(job: CampaignJob) -> str:
    """The job as a JSON object."""
    return json.dumps({**job.plan._asdict(), "first": job.first, "stop": job.stop})


def unpacked(text: str) -> CampaignJob:
    """The job of a JSON object. Raises KeyError, TypeError or ValueError for what is none."""
    data = json.loads(text)
    profile, mode, against = (str(data[name]) for name in ("profile", "mode", "against"))
    properties, models = (tuple(map(str, data[name])) for name in ("properties", "models"))
    plan = CampaignPlan(profile, properties, models, mode, int(data["seed"]), against)
    return CampaignJob(plan, int(data["first"]), int(data["stop"]))


def play(text: str) -> str:
    """Play the conversations of a job, and tell what was found."""
    block = work(unpacked(text))
    found, mended = ([(number, one._asdict()) for number, one in some] for some in (block.found, block.mended))
    return json.dumps({**block._asdict(), "found": found, "mended": mended, "cost": list(block.cost)})


def block_of(text: str) -> CampaignBlock:
    """What a worker told. Raises KeyError, TypeError or ValueError for what is none."""
    data = json.loads(text)
    found, mended = ([(int(number), finding_of(one)) for number, one in data[name]] for name in ("found", "mended"))
    played, refused, first, stop = (int(data[name]) for name in ("played", "refused", "first", "stop"))
    return CampaignBlock(found, played, refused, first, stop, mended, Cost(*map(int, data["cost"])))


PLAYING = 3 / 4         # share of the time until which conversations are played; the rest is for shrinking
REPORT = 1.0            # seconds that are left for what is printed at the end

S = TypeVar("S")
R = TypeVar("R")
Results = Generator[Done[S, R], None, None]


class Clock(NamedTuple):
    """How long may it take? For ever, if no minutes are given. ``begin``: when the command began, by the same clock."""

    begin: float
    minutes: float | None
    shrinks: bool

    def to_play(self) -> float | None:
        """Seconds that are left for playing."""
        return self._left(PLAYING if self.shrinks else 1.0)

    def to_shrink(self) -> float | None:
        """Seconds that are left for everything."""
        return self._left(1.0)

    def _left(self, share: float) -> float | None:
        if self.minutes is None:
            return None
        seconds = 60 * self.minutes
        return max(0.0, self.begin + min(share * seconds, seconds - REPORT) - time.monotonic())


class CampaignSearch:
    """One campaign. What is found is kept at once. ``on``: the address of a cluster that plays; "" = this machine."""

    def __init__(
        self, plan: CampaignPlan, campaign: Campaign, folder: CampaignFolder | None, clock: Clock, jobs: int, on: str
    ) -> None:
        self.plan, self.campaign, self.folder, self.clock, self.jobs, self.on = plan, campaign, folder, clock, jobs, on
        self.corpus: list[StoredCaseResult] = []
        self._complained = ""

    def check(self, stored: Sequence[str]) -> None:
        """Play the stored cases, all of them, in the order of their files."""
        ended: dict[int, StoredCaseResult] = {}
        with closing(self._spread(partial(check, plan=self.plan), stored, lambda: None)) as results:
            for one in progress(results, len(stored), "stored cases"):
                result = one.result
                if isinstance(result, Unfinished):
                    result = StoredCaseResult(one.share, [], f"{result.how}, twice")
                ended[one.number] = result
        self.corpus = [ended[number] for number in sorted(ended)]

    @property
    def known(self) -> dict[Group, str]:
        """Groups that a stored case shows, and its file."""
        return groups_of(self.corpus)

    def play(self, examples: int | None, part: Shard = WHOLE) -> None:
        """Play what was not played yet of this part of so many conversations, or of as many as there is time for."""
        done = list(self.campaign.done)
        start, stop = part.span(SPREAD if examples is None else examples)
        todo = blocks(self.plan, stop, start, done)
        total = None if examples is None else block_count(gaps(done, start, stop))
        with closing(self._played(todo)) as results:
            for one in progress(results, total, "conversations"):
                ended = one.result
                self.campaign.take(lost(one.share, ended.how) if isinstance(ended, Unfinished) else ended)
                self.keep()

    def _played(self, todo: Iterable[CampaignJob]) -> Results[CampaignJob, CampaignBlock]:
        """The blocks of these jobs, here or on the cluster. Raises BadInput where a cluster cannot be had."""
        if not self.on:
            yield from self._spread(work, todo, self.clock.to_play)
            return
        for one in played_elsewhere(self.on, PLAY, map(packed, todo), self.clock.to_play):
            result = one.result if isinstance(one.result, Unfinished) else block_of(one.result)
            yield Done(one.number, unpacked(one.share), result)

    def shrink(self) -> None:
        """Make every failure small, as far as there is time."""
        failures = sorted(self.campaign.failures.values(), key=lambda one: (one.first, one.finding.group))
        todo = [one for one in failures
                if not one.shrunk and one.finding.kind != DIED and one.finding.group not in self.known]  # fmt: skip
        with closing(self._spread(partial(shrunk, plan=self.plan), todo, self.clock.to_shrink)) as results:
            for one in progress(results, len(todo), "shrinking"):
                finding = one.share.finding
                if isinstance(one.result, Unfinished):
                    complain(f"shrinking {finding.name}: {finding.label}: {one.result.how}, twice")
                    continue
                self.campaign.failures[finding.group] = one.result
                self.keep()

    def keep(self) -> None:
        """Write what is new into the folder; what cannot be written is told, once."""
        if self.folder is None:
            return
        for file in self.folder.keep(self.campaign):
            complain(f"{file} written")
        refused = str(self.folder.refused or "")
        if refused and refused != self._complained:
            complain(refused)
        self._complained = refused

    def _spread(self, do: Callable[[S], R], shares: Iterable[S], left: Callable[[], float | None]) -> Results[S, R]:
        """In this process only where nobody has to be ended when the time is over."""
        if left() is None:
            yield from finished(do, shares, self.jobs)
            return
        with Pool(do, self.jobs) as pool:
            yield from pool.each(shares, left)
