"""``python -m tests.fuzz --minutes M --jobs J``: a long campaign over the newest rules of every engine, and over the
table of what must hold. Prints how many conversations were played, and every distinct failure with its one-line case.

Findings under the newest rules are known defects as a rule; one where a property should hold is news, and exit code 1.
What was found until then is printed too when the campaign is interrupted.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from typing import Any, Callable, Iterable, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.base.pool import spread as pooled
from cachesim.base.pool import whole
from cachesim.scenarios.notation.shrink import shrink
from cachesim.tools.search.campaign import Campaign, CampaignPlan, Failure, blocks, run, shrunk
from cachesim.tools.search.drawn_conversation import DrawnConversation
from cachesim.tools.search.properties import PROPERTIES
from cachesim.tools.search.property_failure import PropertyFailure
from tests.fuzz.expected import HOLD, held, unexpected
from tests.fuzz.rediscovery import one_line

MAIN = ("llama_cpp@head", "ik_llama@main", "mlx_lm@0.32.2", "llama_cpp@pr24143-on-head", "llama_cpp@24035-v3")
ROUND = 1000           # conversations under one profile before the next one has its turn
HELD = 100             # conversations of a row of the table in each round


class News(NamedTuple):
    """Something that was found where nothing should be: row of the table, conversation (None = it could not be drawn),
    finding."""

    row: int
    case: DrawnConversation | None
    finding: PropertyFailure


def hold(row: int, first: int) -> list[News]:
    """What is found in a block of conversations under a row of the table."""
    return [News(row, case, finding) for case, finding in unexpected(HOLD[row], 0, first + HELD, first)]


def told_of(one: News) -> str:
    """A finding with its smallest case."""

    def fails(case: DrawnConversation) -> bool:
        try:
            return any(found.group == one.finding.group for found in held(HOLD[one.row], case))
        except BadInput:
            return False

    head = f"  {HOLD[one.row].profile} {one.finding.name}: {one.finding.text} ({one.finding.label})"
    if one.case is None:
        return f"{head}\n         {one.finding.causes[-1]}"
    return f"{head}\n         {one_line(shrink(one.case, fails, 800, one.case.seed), HOLD[one.row].profile)}"


def plan_of(profile: str) -> CampaignPlan:
    return CampaignPlan(profile, tuple(PROPERTIES), (), "provenance", 0)


def failure_of(profile: str, failure: Failure) -> str:
    """A failure under the newest rules with its smallest case."""
    small = shrunk(failure, plan_of(profile))
    line = one_line(small.small, profile) if small.small else "?"
    return f"  {failure.times:6} {small.finding.name}: {small.finding.text} ({small.finding.label})\n         {line}"


def search(minutes: int, jobs: int, campaigns: dict[str, Campaign], news: list[News]) -> None:
    """Round after round until the time is over, one at least."""
    end, first, played = time.monotonic() + 60 * minutes, 0, 0
    while not first or time.monotonic() < end:
        for profile, campaign in campaigns.items():
            for block in run(blocks(plan_of(profile), first + ROUND, first), jobs):
                campaign.take(block)
        for found in spread(jobs, hold, [(row, first // ROUND * HELD) for row in range(len(HOLD))]):
            news += found
        first, played = first + ROUND, played + HELD * len(HOLD)
        print(f"{sum(one.played for one in campaigns.values()) + played} conversations, {len(news)} news", flush=True)


def spread(jobs: int, work: Callable[..., Any], todo: Iterable[tuple[Any, ...]]) -> Iterable[Any]:
    """Results in the order of the work, from so many processes."""
    yield from whole(pooled(partial(_apart, work), todo, jobs))


def _apart(work: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return work(*args)


def main() -> int:
    """0 = nothing was found where nothing should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("-j", "--jobs", type=int, default=1)
    args = parser.parse_args()
    campaigns = {profile: Campaign(profile) for profile in MAIN}
    news: list[News] = []
    try:
        search(args.minutes, args.jobs, campaigns, news)
    except KeyboardInterrupt:
        print("interrupted")
    for profile, campaign in campaigns.items():
        print(f"\n{profile}: {campaign.played} conversations, {len(campaign.failures)} distinct failures")
        todo = sorted(campaign.failures.values(), key=lambda one: -one.times)
        if todo:
            print(*spread(args.jobs, failure_of, [(profile, one) for one in todo]), sep="\n", flush=True)
    distinct = {(HOLD[one.row].profile, *one.finding.group): one for one in reversed(news)}
    print(f"\nwhere nothing should be found: {len(news)} findings, {len(distinct)} distinct")
    if distinct:
        print(*spread(args.jobs, told_of, [(one,) for one in distinct.values()]), sep="\n")
    return 1 if news else 0


if __name__ == "__main__":
    sys.exit(main())
