"""List of the scenarios that show each rule.

First come scenarios in which the rule determines the reuse or tokens are lost to it, then those in which it is called
and has its effect. Among equals, lessons come first, then short scenarios.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Iterable

from cachesim.base.pool import spread, whole
from cachesim.engines.rule import has_effect, role_of
from cachesim.events import Decided
from cachesim.judging.judged_run import Run, run_judged
from cachesim.scenarios.corpus import SHOWN_IN
from cachesim.scenarios.schema import Scenario
from tests.scenarios.whole import corpus

CORPUS = Path(__file__).resolve().parents[2] / "scenarios"
MOST = 3


def ranks(run: Run) -> dict[str, int]:
    """The rules that a run asks, and how well it shows them: 0 best."""
    found: dict[str, int] = {}
    for event in run.log.events:
        if isinstance(event, Decided):
            role = role_of(event.rule)
            rank = 1 if role is not None and has_effect(role, event.value) else 2
            found[event.rule] = min(rank, found.get(event.rule, rank))
    for one in run.requests:
        for rule in (one.answer.deciding, *(charge.rule for charge in one.ledger.charges)):
            if rule in found:
                found[rule] = 0
    return found


def _play(job: tuple[Scenario, str]) -> tuple[str, int, dict[str, int]]:
    scenario, profile = job
    return scenario.id, len(scenario.steps), ranks(run_judged(scenario, profile, "provenance"))


def lines(played: Iterable[tuple[str, int, dict[str, int]]]) -> list[str]:
    """A line for each rule."""
    best: dict[str, dict[str, tuple[int, bool, int]]] = defaultdict(dict)
    for name, steps, found in played:
        for rule, rank in found.items():
            key = (rank, "-lesson-" not in name, steps)
            best[rule][name] = min(key, best[rule].get(name, key))
    return [f"{rule}: {' '.join(sorted(best[rule], key=lambda name: (best[rule][name], name))[:MOST])}"
            for rule in sorted(best)]  # fmt: skip


def main() -> None:
    """Write the file."""
    scenarios = corpus()
    jobs = [(one, profile) for one in scenarios for profile in one.profiles]
    (CORPUS / SHOWN_IN).write_text("\n".join(lines(whole(spread(_play, jobs, 2)))) + "\n", "utf-8")


if __name__ == "__main__":
    main()
