"""A campaign as a command runs it: in processes, against the clock, with a folder that takes what is found."""

from __future__ import annotations

import json
import time
from contextlib import closing
from typing import Callable, Generator, Iterable, NamedTuple, TypeVar

from cachesim.base.console import complain, progress
from cachesim.base.pool import Done, Pool, Unfinished, finished
from cachesim.base.shard import WHOLE, Shard
from cachesim.tools.run.jobs import played_elsewhere
from cachesim.tools.search.campaign import (
    SPREAD,
    Campaign,
    CampaignBlock,
    CampaignJob,
    Failure,
    Found,
    block_count,
    blocks,
    gaps,
    lost,
    shrunk,
    work,
)
from cachesim.tools.search.campaign_file import CampaignPlan
from cachesim.tools.search.examine import Cost
from cachesim.tools.search.finding import DIED, Group, finding_of
from cachesim.tools.search.folder import CampaignFolder
from cachesim.tools.search.stored_cases import StoredCase, StoredCaseResult, check, groups_of

# A job of a campaign and its result as JSON strings, for a machine that shares nothing with this one.

PLAY = "cachesim.tools.search.campaign_jobs:play"
"""The name under which a worker imports ``play``."""


def packed(job: CampaignJob) -> str:
    """The job as a JSON object."""
    return json.dumps(job._asdict())


def unpacked(text: str) -> CampaignJob:
    """The job of a JSON object. Raises KeyError, TypeError or ValueError for what is none."""
    data = json.loads(text)
    return CampaignJob(
        str(data["profile"]), tuple(map(str, data["properties"])), tuple(map(str, data["models"])), int(data["seed"]),
        int(data["first"]), int(data["stop"]), str(data["mode"]), str(data["against"]),
    )  # fmt: skip


def play(text: str) -> str:
    """Play the conversations of a job, and tell what was found."""
    block = work(unpacked(text))
    return json.dumps({
        **block._asdict(), "found": _told(block.found), "mended": _told(list(block.mended)), "cost": list(block.cost),
    })  # fmt: skip


def _told(found: Found) -> list[tuple[int, dict[str, object]]]:
    return [(number, one._asdict()) for number, one in found]


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


class Clock:
    """How long may it take? For ever, if no minutes are given. ``begin``: when the command began, by the same clock."""

    def __init__(self, begin: float, minutes: float | None, shrinks: bool) -> None:
        self.begin, self.seconds = begin, None if minutes is None else 60 * minutes
        self.playing = PLAYING if shrinks else 1.0

    def to_play(self) -> float | None:
        """Seconds that are left for playing."""
        return self._left(self.playing)

    def to_shrink(self) -> float | None:
        """Seconds that are left for everything."""
        return self._left(1.0)

    def _left(self, share: float) -> float | None:
        if self.seconds is None:
            return None
        return max(0.0, self.begin + min(share * self.seconds, self.seconds - REPORT) - time.monotonic())


class CampaignShrink(NamedTuple):
    """A failure to be made small."""

    failure: Failure
    plan: CampaignPlan


def shrink_one(job: CampaignShrink) -> Failure:
    """The work of a process."""
    plan = job.plan
    return shrunk(
        job.failure, plan.profile, plan.models, mode=plan.mode, properties=plan.properties, against=plan.against
    )


class CampaignSearch:
    """One campaign. What is found is kept at once. ``on``: the address of a cluster that plays; "" = this machine."""

    def __init__(
        self,
        plan: CampaignPlan,
        campaign: Campaign,
        folder: CampaignFolder | None,
        clock: Clock,
        jobs: int,
        on: str = "",
    ) -> None:
        self.plan, self.campaign, self.folder, self.clock, self.jobs, self.on = plan, campaign, folder, clock, jobs, on
        self.corpus: list[StoredCaseResult] = []
        self._complained = ""

    def check(self, stored: list[StoredCase]) -> None:
        """Play the stored cases, all of them, in the order of their files."""
        ended: dict[int, StoredCaseResult] = {}
        with closing(self._spread(check, stored, lambda: None)) as results:
            for one in progress(results, len(stored), "stored cases"):
                if isinstance(one.result, Unfinished):
                    ended[one.number] = StoredCaseResult(one.share.file, [], f"{one.result.how}, twice")
                else:
                    ended[one.number] = one.result
        self.corpus = [ended[number] for number in sorted(ended)]

    @property
    def known(self) -> dict[Group, str]:
        """Groups that a stored case shows, and its file."""
        return groups_of(self.corpus)

    def play(self, examples: int | None, part: Shard = WHOLE) -> None:
        """Play what was not played yet of this part of so many conversations, or of as many as there is time for."""
        plan, done = self.plan, list(self.campaign.done)
        start, stop = part.span(SPREAD if examples is None else examples)
        todo = blocks(
            plan.profile, plan.properties, plan.models, plan.seed, stop, start, plan.mode, done, plan.against
        )
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
        from cachesim.tools.search.campaign_jobs import PLAY, block_of, packed, unpacked

        for one in played_elsewhere(self.on, PLAY, map(packed, todo), self.clock.to_play):
            result = one.result if isinstance(one.result, Unfinished) else block_of(one.result)
            yield Done(one.number, unpacked(one.share), result)

    def shrink(self) -> None:
        """Make every failure small, as far as there is time."""
        failures = sorted(self.campaign.failures.values(), key=lambda one: (one.first, one.finding.group))
        todo = [CampaignShrink(one, self.plan) for one in failures
                if not one.shrunk and one.finding.kind != DIED and one.finding.group not in self.known]  # fmt: skip
        with closing(self._spread(shrink_one, todo, self.clock.to_shrink)) as results:
            for one in progress(results, len(todo), "shrinking"):
                finding = one.share.failure.finding
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
