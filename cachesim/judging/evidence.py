"""Grades of outcomes: the stored table that says which answers of rules were seen on a real server.

`make grades` writes the table, one file per engine in ``engines/evidence``. An outcome that is not in it was read in a
source only. An engine without a file is not graded.
"""

from __future__ import annotations

import json
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from cachesim.base.files import write_whole
from cachesim.base.reading import kind
from cachesim.engines.rule import RULES
from cachesim.engines.shared.outcomes import NEGATED, Outcome, graded_rules
from cachesim.engines.shipped import SHIPPED

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
    if engine not in SHIPPED or not kind(path):
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
    line = SHIPPED[engine].line
    return frozenset(str(fn.rule) for name in line  # type: ignore[attr-defined]
                     for fn in graded_rules(SHIPPED[engine].profiles[name]).values())  # fmt: skip


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
