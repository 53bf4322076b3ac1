"""Coverage of the rules by the bundled scenarios, per profile.

The rules that its verdict cites identify a run: the rules that determined the reuse, the rules to which tokens were
charged, the judgement of each request, and rules that acted before an answer (ACTS). The rules in which two profiles
differ, and that either called, identify a pair of profiles. A scenario counts if any of its runs or pairs differs from
those of all earlier scenarios (in the order of the files).
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Iterable, NamedTuple, Sequence

from cachesim.base.pool import spread, whole
from cachesim.engines.registry import profiles
from cachesim.engines.rule import rule_id
from cachesim.engines.shared.rule_set import differences
from cachesim.events import Decided
from cachesim.judging.judged_run import Run, run_judged
from cachesim.scenarios.schema import Scenario
from tests.scenarios.whole import corpus

PROFILES = profiles()
CORPUS = Path(__file__).resolve().parents[2] / "scenarios"

Combination = frozenset[str]
ACTS = (
    "LC-SHIFT", "LC-NPAST-REUSE", "LC-SPEC-", "LC-DECODE.RETRY", "LC-TRIM", "IK-TRIM-FAILED", "IK-SPEC-", "IK-SHIFT",
    "IK-PROMPT-SHIFT", "IK-SLOT-RESTORE", "IK-DECODE-RETRY", "ML-ARRAYS-MASK", "ML-ARRAYS-EXTEND", "ML-CANCEL.STORE",
    "ML-LRU-BYTES", "ML-LRU-MOVE", "ML-LRU-PREFIX", "ML-LRU-SNAP.", "ML-PC-TAILS.ZEROS", "ML-RING-TRIM.cut",
    "ML-SPEC-START",
)
"""Rules that most answers never meet; where one of them says yes, the verdict is about what it did."""


class Seen(NamedTuple):
    """A run in coverage: the rules that it called, and the combination that its verdict cites."""

    scenario: str
    profile: str
    asked: Combination
    cited: Combination


def seen(run: Run) -> Seen:
    """Return the rules that a run called, and those that its verdict cites."""
    asked = frozenset(e.rule for e in run.log.events if isinstance(e, Decided))
    acted = {e.rule for e in run.log.events if isinstance(e, Decided) and e.rule.startswith(ACTS) and e.value}
    return Seen(run.scenario.id, run.profile, asked, frozenset(_cited(run)) | acted)


def _cited(run: Run) -> Iterable[str]:
    for one in run.requests:
        if one.answer.deciding:
            yield one.answer.deciding
        yield from (f"{c.event} {c.rule}" for c in one.ledger.charges)
        for verdict in (one.judged.answer, one.judged.state):
            if verdict.equal_cold is False:
                yield f"{verdict.rung} {one.answer.deciding}"


def combinations_of(runs: Sequence[Seen]) -> set[tuple[str, Combination]]:
    """Return the combinations of a scenario's runs."""
    found = {("cited", run.cited) for run in runs if run.cited}
    for a, b in combinations(runs, 2):
        apart = differing(a.profile, b.profile) & (a.asked | b.asked)
        if apart:
            found.add(("differ", apart))
    return found


@cache
def differing(a: str, b: str) -> Combination:
    """Ids of the rules in which two profiles differ."""
    rows = differences(PROFILES[a], PROFILES[b])
    return frozenset(rule_id(rule) for _, x, y in rows for rule in (x, y) if callable(rule))


def counting(runs: Sequence[Seen]) -> dict[str, int]:
    """How many new combinations each scenario adds, in the order given; 0 = it does not count."""
    known: set[tuple[str, Combination]] = set()
    out: dict[str, int] = {}
    for name in dict.fromkeys(run.scenario for run in runs):
        mine = combinations_of([run for run in runs if run.scenario == name])
        out[name] = len(mine - known)
        known |= mine
    return out


def _play(job: tuple[Scenario, str]) -> Seen:
    return seen(run_judged(*job, "provenance"))


def play(scenarios: Iterable[Scenario], processes: int = 2) -> list[Seen]:
    """Every scenario under every profile that it names."""
    jobs = [(scenario, profile) for scenario in scenarios for profile in scenario.profiles]
    return whole(spread(_play, jobs, processes))


def table(runs: Sequence[Seen]) -> list[str]:
    """Rules by profiles: in how many runs a rule was asked."""
    counts = Counter((rule, run.profile) for run in runs for rule in run.asked)
    names = [name for name in PROFILES if any(run.profile == name for run in runs)]
    lines = [f"{'':26}" + "".join(f"{k:>4}" for k in range(len(names)))]
    for rule in sorted({rule for rule, _ in counts}):
        cells = "".join(f"{counts[rule, name] or '.':>4}" for name in names)
        lines.append(f"{rule:26}{cells}")
    return lines + [f"{k:>4} {name}" for k, name in enumerate(names)]


def main() -> None:
    """Print the table, the scenarios that add nothing, and the sums."""
    scenarios = corpus()
    runs = play(scenarios)
    new = counting(runs)
    print("\n".join(table(runs)))
    print("\nno new combination: " + (", ".join(name for name, n in new.items() if not n) or "none"))
    print(f"{len(scenarios)} scenarios, {len(runs)} runs, {sum(new.values())} distinct combinations")
    print(f"{sum(n > 0 for n in new.values())} scenarios count")


if __name__ == "__main__":
    main()
