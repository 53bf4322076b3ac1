"""``python -m tests.fuzz --minutes M --jobs J``: a long campaign over the newest rules of every engine, and over the
table of properties that should hold. Prints the number of conversations and every distinct failure with its line.

Failures under the newest rules are usually known defects. A failure of a property that should hold is new: exit code 1.
An interrupted campaign prints its results so far.
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

MAIN = ("llama_cpp@b10587", "ik_llama@main", "mlx_lm@0.32.2", "llama_cpp@pr24143-on-b10587", "llama_cpp@24035-v3")
ROUND = 1000           # conversations under a profile in each round
HELD = 100             # conversations under a row of the table in each round


class News(NamedTuple):
    """A failure of a property that should hold: row of the table, conversation (None = could not be drawn), finding."""

    row: int
    case: DrawnConversation | None
    finding: PropertyFailure


def hold(row: int, first: int) -> list[News]:
    """Return the findings in a block of conversations under a row of the table."""
    return [News(row, case, finding) for case, finding in unexpected(HOLD[row], 0, first + HELD, first)]


def told_of(news: News) -> str:
    """Return a finding with its smallest case."""

    def fails(case: DrawnConversation) -> bool:
        try:
            return any(found.group == news.finding.group for found in held(HOLD[news.row], case))
        except BadInput:
            return False

    head = f"  {HOLD[news.row].profile} {news.finding.name}: {news.finding.text} ({news.finding.label})"
    if news.case is None:
        return f"{head}\n         {news.finding.causes[-1]}"
    return f"{head}\n         {one_line(shrink(news.case, fails, 800, news.case.seed), HOLD[news.row].profile)}"


def plan_of(profile: str) -> CampaignPlan:
    return CampaignPlan(profile, tuple(PROPERTIES), (), "provenance", 0)


def failure_of(profile: str, failure: Failure) -> str:
    """Return a failure under the newest rules with its smallest case."""
    small = shrunk(failure, plan_of(profile))
    line = one_line(small.small, profile) if small.small else "?"
    return f"  {failure.times:6} {small.finding.name}: {small.finding.text} ({small.finding.label})\n         {line}"


def search(minutes: int, jobs: int, campaigns: dict[str, Campaign], news: list[News]) -> None:
    """Search round after round until the time is over, at least one round."""
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
    """Yield results in the order of the work, from ``jobs`` processes."""
    yield from whole(pooled(partial(_apart, work), todo, jobs))


def _apart(work: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    return work(*args)


def main() -> int:
    """Return 0 if every property of the table held."""
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
