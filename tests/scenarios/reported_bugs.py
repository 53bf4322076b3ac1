"""Reported bugs (``bugs.toml``), the scenarios that show them, and a check of each claim.

``python -m tests.scenarios.reported_bugs [ENTRY...]`` prints what is wrong with strict reports. With
``--draw 30 --seed 7`` it prints entries for a reader, who judges whether their scenarios show what the reports say.
"""

from __future__ import annotations

import argparse
import random
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from cachesim.engines.registry import rules_of
from cachesim.engines.rule import about
from cachesim.engines.rule_outcomes import graded_rules
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging.deciding_rule import deciding_rule
from cachesim.judging.judged_run import Run, numbers, run_judged
from cachesim.scenarios.schema import PARTLY, STRICT, BugReport, Expect, Scenario
from tests.scenarios.whole import corpus

TABLE = Path(__file__).with_name("bugs.toml")
NOT, LATER, OUT = "not", "later", "out"
CLASSES = (STRICT, PARTLY, NOT, LATER, OUT)
PROVENANCE = "provenance"


class Bug(NamedTuple):
    """An entry of the table. ``kind`` and ``why`` are empty if a scenario shows it."""

    entry: str
    title: str                   # what a user saw
    threads: tuple[str, ...]     # owner/repository#number
    kind: str                    # NOT, LATER or OUT
    why: str


class Shown(NamedTuple):
    """A reported bug in a scenario."""

    scenario: Scenario
    report: BugReport

    @property
    def command(self) -> str:
        """The command that shows the fault."""
        return f"cachesim why {self.scenario.id} {self.report.request} -p {self.report.fault}"


def bugs() -> dict[str, Bug]:
    """Return the entries of the table by id, in its order."""
    raw = tomllib.loads(TABLE.read_text("utf-8"))
    return {entry: Bug(entry, one["title"], tuple(one["threads"]), one.get("class", ""), one.get("why", ""))
            for entry, one in raw.items()}  # fmt: skip


def shown() -> dict[str, list[Shown]]:
    """Return the reports of all scenarios by entry, strict ones first."""
    found: dict[str, list[Shown]] = {}
    for scenario in corpus():
        for report in scenario.reports:
            found.setdefault(report.entry, []).append(Shown(scenario, report))
    return {entry: sorted(some, key=lambda case: CLASSES.index(case.report.claim)) for entry, some in found.items()}


def kind_of(bug: Bug, reports: dict[str, list[Shown]]) -> str:
    """Return the class of an entry: that of its best report, else that of the table."""
    return reports[bug.entry][0].report.claim if bug.entry in reports else bug.kind


def observed(run: Run, number: int) -> dict[str, Any]:
    """Return what a file can expect of a request."""
    one = run.requests[number]
    return {"died": one.answer.died, **numbers(one), "checkpoints": one.checkpoints}


def expected(expect: Expect | None, number: int) -> dict[str, Any]:
    """Return what a file does expect of a request."""
    if expect is None:
        return {}
    lists = {one.name: getattr(expect, one.name) for one in fields(expect)}
    found = {name: values[number] for name, values in lists.items()
             if isinstance(values, tuple) and name not in ("broken", "died", "undecided")}  # fmt: skip
    return found | ({} if expect.died is None else {"died": number in expect.died})


def differing(case: Shown) -> list[str]:
    """Return what the file expects of the request under both rule sets, with different values."""
    number = case.report.request
    fault, fixed = (expected(case.scenario.expect.get(name), number) for name in (case.report.fault, case.report.fixed))
    return [key for key in fault if key in fixed and fault[key] != fixed[key]]


def with_rule(report: BugReport) -> Iterator[RuleSet]:
    """Yield the rule set with the fault, once for each rule of this id or family that the fixed one has in another
    variant, with only this rule replaced."""
    old, new = rules_of(report.fault), rules_of(report.fixed)
    theirs = graded_rules(new)
    for field, fn in graded_rules(old).items():
        name = about(fn).id
        if (name == report.rule or name.startswith(f"{report.rule}.")) and theirs.get(field, fn) != fn:
            yield old.changed({field: theirs[field]})


def is_cured(case: Shown, table: RuleSet, fault: Run, fixed: Run) -> bool:
    """True if the fault is gone under ``table``: the answer is right, and as little is lost as under the fixed
    rule set."""
    number = case.report.request
    run = run_judged(case.scenario, case.report.fault, PROVENANCE, table=table)
    if number in run.broken:
        return False
    was, got, want = (observed(some, number) for some in (fault, run, fixed))
    return number in fault.broken or all(_as_good(was[key], got[key], want[key]) for key in differing(case)[:1])


def _as_good(was: Any, got: Any, want: Any) -> bool:
    """True if a value moved from ``was`` as far as ``want``."""
    return got == want or (isinstance(want, int) and (got > want > was or got < want < was))


def complaints(case: Shown) -> Iterator[str]:
    """Yield what a strict report claims and its scenario does not show, except the rule that ``why`` names."""
    scenario, report = case
    fault, fixed = (run_judged(scenario, name, PROVENANCE) for name in (report.fault, report.fixed))
    broken, number = report.request in fault.broken, report.request
    if number in fixed.broken or fixed.requests[number].answer.died:
        yield f"request {number} is broken under {report.fixed}"
    if broken and number not in scenario.expect[report.fault].broken:
        yield f"broken under {report.fault}, which the file does not expect"
    if not broken and not differing(case):
        yield f"right under {report.fault}, and the file expects the same under {report.fixed}"
        return
    tables = list(with_rule(report))
    if not tables:
        yield f"{report.fixed} has no other variant of {report.rule}"
    elif not any(is_cured(case, table, fault, fixed) for table in tables):
        yield f"{report.rule} alone, as in {report.fixed}, leaves the fault"


def first_named(case: Shown) -> str:
    """Return the rule that ``why`` names first."""
    decided = deciding_rule(run_judged(case.scenario, case.report.fault, PROVENANCE), case.report.request)
    return decided.rule if decided is not None else ""


def is_named(rule: str, report: BugReport) -> bool:
    """True if a rule is the one of the report, or of its family."""
    return rule == report.rule or rule.startswith(f"{report.rule}.")


def drawn(count: int, seed: int) -> list[Shown]:
    """Return reports drawn at random, one for each entry."""
    every = [some[0] for _, some in sorted(shown().items()) if some[0].report.claim == STRICT]
    return random.Random(seed).sample(every, min(count, len(every)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("entries", nargs="*")
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.draw:
        for case in drawn(args.draw, args.seed):
            print(f"{case.report.entry:6} {case.command}")
        return
    for entry, some in shown().items():
        for case in some if not args.entries or entry in args.entries else ():
            if case.report.claim == STRICT:
                named, wrong = first_named(case), list(complaints(case))
                if not is_named(named, case.report):
                    wrong.append(f"why names {named or 'no rule'}")
                print(f"{entry:6} {case.scenario.id}: {'; '.join(wrong) or 'strict'}")


if __name__ == "__main__":
    main()
