"""``python -m tests.fuzz --minutes M --jobs J``: a long campaign over the newest rules of every engine, and over the
table of what must hold. Prints how many conversations were played, and every distinct failure with its one-line case.

Findings under the newest rules are known defects as a rule; one where a property should hold is news, and exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from cachesim.fuzz.campaign import Campaign, blocks, run, shrunk
from cachesim.fuzz.properties import PROPERTIES
from tests.fuzz.expected import HOLD, unexpected

MAIN = ("llama_cpp@head", "ik_llama@main", "mlx_lm@0.32.2", "llama_cpp@pr24143-on-head", "llama_cpp@24035-v3")
ROUND = 1000           # conversations under one profile before the next one has its turn
HELD = 100             # conversations of a row of the table in each round


def hold(row: int, first: int) -> list[str]:
    """What is found in a block of conversations under a row of the table, in words."""
    one = HOLD[row]
    return [f"{one.profile} {case.model} conversation {case.seed}: {finding.name} {finding.text}"
            for case, finding in unexpected(one, 0, first + HELD, first)]


def main() -> int:
    """0 = nothing was found where nothing should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("-j", "--jobs", type=int, default=1)
    args = parser.parse_args()
    end, first, held = time.monotonic() + 60 * args.minutes, 0, 0
    campaigns = {profile: Campaign(profile) for profile in MAIN}
    news: list[str] = []
    while time.monotonic() < end:
        for profile, campaign in campaigns.items():
            for block in run(blocks(profile, tuple(PROPERTIES), (), 0, first + ROUND, first), args.jobs):
                campaign.take(block)
        with ProcessPoolExecutor(args.jobs) as pool:
            start = held // len(HOLD)
            news += [text for found in pool.map(hold, range(len(HOLD)), [start] * len(HOLD)) for text in found]
        first, held = first + ROUND, held + HELD * len(HOLD)
        print(f"{sum(one.played for one in campaigns.values()) + held} conversations, {len(news)} news", flush=True)
    for profile, campaign in campaigns.items():
        print(f"\n{profile}: {campaign.played} conversations, {len(campaign.failures)} distinct failures")
        for failure in campaign.failures.values():
            small = shrunk(failure, profile, ())
            line = repr(small.small.scenario(profile)) if small.small else "?"
            print(f"  {failure.times:6} {small.finding.name}: {small.finding.text} ({small.finding.rule})")
            print(f"         {line}")
    print(f"\n{held} conversations where nothing should be found: {len(news)} findings", *news[:50], sep="\n  ")
    return 1 if news else 0


if __name__ == "__main__":
    sys.exit(main())
