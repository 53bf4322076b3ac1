"""Grades of outcomes: the stored table that says which answers of rules were seen on a real server.

`make grades` writes the table, one file per engine in ``engines/evidence``. An outcome that is not in it was read in a
source only. An engine without a file is not graded.
"""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from cachesim.base.errors import Terminated
from cachesim.base.files import write_whole
from cachesim.base.untrusted_files import kind
from cachesim.engines.registry import BUILTIN, ENGINES
from cachesim.engines.rule import RULES
from cachesim.engines.shared.rule_outcomes import (
    NEGATED,
    Outcome,
    TooManyDecisions,
    Variants,
    graded_rules,
    limit_decisions,
    replace_outcome,
    report_outcomes,
    variants_of,
)
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging.judged_run import Run, RunInterrupted, run_judged
from cachesim.scenarios.runner import Answers, play

FOLDER = Path(__file__).parents[1] / "engines" / "evidence"
PREDICTED = "predicted, not seen on a real server"


class Grade(StrEnum):
    """How an outcome is known."""

    RECORDED = "recorded"    # with another answer a recording of a real server would disagree
    COMPARED = "compared"    # with another answer a comparison with the real code would fail
    READ = "read"            # from a source or a thread only
    OURS = "ours"            # of a repaired or proposed rule set, or of a user's own


class Graded(NamedTuple):
    """The stored grade of an outcome. ``seen``: where each other answer fails, by its name; ``unseen``: other answers
    that nothing here refutes; ``inadmissible``: those with which our server cannot go on."""

    grade: Grade
    seen: Mapping[str, str]
    unseen: tuple[str, ...] = ()
    inadmissible: tuple[str, ...] = ()


class GradeTable(NamedTuple):
    """The grades of an engine: by rule and case, the digest of each rule's code, those of the recordings cited."""

    graded: Mapping[Outcome, Graded]
    code: Mapping[str, str]
    recordings: Mapping[str, str]

    def grade(self, outcome: Outcome) -> Grade:
        """The grade of an outcome of a rule that is in a rule set of the main line; READ where it is not listed."""
        found = self.graded.get(outcome)
        return found.grade if found else Grade.READ


def path_of_table(engine: str) -> Path:
    """The file with the grades of an engine."""
    return FOLDER / f"{engine}.json"


@cache
def table_of(engine: str) -> GradeTable | None:
    """The stored grades of an engine, None if it has none."""
    path = path_of_table(engine)
    if engine not in BUILTIN or not kind(path):
        return None
    data = json.loads(path.read_text("utf-8"))
    graded = {
        Outcome(rule, case): Graded(Grade(one["grade"]), one.get("seen", {}),
                                    tuple(one.get("unseen", ())), tuple(one.get("inadmissible", ())))
        for rule, about in data["rules"].items() for case, one in about["cases"].items()
    }
    return GradeTable(graded, {rule: about["code"] for rule, about in data["rules"].items()}, data["recordings"])


def write_table(engine: str, table: GradeTable) -> None:
    """Store the grades of an engine, sorted."""
    rules: dict[str, Any] = {rule: {"code": code, "cases": {}} for rule, code in sorted(table.code.items())}
    for outcome, one in sorted(table.graded.items()):
        case: dict[str, Any] = {"grade": one.grade}
        case |= {"seen": dict(sorted(one.seen.items()))} if one.seen else {}
        case |= {name: sorted(names) for name in ("unseen", "inadmissible") if (names := getattr(one, name))}
        rules[outcome.rule]["cases"][outcome.case] = case
    data = {"rules": rules, "recordings": dict(sorted(table.recordings.items()))}
    write_whole(path_of_table(engine), (json.dumps(data, indent=1) + "\n").encode())
    table_of.cache_clear()


@cache
def released_rules(engine: str) -> frozenset[str]:
    """The rules of an engine that some build has: those of the rule sets of its main line."""
    line = BUILTIN[engine].line
    return frozenset(str(fn.rule) for name in line  # type: ignore[attr-defined]
                     for fn in graded_rules(BUILTIN[engine].profiles[name]).values())  # fmt: skip


def grade_of(engine: str, outcome: Outcome) -> Grade | None:
    """The grade of an outcome, None where the engine is not graded. A rule that is in no build is ours, unless a
    patched real server was recorded."""
    table = table_of(engine)
    if table is None:
        return None
    grade = table.grade(outcome)
    return Grade.OURS if grade is Grade.READ and outcome.rule not in released_rules(engine) else grade


def is_unseen(engine: str, outcome: Outcome, other: str) -> bool:
    """True if no real server is known to answer this and not the other. A neighbour of an answer is no other one where
    some other answer was refuted: it stands for those that no rule set has. A number that says that there is nothing
    has none at all."""
    table = table_of(engine)
    if table is None or grade_of(engine, outcome) is Grade.OURS or (outcome.case, other) == ("none", "one more"):
        return False
    found = table.graded.get(outcome)
    if found is None:
        return True
    return other not in (*found.seen, *found.inadmissible) and (not found.seen or other in RULES or other == NEGATED)


def grades_of_rule(engine: str, rule: str) -> dict[str, Grade]:
    """The grades of the outcomes of a rule by case, as far as any recording has them. {} = none of them occurs."""
    table = table_of(engine)
    cases = [outcome for outcome in table.graded if outcome.rule == rule] if table else []
    return {one.case: grade for one in cases if (grade := grade_of(engine, one)) is not None}


# Dependence of a run on outcomes that no real server was seen to have.
#
# A verdict, or the tokens that are charged, depend on an outcome if they change when the outcome is replaced by another
# admissible answer. Only answers that no recording and no comparison refutes are tried, and only where an answer is
# wrong or tokens were charged.

MODE = "provenance"
MOST = 16                # other answers that are tried for one run
TOKENS = 60_000          # and tokens of prompts in all these tries
ENDLESS = 20             # a repetition that asks for so many times the decisions of the run is ended


class Dependence(NamedTuple):
    """What request ``request`` owes to an outcome that was read and not seen: its ``what``, a "verdict" or a "charge".
    With the answer ``other`` it would be another."""

    request: int
    what: str
    rule: str
    case: str
    other: str


def predicted(run: Run, rules: RuleSet | None = None) -> list[Dependence]:
    """What of a run depends on outcomes that were only read, each request and kind once. [] where nothing is wrong and
    nothing was charged, and for rules that are not graded. ``rules``: those of a workload's server, which is repeated
    whatever its size and for its verdicts only; None = those of the run's profile."""
    charged = rules is None and any(one.ledger.charges for one in run.requests)
    name = run.profile.partition("@")[0]
    if not (run.broken or charged) or table_of(name) is None:
        return []
    known = ENGINES[name].profiles
    if rules is None and run.profile not in known:
        return []
    size = sum(len(step.request.prompt) for step in run.scenario.steps)
    most = MOST if rules is not None else min(MOST, TOKENS // max(1, size))
    return _Again(run, rules or known[run.profile], variants_of_engine(name)).dependences(most)


@cache
def variants_of_engine(engine: str) -> Variants:
    """The rules of the rule sets that come with cachesim, by field."""
    return variants_of(BUILTIN[engine].profiles.values())


class _Again:
    """A run that is repeated with other answers: judged where it has wrong answers, else by positions only, which is
    enough for the tokens that are evaluated again."""

    def __init__(self, run: Run, rules: RuleSet, variants: Variants) -> None:
        self.run, self.rules, self.variants = run, rules, variants
        self.profile = run.profile.removesuffix(" (changed)")
        self.asked = 0

    def dependences(self, most: int) -> list[Dependence]:
        """Each request and kind with the first outcome that it depends on; ``most`` other answers are tried, those of
        rules that charges and requests name first."""
        charged = [i for i, one in enumerate(self.run.requests) if one.ledger.charges]
        wanted = {(i, "verdict") for i in self.run.broken} | {(i, "charge") for i in charged}
        cited = {charge.rule for i in charged for charge in self.run.requests[i].ledger.charges}
        cited |= {self.run.requests[i].answer.deciding for i, _ in wanted}
        found: dict[tuple[int, str], Dependence] = {}
        for outcome, other in sorted(self._unseen(), key=lambda pair: pair[0].rule not in cited)[:most]:
            for request, what in self._changed(outcome, other):
                found.setdefault((request, what), Dependence(request, what, *outcome, other))
            if wanted <= found.keys():
                break
        return [found[key] for key in sorted(found)]

    def _unseen(self) -> list[tuple[Outcome, str]]:
        """The outcomes of the run with each other answer that nothing refutes, those that are the same once."""
        asked: Counter[Outcome] = Counter()
        met: Counter[tuple[Outcome, str]] = Counter()

        def hear(outcome: Outcome, others: Mapping[str, object]) -> None:
            asked[outcome] += 1
            met.update((outcome, other) for other in others)

        self._played(report_outcomes(self.rules, self.variants, hear))
        self.asked = sum(asked.values())
        engine = self.profile.partition("@")[0]
        return [(outcome, other) for (outcome, other), n in sorted(met.items()) if is_unseen(engine, outcome, other)
                and (other == NEGATED or n < asked[outcome] or (outcome, NEGATED) not in met)]  # fmt: skip

    def _played(self, rules: RuleSet) -> dict[int, int]:
        """Tokens that each request reused."""
        answers = Answers()
        play(self.run.scenario, self.profile, "none", answers, rules)
        return {number: answer.cache_n for number, (_, answer) in answers.found.items()}

    def _changed(self, outcome: Outcome, other: str) -> list[tuple[int, str]]:
        """The wrong answers that would be right, and the charged requests that would reuse more or fewer tokens."""
        rules = limit_decisions(replace_outcome(self.rules, self.variants, outcome, other), ENDLESS * self.asked)
        right: list[tuple[int, str]] = []
        try:
            if self.run.broken:
                again = run_judged(self.run.scenario, self.profile, MODE, table=rules, with_ledger=False).requests
                right = [(i, "verdict") for i in self.run.broken if again[i].judged.equal_cold is not False]
                reused = {i: one.answer.cache_n for i, one in enumerate(again)}
            else:
                reused = self._played(rules)
        except RunInterrupted as stopped:      # of a repetition nothing is shown
            raise KeyboardInterrupt if stopped.number is None else Terminated(stopped.number) from None
        except (Exception, TooManyDecisions):    # the server cannot go on with that answer: it is not admissible
            return []
        return right + [(i, "charge") for i, one in enumerate(self.run.requests)
                        if one.ledger.charges and reused.get(i, -1) != one.answer.cache_n]  # fmt: skip
